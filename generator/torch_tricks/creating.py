"""Command new: creates a project."""

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

from torch_tricks import preview
from torch_tricks.errors import Refusal
from torch_tricks.git import GitError, git, git_names
from torch_tricks.project import is_free_for_folder, parents
from torch_tricks.questions import ABOUT_THE_PROJECT, TASK, Questions
from torch_tricks.template import (
    ANSWERS_FILE,
    AS_IT_STANDS,
    Rendering,
    ask_own,
    default_source,
    find_version,
    git_address,
    newest_of,
    released_versions,
    render,
)

NO_FILES_OF_ANYBODY = {".git", ".venv", "venv", ".idea", ".vscode", ".DS_Store"}
NO_FILES_OF_ANYBODY |= {"lost+found"}
"""Entries of git, editors and file systems that an empty folder may have."""


FIRST = {"project_name", TASK, "preset"}
"""The questions of every project."""


@dataclass(frozen=True)
class Request:
    """Options of the command line for a new project."""

    preset: str
    take: Sequence[str]
    leave: Sequence[str]
    name: str
    data: Sequence[str]

    @property
    def to_ask(self) -> set[str]:
        """The first prompts: name, task and preset, unless passed."""
        given = {pair.partition("=")[0] for pair in self.data}
        given |= {"project_name"} if self.name else set()
        told = self.preset or self.take or self.leave or given - ABOUT_THE_PROJECT
        return ({"project_name"} if told else FIRST) - given

    def read(self, questions: Questions) -> tuple[dict[str, Any], list[str], list[str]]:
        """Returns the answers, the tricks to add to the preset, and the tricks to leave out.

        Raises:
            Refusal: there is no such question, answer or trick.
        """
        answers = questions.read_data(self.data)
        take, leave = questions.split(answers)
        if self.preset:
            questions.check_preset(self.preset)
            answers["preset"] = self.preset
        if self.name:
            answers["project_name"] = self.name
        return answers, [*self.take, *take], [*self.leave, *leave]


def create(
    dest: Path, request: Request, template: str, ref: str, ask: bool, beside: bool
) -> None:
    """Creates a project atomically, and prints the next steps.

    Prompts for the name, the task and the preset, and for the rest only if the preset is custom. If
    added or left out tricks change a preset, it becomes custom.

    Args:
        beside: whether the folder may have files. Those that the project has too are kept.

    Raises:
        Refusal: the folder is not free, or the options are invalid.
    """
    dest = dest.expanduser().absolute()
    if not beside:
        check_is_free(dest)
    source, version = choose_template(template, ref)
    is_own = not (template or ref) and version != AS_IT_STANDS

    def attempt(place: str, answers: Mapping[str, Any], **options: Any) -> Rendering:
        # In a folder of that name, which is the default name of the project.
        directory = Path(mkdtemp(dir=place)) / (dest.name or "project")
        if not is_own:
            return render(source, version, directory, answers, **options)
        # The built-in template needs no network.
        if asked := options.pop("ask", ()):
            known = ask_own(directory, answers, asked)
            names = {*answers, *asked}.intersection(known)
            answers = {name: known[name] for name in names}
        own = preview.own_version()
        return preview.render(own, source, directory, answers, new=True, **options)

    with TemporaryDirectory(prefix="torch-tricks-") as scratch:
        asked = request.to_ask if ask else set()
        known = attempt(scratch, {}, ask=asked, files=False)
        questions = known.questions
        answers, take, leave = request.read(questions)
        # Older templates have no task.
        asked = (asked | {"project_name", "preset"}) & known.answers.keys()
        answers = {name: known.answers[name] for name in asked} | answers
        choose = ask and answers["preset"] == "custom" and not (take or leave)
        asked = questions.asked.keys() - answers.keys() if choose else set()
        if asked or take or leave:  # Copier takes seconds for them.
            known = attempt(scratch, answers, ask=asked, files=False)
            answers |= {name: known.answers[name] for name in asked}
            tricks = questions.changed(known.answers, take, leave)
            if any(known.answers[name] != value for name, value in tricks.items()):
                answers |= {"preset": "custom"} | tricks
    with scratch_beside(dest) as scratch:
        rendering = attempt(scratch, answers)
        dependencies = rendering.dependencies
        kept = keep_own_files(rendering.directory, dest) if beside else []
        names = files_below(rendering.directory)
        move_into_place(rendering.directory, dest)
    print_next_steps(rendering, dest, dependencies, kept, names)


def choose_template(template: str, ref: str) -> tuple[str, str | None]:
    """Returns the source of the template, and its version if it has versions."""
    source, version = default_source()
    if template:
        # An update would resolve a relative path from within the project.
        path = Path(template).expanduser()
        source = str(path.absolute()) if path.exists() else template
    if template and not ref and Path(source).is_dir() and git_address(source) is None:
        return source, None
    if template or ref:
        released = released_versions(source)
        version = find_version(ref, released) if ref else newest_of(released)
    return source, version


def check_is_free(dest: Path) -> None:
    """Checks that the destination is free.

    Raises:
        Refusal: it is a file, a broken link, or a folder with files.
    """
    if os.path.lexists(dest) and not dest.is_dir():
        raise Refusal(f"{dest} exists already, and is no folder: choose another place")
    names = {path.name for path in dest.iterdir()} if dest.is_dir() else set()
    if found := sorted(names - NO_FILES_OF_ANYBODY):
        raise Refusal(
            f"{dest} has {list_some(found)}: choose another folder, or run torch-tricks new "
            "--here in it, which keeps its files"
        )


