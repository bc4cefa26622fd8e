"""Commands list, show and status."""

import json
import re
import textwrap
from collections.abc import Container, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

from torch_tricks import preview
from torch_tricks.catalogue import Trick
from torch_tricks.errors import Refusal
from torch_tricks.git import GitError, Scratch
from torch_tricks.merging import renamed_by_owner
from torch_tricks.output import colored
from torch_tricks.project import Project, find_root
from torch_tricks.questions import OFF, TASK
from torch_tricks.template import (
    ANSWERS_FILE,
    Rendering,
    as_release,
    newest_of,
    released_versions,
)

SAMPLE = {"project_name": "Project", "preset": "minimal"}
"""The project for show outside of a project."""


def list_tricks(directory: Path, task: str, as_json: bool) -> None:
    """Prints the tricks of the project's template version, or of the built-in template.

    Args:
        task: task of the tricks. Empty: any task.
        as_json: whether to print JSON.

    Raises:
        Refusal: there is no such task.
    """
    project = project_at(directory)
    if project is None:
        questions, chosen = preview.own_version().questions, None
    else:
        with TemporaryDirectory(prefix="torch-tricks-") as scratch:
            rendering = project.render(Path(scratch), files=False)
        questions, chosen = rendering.questions, rendering.tricks
    if task:
        questions.read_data([f"{TASK}={task}"])
    tricks, group = questions.tricks, ""
    listed = [t for t in tricks.values() if not task or t.works(TASK, task)]
    if as_json:
        print_json([data_of(trick, chosen) for trick in listed])
        return
    for trick in listed:
        if trick.group != group:
            group = trick.group
            print(group)
        mark = "" if chosen is None else "in " if trick.name in chosen else "-  "
        print(describe(trick, tricks, f"  {mark}"))
    print("* recommended: in the preset of this name")


def data_of(trick: Trick, chosen: Container[str] | None) -> dict[str, Any]:
    """Returns the entries of a trick for JSON.

    Args:
        chosen: tricks of the project. None: there is no project.
    """
    entries = asdict(trick)
    del entries["once_in_all"]
    return entries | {"in_project": None if chosen is None else trick.name in chosen}


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def describe(
    trick: Trick, tricks: Container[str], start: str = "", tasks: Iterable[str] = ()
) -> str:
    """Returns the lines about a trick, of at most 100 characters.

    Args:
        tricks: names of all tricks.
        tasks: tasks to print if the trick works for all of them.
    """
    needed, bounds = [*trick.needs], []
    for question, choices in trick.works_with.items():
        if question == TASK:
            tasks = choices
            continue
        is_a_trick = question in tricks and OFF not in choices
        (needed if is_a_trick else bounds).append(trick.asks_for(question))
    lines = {
        "": f"{trick.title}: {trick.buys}",
        "tasks: ": ", ".join(tasks),
        "needs tricks: ": ", ".join(needed),
        "only with: ": ", ".join(bounds),
        "goes with: ": ", ".join(trick.goes_with),
        "needs: ": trick.wants,
    }
    begin = f"{start}{trick.name:15} {'*' if trick.recommended else ' '} "
    indent = " " * (len(start) + 18)
    wrapped = []
    for name, text in lines.items():
        if text:
            options = {"initial_indent": begin, "subsequent_indent": indent}
            wrapped.append(textwrap.fill(name + text, 100, **options))
            begin = indent
    return "\n".join(wrapped)


def project_at(directory: Path) -> Project | None:
    """Returns the project around a directory, if there is one."""
    return Project.at(directory) if find_root(directory) else None


def show_trick(word: str, directory: Path, as_json: bool) -> None:
    """Prints a trick, and the diff that it makes to a project, as text or JSON.

    Raises:
        Refusal: there is no such trick.
    """
    project = project_at(directory)
    with TemporaryDirectory(prefix="torch-tricks-") as name:
        aside = Path(name)

        def rendered(data: Mapping[str, Any], files: bool = True) -> Rendering:
            if project is not None:
                return project.render(aside, data, files=files)
            directory = Path(mkdtemp(dir=aside))
            own, given = preview.own_version(), SAMPLE | data
            return preview.render(own, "", directory, given, new=True, files=files)

        base = rendered({}, files=False)
        [found] = base.questions.find([word])
        questions = base.questions
        trick = questions.tricks[found]
        answers: dict[str, Any] = {"preset": "custom"}
        if project is None:
            answers[TASK] = trick.works_with.get(TASK, questions.choices[TASK])[0]
        without, with_it = (
            rendered(answers | questions.changed(base.answers | answers, take, leave))
            for take, leave in (([], [found]), ([word], []))
        )
        text = section(with_it, trick)
        scratch = Scratch(aside)
        before, after = (scratch.add_directory(r.directory) for r in (without, with_it))
        for tree in (before, after):
            tree.pop(ANSWERS_FILE, None)
        diff = scratch.diff(before, after, color=colored() and not as_json)
    if as_json:
        chosen = None if project is None else base.tricks
        print_json(data_of(trick, chosen) | {"section": text, "diff": diff})
        return
    tasks = questions.choices.get(TASK, ())
    print(describe(trick, questions.tricks, tasks=tasks))
    print(f"\n{text}\n")
    print(diff)


