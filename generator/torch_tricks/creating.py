"""New projects."""

import errno
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

from torch_tricks import quick
from torch_tricks.errors import Refusal
from torch_tricks.questions import ABOUT_THE_OWNER, Questions
from torch_tricks.template import (
    AS_IT_STANDS,
    Rendering,
    ask_own,
    default_source,
    find_version,
    is_repository,
    released_versions,
    render,
)


@dataclass(frozen=True)
class Wishes:
    """What the command line says about a new project."""

    preset: str
    take: Sequence[str]
    leave: Sequence[str]
    name: str
    data: Sequence[str]

    @property
    def to_ask(self) -> set[str]:
        """What is asked first: the name and the preset, where they do not follow."""
        given = {pair.partition("=")[0] for pair in self.data}
        told = self.preset or self.take or self.leave or given - ABOUT_THE_OWNER
        names = set() if self.name or "project_name" in given else {"project_name"}
        return names if told else names | {"preset"}

    def read(self, questions: Questions) -> tuple[dict[str, Any], list[str], list[str]]:
        """Returns answers, and the tricks to add to the preset and to take from it.

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


def create(dest: Path, wishes: Wishes, template: str, ref: str, ask: bool) -> None:
    """Makes a project, at once or not at all, and says what to do next.

    Asks for the name and the preset, and for the rest only if the preset is custom. If tricks
    that are added to a preset or taken from it make a difference, it becomes custom.

    Raises:
        Refusal: something is there already, or a wish cannot be granted.
    """
    dest = dest.expanduser().absolute()
    if os.path.lexists(dest) and not (dest.is_dir() and not any(dest.iterdir())):
        raise Refusal(
            f"{dest} exists already: choose another folder, or empty this one"
        )
    source, version = choose_template(template, ref)
    is_own = not (template or ref) and version != AS_IT_STANDS
    with TemporaryDirectory(prefix="torch-tricks-") as scratch:

        def attempt(answers: Mapping[str, Any], **options: Any) -> Rendering:
            # In a folder of that name, as the project is called after it by default.
            directory = Path(mkdtemp(dir=scratch)) / (dest.name or "project")
            if not is_own:
                return render(source, version, directory, answers, **options)
            # The tool has its own template: it needs neither a network nor git.
            if asked := options.pop("ask", ()):
                known = ask_own(directory, answers, asked)
                names = {*answers, *asked}.intersection(known)
                answers = {name: known[name] for name in names}
            return quick.render_own(directory, answers, **options)

        first = attempt(
            {},
            ask=wishes.to_ask if ask else (),
            files=False,
        )
        questions = first.questions
        answers, take, leave = wishes.read(questions)
        answers = {n: first.answers[n] for n in ("project_name", "preset")} | answers
        choose = ask and answers["preset"] == "custom" and not (take or leave)
        open_questions = questions.asked.keys() - answers.keys()
        rendering = attempt(answers, ask=open_questions if choose else ())
        tricks = questions.changed(rendering.answers, take, leave)
        if any(rendering.answers[name] != value for name, value in tricks.items()):
            rendering = attempt(answers | {"preset": "custom"} | tricks)
        move_into_place(rendering.directory, dest)
    print_next_steps(rendering, dest)


def choose_template(template: str, ref: str) -> tuple[str, str | None]:
    """Returns the source of the template, and its version if it has versions."""
    source, version = default_source()
    if template:
        # A relative path would be looked for from within the project when it is updated.
        path = Path(template).expanduser()
        source = str(path.absolute()) if path.exists() else template
    if template and not is_repository(source) and Path(source).is_dir() and not ref:
        return source, None
    if template or ref:
        released = released_versions(source)
        newest = released[-1] if released else "HEAD"
        version = find_version(ref, released) if ref else newest
    return source, version


def move_into_place(directory: Path, dest: Path) -> None:
    """Moves a folder to where nothing or an empty folder is, in one step where possible."""
    if dest.exists() and dest.samefile(Path.cwd()):
        # Replaced by another folder, it would be gone for the shell that stands in it.
        for path in directory.iterdir():
            shutil.move(path, dest / path.name)
        return
    dest.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.replace(directory, dest)
        return
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    # From another disk nothing moves in one step: copy it beside its place first.
    beside = Path(mkdtemp(prefix=f".{dest.name}-", dir=dest.parent))
    try:
        copy = shutil.move(directory, beside / dest.name)
        os.replace(copy, dest)
    finally:
        shutil.rmtree(beside)


def print_next_steps(rendering: Rendering, dest: Path) -> None:
    """Prints what was made and how to go on."""
    name, tricks = rendering.answers["project_name"], ", ".join(rendering.tricks)
    folder = os.path.relpath(dest)
    print(f"{name} is ready in {folder} with {tricks or 'no tricks'}.\n")
    if folder != ".":
        print(f"    cd {shlex.quote(folder)}")
    print('    git init && git add -A && git commit -m "Start"')
    print('    pip install -e ".[dev]"')
    print("    python train.py")
    for note in rendering.questions.advice(rendering.tricks) + rendering.notes:
        print(f"\nnote: {note}")
    if not rendering.version:
        print("\nnote: the template is not in git, so the project cannot be updated")