def keep_own_files(directory: Path, dest: Path) -> list[str]:
    """Removes the files from a project that its destination has already; returns their names.

    Raises:
        Refusal: the destination is a project, or has a module or a file in the place of one.
    """
    kept, in_the_way = [], []
    for name in files_below(directory):
        path, place = directory / name, dest / name
        if not os.path.lexists(place):
            # A link may lead elsewhere, and a file has nothing below it.
            in_the_way += [f for f in parents(name) if not is_free_for_folder(dest / f)]
        elif place.name == ANSWERS_FILE:
            raise Refusal(
                f"{dest} is a project already: torch-tricks add or update changes it"
            )
        elif path.suffix == ".py":
            in_the_way.append(name)
        else:
            kept.append(name)
            path.unlink()
    if in_the_way:
        raise Refusal(
            f"{dest} has {list_some([*dict.fromkeys(in_the_way)])} already, which the project "
            "needs for itself: rename yours, pass another --name for the package, or make the "
            "project in a new folder"
        )
    return kept


def files_below(directory: Path) -> list[str]:
    """Returns the files of a folder, relative to it."""
    files = sorted(each for each in directory.rglob("*") if each.is_file())
    return [path.relative_to(directory).as_posix() for path in files]


def list_some(names: Sequence[str]) -> str:
    """Lists the first five names."""
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"{', '.join(names[:5])}{more}"


@contextmanager
def scratch_beside(dest: Path) -> Iterator[str]:
    """Provides a temporary folder on the disk of a new project; a failure leaves nothing behind.

    Raises:
        Refusal: the project cannot be written.
    """
    home = dest if dest.is_dir() else dest.parent
    made = [path for path in (home, *home.parents) if not path.exists()]
    try:
        home.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".torch-tricks-", dir=home) as scratch:
            yield scratch
    except BaseException as error:
        for folder in made:
            with suppress(OSError):
                folder.rmdir()
        if isinstance(error, OSError):
            reason = error.strerror or error
            raise Refusal(
                f"{dest} cannot be made ({reason}): choose another folder"
            ) from error
        raise


def move_into_place(directory: Path, dest: Path) -> None:
    """Moves a project to a new path or into a folder, completely or not at all.

    An existing folder is kept: it may be a link, another disk, or the folder of a shell.
    """
    if not dest.is_dir():
        os.replace(directory, dest)
        return
    moved: list[Path] = []
    try:
        move_beside(directory, dest, moved)
    except BaseException:
        for path in moved:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        raise


def move_beside(directory: Path, dest: Path, moved: list[Path]) -> None:
    """Moves what is in a folder into another one, and overwrites nothing.

    Args:
        moved: gets the new paths.
    """
    for path in directory.iterdir():
        place = dest / path.name
        if path.is_dir() and not path.is_symlink() and place.is_dir():
            move_beside(path, place, moved)
            continue
        if os.path.lexists(place):
            raise Refusal(f"{place} is in the way: move it away, and run again")
        os.rename(path, place)
        moved.append(place)


def first_commit(dest: Path, names: Sequence[str]) -> tuple[str, list[str]]:
    """Returns the commands for the first commit of a project, and notes about them.

    Args:
        names: files of the project.
    """
    in_its_own = 'git init && git add -A && git commit -m "Start"'
    try:
        top = git("rev-parse", "--show-cdup", cwd=dest)
        given = "\0".join(names).encode()
        options = {"cwd": dest, "input": given, "allowed": (0, 1)}
        ignored = git_names("check-ignore", "--stdin", **options)
    except (GitError, Refusal):
        # No repository, or no git.
        return in_its_own, []
    if top and len(ignored) == len(names):
        return in_its_own, []
    notes = []
    if top:
        notes.append(
            f"the project is in the repository of {os.path.normpath(dest / top)}: for one of its "
            "own, run git init first"
        )
    if ignored:
        notes.append(
            f"git ignores {list_some(ignored)}: change .gitignore before you commit the project"
        )
    return 'git add . && git commit -m "Start" .', notes


def print_next_steps(
    rendering: Rendering,
    dest: Path,
    dependencies: list[str],
    kept: Sequence[str],
    names: Sequence[str],
) -> None:
    """Prints the new project, the next steps, and the names of files that were kept.

    Args:
        names: files of the project, without those that were kept.
    """
    name, tricks = rendering.answers["project_name"], ", ".join(rendering.tricks)
    folder = os.path.relpath(dest)
    package = rendering.answers["package_name"]
    print(f"{name} is ready in {folder} with {tricks or 'no tricks'}.")
    print(f"Its package is {package}: import {package}.")
    needed = (re.split("[^A-Za-z0-9_.-]", each)[0] for each in dependencies)
    print(f"It depends on {', '.join(needed)}.\n")
    if folder != ".":
        print(f"    cd {shlex.quote(folder)}")
    commands, about_git = first_commit(dest, names)
    print(f"    {commands}")
    print(f"    {rendering.installation}")
    if "uv" in rendering.tricks:
        print("    source .venv/bin/activate")
    print("    python train.py")
    advice = rendering.questions.advice(rendering.tricks)
    notes = []
    if kept:
        notes.append(
            f"{list_some(kept)} stayed as you had them: for those of the project, make it in a new "
            "folder too"
        )
    if "pyproject.toml" in kept:
        notes.append(
            "add what it depends on to your pyproject.toml, before you install it"
        )
    notes += [*about_git, *advice, *rendering.notes]
    for note in notes:
        print(f"\nnote: {note}")
    if not rendering.version:
        print("\nnote: the template is not in git, so the project cannot be updated")
