"""What is said of tricks and projects, without changing anything."""

import json
import re
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch_tricks.catalogue import TRICKS
from torch_tricks.changing import render_recorded
from torch_tricks.errors import Refusal
from torch_tricks.git import Scratch
from torch_tricks.output import colored
from torch_tricks.project import Project
from torch_tricks.questions import Questions, Trick
from torch_tricks.template import (
    ANSWERS_FILE,
    RECORDED,
    Rendering,
    default_source,
    read_questions,
    released_versions,
    render,
)


def list_tricks(directory: Path) -> None:
    """Prints the tricks of the project's version of the template, or of the tool's own."""
    project = project_at(directory)
    if project is None:
        list_tricks_of_tool()
        return
    with TemporaryDirectory(prefix="torch-tricks-") as scratch:
        rendering = render_recorded(project, Path(scratch) / "project")
    for name, trick in rendering.questions.tricks.items():
        print(f"{'in ' if name in rendering.tricks else '-  '} {describe(trick)}")


def list_tricks_of_tool() -> None:
    """Prints the tricks of the template that belongs to the tool; offline, without their needs."""
    try:
        for trick in read_questions(*default_source()).tricks.values():
            print(describe(trick))
    except Refusal as refusal:
        for row in TRICKS:
            print(describe(Trick(row.name, row.title, row.buys, "", ())))
        print(f"note: what they need is not known: {refusal}", file=sys.stderr)


def describe(trick: Trick) -> str:
    """Returns the line about a trick."""
    needs = f" (needs {trick.needs})" if trick.needs else ""
    return f"{trick.name:13} {trick.title}: {trick.buys}{needs}"


def project_at(directory: Path) -> Project | None:
    """Returns the project in a directory, if there is one."""
    return Project.at(directory) if (directory / ANSWERS_FILE).is_file() else None


def show_trick(word: str, directory: Path) -> None:
    """Prints what a trick is, and the code that it adds to a project.

    Raises:
        Refusal: there is no such trick.
    """
    project = project_at(directory)
    with TemporaryDirectory(prefix="torch-tricks-") as name:
        aside = Path(name)
        without = render_with(
            project, aside / "without", take=[], leave=[word.partition("=")[0]]
        )
        with_it = render_with(project, aside / "with", take=[word], leave=[])
        [found] = with_it.questions.find([word])
        trick = with_it.questions.tricks[found]
        print(describe(trick))
        print(f"\n{section(with_it, trick)}\n")
        for rendering in (without, with_it):
            (rendering.directory / ANSWERS_FILE).unlink()
        scratch = Scratch(aside)
        trees = [scratch.add_directory(r.directory) for r in (without, with_it)]
        print(scratch.diff(*trees, color=colored()))


def render_with(
    project: Project | None, directory: Path, take: list[str], leave: list[str]
) -> Rendering:
    """Renders the project, or a minimal one, with other tricks."""

    def answers(questions: Questions, answered: Any) -> dict[str, Any]:
        given = {} if project else {"project_name": "Project", "preset": "minimal"}
        before = answered(given)
        return given | {"preset": "custom"} | questions.changed(before, take, leave)

    if project is None:
        return render(*default_source(), directory, answers)
    return render(
        None,
        RECORDED,
        directory,
        answers,
        project=project.directory,
        recorded=project.answers_file,
    )


def section(rendering: Rendering, trick: Trick) -> str:
    """Returns what the README of a project says of a trick: the idea, the flags, the source."""
    text = (rendering.directory / "README.md").read_text(encoding="utf-8")
    found = re.search(
        rf"^### {re.escape(trick.title)}\n(.*?)(?=^##)", text, re.MULTILINE | re.DOTALL
    )
    return found[1].strip() if found else trick.buys


@dataclass
class Status:
    """The state of a project; what could not be found out is None."""

    source: str
    version: str
    newer_versions: list[str] | None = None
    tricks_in: list[str] | None = None
    tricks_out: list[str] | None = None
    edited: list[str] | None = None
    deleted: list[str] | None = None
    conflicts: list[str] | None = None
    not_known: str | None = None
    """Why something could not be found out."""


def read_status(project: Project) -> Status:
    """Finds out what can be found out about a project: without the template, that is little."""
    status = Status(project.source, project.version)
    if project.in_git:
        status.conflicts = project.with_markers()
    try:
        with TemporaryDirectory(prefix="torch-tricks-") as scratch:
            released = released_versions(project.source, project.directory)
            base = render_recorded(project, Path(scratch) / "project")
            status.newer_versions = newer(released, base)
            status.tricks_in = base.tricks
            status.tricks_out = [
                n for n in base.questions.tricks if n not in base.tricks
            ]
            status.edited, status.deleted = compare(project, base)
    except Refusal as refusal:
        status.not_known = str(refusal)
    return status


def newer(released: list[str], base: Rendering) -> list[str]:
    """Returns the versions that are newer than a project's."""
    from packaging.version import Version

    return [tag for tag in released if base.release and Version(tag) > base.release]


def compare(project: Project, base: Rendering) -> tuple[list[str], list[str]]:
    """Returns the files that the owner edited, and those that the owner deleted."""
    edited, deleted = [], []
    for original in sorted(
        path for path in base.directory.rglob("*") if path.is_file()
    ):
        name = original.relative_to(base.directory).as_posix()
        path = project.directory / name
        if not path.is_file():
            deleted.append(name)
        elif without_cr(path.read_bytes()) != without_cr(original.read_bytes()):
            edited.append(name)
    return edited, deleted


def without_cr(content: bytes) -> bytes:
    """Returns a text with the line endings that git stores."""
    return content.replace(b"\r\n", b"\n")


def print_status(directory: Path, as_json: bool) -> None:
    """Prints the state of a project, for people or for programs."""
    status = read_status(Project.at(directory))
    if as_json:
        print(json.dumps(asdict(status), indent=2, ensure_ascii=False))
        return
    print(f"template        {status.source}")
    print(f"version         {status.version}")
    for name, values in (
        ("newer versions", status.newer_versions),
        ("tricks in", status.tricks_in),
        ("tricks out", status.tricks_out),
        ("edited", status.edited),
        ("deleted", status.deleted),
        ("conflicts", status.conflicts),
    ):
        known = "not known" if values is None else ", ".join(values) or "none"
        print(f"{name:15} {known}")
    if status.not_known:
        print(f"note: {status.not_known}")
