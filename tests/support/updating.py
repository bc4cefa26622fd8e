"""Projects that their owners have edited, and what must be left of the edits."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import yaml
from covering import FORMS, TASK
from hypothesis import strategies as st
from rendering import PACKAGE, all_answers, clones_kept, quick_copier, render_version
from subsets import TASKS, TRICKS, all_subsets, questions, space
from torch_tricks.cli import app
from torch_tricks.template import PUBLISHED
from typer.testing import CliRunner
from versions import NEW_TRICK, VERSIONS, Hub, git

ANSWERS = ".copier-answers.yml"
IGNORED, WEIGHTS = "runs/first/model.pt", b"\x00weights\xff"
"""A file of a run, which git ignores."""
MARKER = re.compile(r"^(?:<{7} |\|{7} |={7}$|>{7} )", re.MULTILINE)
RENAMED = {
    "schedule.py": "learning_rate.py",
    "swa.py": "averaging.py",
    "test_swa.py": "test_averaging.py",
}
"""The modules that a later version renames."""
PRESETS = ("minimal", "recommended", "everything")

Answers = Mapping[str, Any]
Files = dict[str, bytes]
"""The content of files by their paths."""


@dataclass(frozen=True)
class Edit:
    """An owner's edit of a project. The numbers choose a file and a line."""

    kind: str
    file: int
    line: int


KINDS = (
    *("change lines", "add lines", "delete lines", "rename function", "append"),
    *("add file", "delete file", "move file", "replace file", "move folder"),
)
NEW_FILES = (
    "notes.md",
    f"{PACKAGE}/focal_loss.py",
    "tests/test_focal_loss.py",
    # Later versions bring these, too.
    "CITATION.cff",
    f"{PACKAGE}/optim/learning_rate.py",
    f"{PACKAGE}/optim/signs.py",
)


def some_edits(random: Random, number: int) -> tuple[Edit, ...]:
    """Chooses edits; an owner changes lines more often than files."""
    kinds = KINDS[:5] * 2 + KINDS[5:]
    return tuple(
        Edit(random.choice(kinds), random.randrange(10_000), random.randrange(10_000))
        for _ in range(number)
    )