def section(rendering: Rendering, trick: Trick) -> str:
    """Returns the section of a trick in a project's README: idea, flags and source."""
    text = (rendering.directory / "README.md").read_text(encoding="utf-8")
    found = re.search(
        rf"^### {re.escape(trick.title)}\n(.*?)(?=^##)", text, re.MULTILINE | re.DOTALL
    )
    return found[1].strip() if found else trick.buys


@dataclass
class Status:
    """The state of a project. None: unknown."""

    source: str
    version: str
    task: str | None = None
    newer_versions: list[str] | None = None
    new_tricks: list[str] | None = None
    """Tricks of the newest version that the project's version does not have."""
    tricks_in: list[str] | None = None
    tricks_out: list[str] | None = None
    renamed: dict[str, str] | None = None
    """Folders and files: old path to new path."""
    edited: list[str] | None = None
    deleted: list[str] | None = None
    conflicts: list[str] | None = None
    not_known: str | None = None
    """Reason for unknown entries."""


def read_status(project: Project) -> Status:
    """Reads the state of a project; little is known without the template."""
    status = Status(project.source, project.version)
    try:
        if project.in_git:
            status.conflicts = project.with_markers()
        with TemporaryDirectory(prefix="torch-tricks-") as scratch:
            released = released_versions(project.source, project.directory)
            base = project.render(Path(scratch))
            known = base.questions.tricks
            status.tricks_in = base.tricks
            # Projects older than the question have this task.
            status.task = task = base.answers.get(TASK, "classification")
            status.tricks_out = [
                name
                for name, trick in known.items()
                if name not in base.tricks and trick.works(TASK, task)
            ]
            status.edited, status.deleted = compare(project, base, {})
            status.renamed = {}
            if status.deleted and project.in_git:
                names, status.renamed = renamed_by_owner(project, base.directory)
                status.edited, status.deleted = compare(project, base, names)
            # As in update.
            newest = project.render(
                Path(scratch), version=newest_of(released), check=False, files=False
            )
            status.newer_versions = newer(released, base, newest)
            tricks = (newest if status.newer_versions else base).questions.tricks
            status.new_tricks = [
                name
                for name, trick in tricks.items()
                if name not in known and trick.works(TASK, task)
            ]
    except (Refusal, GitError) as error:
        status.not_known = str(error)
    return status


def newer(released: list[str], base: Rendering, newest: Rendering) -> list[str]:
    """Returns the versions newer than a project's. Without a release, any other is newer."""
    if base.release and released:
        return [tag for tag in released if as_release(tag) > base.release]
    return [newest.version] * (newest.version != base.version)


def compare(
    project: Project, base: Rendering, names: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """Returns the files that the owner edited, and the files that the owner deleted.

    Args:
        names: current paths of moved files of the template.
    """
    edited, deleted = [], []
    names = {ANSWERS_FILE: project.answers_name, **names}
    for original in sorted(
        path for path in base.directory.rglob("*") if path.is_file()
    ):
        name = original.relative_to(base.directory).as_posix()
        path = project.directory / names.get(name, name)
        if not path.is_file():
            deleted.append(names.get(name, name))
        elif without_cr(path.read_bytes()) != without_cr(original.read_bytes()):
            edited.append(names.get(name, name))
    return edited, deleted


def without_cr(content: bytes) -> bytes:
    """Returns a text with LF line endings, as git stores it."""
    return content.replace(b"\r\n", b"\n")


def print_status(directory: Path, as_json: bool) -> None:
    """Prints the state of a project, as text or JSON."""
    project = Project.at(directory)
    status = read_status(project)
    if as_json:
        print_json(asdict(status))
        return
    seen, why = project.seen, status.not_known
    for name, value in asdict(status).items():
        if name == "not_known":
            continue
        if isinstance(value, dict):
            value = [f"{seen(old)} -> {seen(new)}" for old, new in value.items()]
        elif name in ("edited", "deleted", "conflicts") and value:
            value = [*map(seen, value)]
        if isinstance(value, list):
            value = ", ".join(value) or "none"
        label = "template" if name == "source" else name.replace("_", " ")
        print(f"{label:15} {value or 'not known'}")
    if why:
        print(f"note: {why}")