class Project:
    """A project in a git repository, and edits of its owner.

    Each edit writes lines with names that are nowhere else.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.written = 0
        self.folders: dict[str, str] = {}
        """Folders that were moved as a whole: old path to new path."""

    def torch_tricks(self, *arguments: str) -> "Report":
        """Runs the command line in the project, in this process."""
        with chdir(self.path):
            result = CliRunner().invoke(app, arguments, prog_name="torch-tricks")
        return Report(result.exit_code, result.stdout, result.stderr)

    def files(self) -> Files:
        return read_files(self.path)

    def place(self, name: str) -> str:
        """Returns where a file is, now that folders have moved."""
        folder, _, rest = name.partition("/")
        return f"{self.folders[folder]}/{rest}" if folder in self.folders else name

    def placed(self, files: Files) -> Files:
        return {self.place(name): content for name, content in files.items()}

    def commit(self) -> None:
        git(self.path, "add", "--all")
        git(self.path, "commit", "--quiet", "--allow-empty", "--message=Work")

    def edit(self, edits: Sequence[Edit]) -> None:
        """Does the edits, and commits."""
        for edit in edits:
            self.do(edit)
        self.commit()

    def do(self, edit: Edit) -> None:
        files = sorted(set(read_files(self.path)) - {ANSWERS, IGNORED})
        if edit.kind == "add file":
            name = self.place(NEW_FILES[edit.file % len(NEW_FILES)])
            if name not in files:
                self.write(name, [self.line("# "), self.line("# ")])
        elif files:
            self.do_to(files[edit.file % len(files)], edit)

    def do_to(self, name: str, edit: Edit) -> None:
        """Does an edit to the file of this name."""
        getattr(self, edit.kind.replace(" ", "_"))(name, edit.line)

    def line(self, indent: str = "") -> str:
        """Returns a line that is nowhere else, and that must stay."""
        self.written += 1
        return f"{indent}owner_line_{self.written} = {self.written}"

    def read(self, name: str) -> list[str]:
        return (self.path / name).read_text(encoding="utf-8").split("\n")

    def write(self, name: str, lines: list[str]) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines), encoding="utf-8")

    def change_lines(self, name: str, number: int) -> None:
        lines = self.read(name)
        first = number % len(lines)
        for index in range(first, min(first + 1 + number % 3, len(lines))):
            indent = re.match(r"\s*", lines[index])[0]
            lines[index] = self.line(indent)
        self.write(name, lines)

    def add_lines(self, name: str, number: int) -> None:
        lines = self.read(name)
        place = number % len(lines)
        lines[place:place] = [self.line() for _ in range(1 + number % 4)]
        self.write(name, lines)

    def delete_lines(self, name: str, number: int) -> None:
        lines = self.read(name)
        place = number % len(lines)
        # Else what git ignores would be committed.
        if name != ".gitignore":
            del lines[place : place + 1 + number % 5]
            self.write(name, lines)

    def append(self, name: str, number: int) -> None:
        """Adds a last line, with or without an end."""
        end = [""] if number % 2 else []
        self.write(name, [*self.read(name), self.line(), *end])

    def rename_function(self, name: str, number: int) -> None:
        """Gives a function another name wherever it is called."""
        text = "\n".join(self.read(name))
        functions = re.findall(r"^def ([a-z]\w+)\(", text, re.MULTILINE)
        if not functions:
            return
        old = functions[number % len(functions)]
        self.written += 1
        new = f"owner_function_{self.written}"
        for file in self.path.rglob("*.py"):
            name = file.relative_to(self.path).as_posix()
            before = self.read(name)
            after = [re.sub(rf"\b{old}\b", new, line) for line in before]
            if after != before:
                self.write(name, after)

    def delete_file(self, name: str, number: int) -> None:
        (self.path / name).unlink()

    def move_file(self, name: str, number: int) -> None:
        new = Path(name).with_name(f"owner_{number}_{Path(name).name}")
        (self.path / name).rename(self.path / new)

    def replace_file(self, name: str, number: int) -> None:
        self.write(name, [self.line() for _ in range(1 + number % 20)])

    def move_folder(self, name: str, number: int) -> None:
        """Moves the folder at the top in which a file is, as into src/."""
        folder, _, rest = name.partition("/")
        if folder not in (PACKAGE, "tests") or not rest:
            return
        (self.path / "src").mkdir(exist_ok=True)
        (self.path / folder).rename(self.path / "src" / folder)
        self.folders[folder] = f"src/{folder}"


def read_files(directory: Path) -> Files:
    """Returns all files but git's own."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and ".git" not in path.relative_to(directory).parts
    }


@dataclass(frozen=True)
class Case:
    """A project, what its owner did to it, and a command to change its template's part."""

    old: str
    new: str
    """The versions before and after: the same one for `add` and `remove`."""
    answers: Answers
    command: tuple[str, ...]
    """The command after `torch-tricks`."""
    edits: tuple[Edit, ...]

    @property
    def tricks(self) -> frozenset[str]:
        """The tricks that are in after the command."""
        if self.command[0] == "update":
            return tricks_of(self.new, self.answers)
        return tricks_of(self.old, self.answers).symmetric_difference(self.command[1:])


def update_case(old: str, new: str, seed: int, edits: int) -> Case:
    """A case of `torch-tricks update` between two versions."""
    random = Random(seed)
    command = ("update", "--to", new)
    return Case(old, new, some_answers(random), command, some_edits(random, edits))


def trick_case(seed: int, edits: int) -> Case:
    """A case of `torch-tricks add` or `torch-tricks remove`, in any version."""
    random = Random(seed)
    version, answers = random.choice(list(VERSIONS)), some_answers(random)
    inside = tricks_of(version, answers)
    known = {trick.name for trick in TRICKS}
    known |= {NEW_TRICK} if version >= "v0.2.0" else set()
    sides = {"add": known - inside, "remove": inside}
    commands = {
        (word, *tricks)
        for word, side in sides.items()
        for tricks in (
            random.sample(sorted(side), n) for n in (1, 2, 3) if n <= len(side)
        )
        if go_together(inside.symmetric_difference(tricks), answers)
    }
    command = random.choice(sorted(commands))
    return Case(version, version, answers, command, some_edits(random, edits))


def go_together(tricks: frozenset[str], answers: Answers) -> bool:
    """Tells whether a project with such answers can have these tricks and no other."""
    levels = {name: levels[name in tricks] for name, levels in questions().items()}
    levels[TASK] = answers.get(TASK, TASKS[0])
    if FORMS in tricks:
        levels[FORMS] = form_of(answers)
    return space().allows(levels)


def form_of(answers: Answers) -> str:
    """The form of `parallel` that a project has, or would get."""
    first = questions()[FORMS][1]
    form = answers.get(FORMS, "none")
    return first if form == "none" else form


def some_answers(random: Random, task: str | None = None) -> Answers:
    """Chooses a preset and a task in one of four projects, else any subset.

    Args:
        task: the only task to choose; those of subsets is the default.
    """
    if random.randrange(4) == 0 or task not in (None, TASKS[0]):
        return {"preset": random.choice(PRESETS), TASK: task or random.choice(TASKS)}
    return random.choice(all_subsets()).answers


SEEDS = st.integers(0, 2**32)
SIZES = st.integers(1, 12)
"""How many edits there are. Seeds vary widely, and sizes shrink well."""


def tricks_of(version: str, answers: Answers) -> frozenset[str]:
    """The tricks that answers choose, from the catalogue and what was added since."""
    tricks = {*all_answers(answers)["chosen"]}
    gained = answers["preset"] in PRESETS[1:] and version >= "v0.2.0"
    if gained or NEW_TRICK in answers.get("tricks", ()):
        tricks.add(NEW_TRICK)
    return frozenset(tricks)


class Workshop:
    """Makes projects of any version, quickly."""

    def __init__(self, directory: Path) -> None:
        self.hub = Hub(directory / "hub")
        self.directory = directory
        self.fresh_files: dict[tuple[str, str], Files] = {}

    @contextmanager
    def at_hand(self) -> Iterator[None]:
        """Makes Copier find the hub, and work quickly."""
        with self.hub.reached(), quick_copier(), clones_kept(self.directory):
            yield

    def fresh(self, version: str, answers: Answers) -> Files:
        """The files that `copier copy` renders from a version, as if it had come from the hub."""
        key = (version, str(sorted(answers.items())))
        if key not in self.fresh_files:
            project = self.directory / "fresh"
            render_version(self.hub.tree(version), project, answers)
            recorded = project / ANSWERS
            text = recorded.read_text(encoding="utf-8")
            source = f"_commit: {version}\n_src_path: {PUBLISHED}\n"
            text = re.sub(r"^_src_path: .*\n", source, text, flags=re.MULTILINE)
            recorded.write_text(text, encoding="utf-8")
            self.fresh_files[key] = read_files(project)
            shutil.rmtree(project)
        return self.fresh_files[key]

    def new_path(self) -> Path:
        return Path(tempfile.mkdtemp(prefix="project-", dir=self.directory))

    def project(self, version: str, answers: Answers) -> Project:
        """Makes a project, commits it, and leaves an ignored file of a run in it."""
        path = self.new_path()
        for name, content in self.fresh(version, answers).items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(content)
        git(path, "init", "--quiet", "--initial-branch=main")
        (path / IGNORED).parent.mkdir(parents=True)
        (path / IGNORED).write_bytes(WEIGHTS)
        project = Project(path)
        project.commit()
        return project

    def copy(self, project: Project) -> Project:
        """Copies an unedited project, its ignored files included."""
        path = self.new_path()
        shutil.copytree(project.path, path, dirs_exist_ok=True)
        return Project(path)

    def remove(self, project: Project) -> None:
        shutil.rmtree(project.path)


def recorded_answers(files: Files) -> Answers:
    """The answers that a project records."""
    recorded = yaml.safe_load(files[ANSWERS])
    return {name: value for name, value in recorded.items() if name[0] != "_"}


@dataclass
class Report:
    """The output of a command about a project's files."""

    exit_code: int
    output: str
    errors: str = ""

    def names(self, word: str) -> set[str]:
        """The paths in the lines that begin with a word."""
        return set(re.findall(rf"^{word} (\S+)", self.output, re.MULTILINE))

    @property
    def renamed(self) -> dict[str, str]:
        lines = re.findall(r"^renamed (\S+) -> (\S+)$", self.output, re.MULTILINE)
        return dict(lines)

    @property
    def kept_aside(self) -> dict[str, str]:
        """Paths of files that were kept aside, and where their edits were."""
        pattern = r"^kept aside (\S+) \(your edits of (\S+)\)$"
        return dict(re.findall(pattern, self.output, re.MULTILINE))


def owner_lines(files: Files) -> set[tuple[str, str]]:
    """Returns files, and the lines that their owner wrote into them."""
    return {
        (name, line)
        for name, content in files.items()
        for line in text(content).splitlines()
        if re.search(r"owner_(line|function)_\d", line)
    }


def lost_lines(mine: Files, after: Files, report: Report) -> set[tuple[str, str]]:
    """Returns the lines of an owner that an update has dropped.

    A line counts as kept in its file, between conflict markers or not, and in a file
    that the report names for it.
    """
    places: dict[str, list[str]] = {}
    for old, new in report.renamed.items():
        places.setdefault(old, []).append(new)
    for aside, original in report.kept_aside.items():
        places.setdefault(original, []).append(aside)
    kept = owner_lines(after)
    return {
        (name, line)
        for name, line in owner_lines(mine)
        if not kept & {(place, line) for place in (name, *places.get(name, ()))}
    }


def text(content: bytes) -> str:
    return content.decode("utf-8", errors="replace")


def faults(
    project: Project, old: Files, mine: Files, new: Files, after: Files, report: Report
) -> list[str]:
    """Returns what an update did wrong, apart from lost lines.

    Args:
        project: the project after the update.
        old: the fresh project of the version before.
        mine: the project as its owner left it.
        new: the fresh project of the version after.
        after: the files after the update.
        report: what the command said.
    """
    old, new = project.placed(old), project.placed(new)
    deleted, created = old.keys() - mine.keys(), mine.keys() - old.keys()
    edited = {name for name in old.keys() & mine.keys() if old[name] != mine[name]}
    conflicts, aside = report.names("conflict"), report.kept_aside
    touched = edited | deleted | created | {*report.renamed.values()}
    found = []

    def expect(holds: bool, what: str) -> None:
        if not holds:
            found.append(what)

    for name in new.keys() - touched - follow_renames(deleted):
        expect(after.get(name) == new[name], f"{name} is not the new version's")
    for name in old.keys() - new.keys() - touched:
        expect(name not in after, f"{name} should have gone")
    for name in deleted & new.keys():
        expect(name not in after, f"{name} has come back")
    for name in created:
        expect(name in after, f"{name} of the owner is gone")
    for name in edited & new.keys() - conflicts:
        merged = merge(mine[name], old[name], new[name])
        expect(merged in (None, after.get(name)), f"{name} is not merged")
    for name in after.keys() - new.keys() - mine.keys() - aside.keys():
        expect(False, f"{name} comes from nowhere")
    expect(after.get(IGNORED) == WEIGHTS, f"{IGNORED}, which git ignores, was changed")
    marked = {name for name, content in after.items() if MARKER.search(text(content))}
    expect(marked == conflicts, f"markers in {marked}, but {conflicts} listed")
    for name in imported_but_deleted(deleted, new, after):
        expect(name in report.names("missing"), f"nothing says that {name} is missing")
    code = 1 if conflicts or aside or report.names("missing") else 0
    expect(report.exit_code == code, f"exit code {report.exit_code}, not {code}")
    return found


def follow_renames(deleted: set[str]) -> set[str]:
    """New names of files that the owner deleted: whether they come is not laid down."""
    return {
        name.replace(old, new)
        for name in deleted
        for old, new in RENAMED.items()
        if Path(name).name == old
    }


def imported_but_deleted(deleted: set[str], new: Files, after: Files) -> set[str]:
    """The deleted modules that both the new version and the result import."""
    missing = set()
    for name in deleted & new.keys():
        module = Path(name).stem
        statement = re.compile(
            rf"^from [\w.]*\.{module} import|^import {module}$", re.MULTILINE
        )
        for other in after.keys() & new.keys():
            if other.endswith(".py") and all(
                statement.search(text(files[other])) for files in (new, after)
            ):
                missing.add(name)
    return missing


def merge(mine: bytes, old: bytes, new: bytes) -> bytes | None:
    """Returns what a three-way merge gives, or None if there are conflicts."""
    if new == old:
        return mine
    with tempfile.TemporaryDirectory() as directory:
        paths = [Path(directory) / name for name in ("mine", "old", "new")]
        for path, content in zip(paths, (mine, old, new), strict=True):
            path.write_bytes(content)
        result = subprocess.run(
            ["git", "merge-file", "-p", *paths], capture_output=True, check=False
        )
    return result.stdout if result.returncode == 0 else None
