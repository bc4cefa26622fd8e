"""The footprint of a trick: the flags, files and functions that it brings or changes.

It is the difference that the trick makes in rendered projects, both alone and among all others.
"""

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from blocks import own_template, parse, simplified
from covering import FORMS, TASK
from rendering import PACKAGE, render_files
from subsets import TASKS, TRICKS, Subset, everything, forms_of, questions, task_of
from torch_tricks.catalogue import Trick

SETTINGS = f"{PACKAGE}/settings.py"


@dataclass(frozen=True)
class Footprint:
    """The flags, files and functions of a trick, or of one of its choices."""

    flags: list[str]
    """In the order of `train.py --help`; of `--data` and `--model` the new values, too."""
    files: list[str]
    """New scripts and modules."""
    functions: list[str]
    """Changed functions of train.py."""
    changed: list[str]
    """Other changed scripts and modules, but for the settings."""

    @property
    def lines(self) -> str:
        """The lines of the README that list them."""
        parts = (
            ("", self.files),
            ("in `train.py`: ", self.functions),
            ("parts of ", self.changed),
        )
        code = "; ".join(words + quoted(names) for words, names in parts if names)
        code = code or quoted(["pyproject.toml"])  # What else a trick may consist of.
        flags = f"- Flags: {quoted(self.flags)}\n" if self.flags else ""
        return f"- Code: {code}\n{flags}"


@cache
def modules(task: str = TASKS[0]) -> dict[str, list[str]]:
    """Returns the modules of a task that come with one trick alone, by its name, as `optim/swa`."""
    found: dict[str, list[str]] = {}
    for source in own_template().sources:
        left = [simplified(parse(ask), {TASK: task}) for ask, _ in source.condition]
        asked = " and ".join(
            str(ask) if ask is False else ast.unparse(ask)
            for ask in left
            if ask is not True
        )
        path = re.fullmatch(
            r"\{\{ package_name \}\}/(.*(?<!__init__))\.py", source.target
        )
        trick = re.fullmatch(r"'(\w+)' in chosen|(\w+) == '\w+'", asked)
        if path and trick:
            found.setdefault(trick[1] or trick[2], []).append(path[1])
    return found


MODULES = modules()


def quoted(names: Iterable[str]) -> str:
    """Returns names as Markdown shows code."""
    return ", ".join(f"`{name}`" for name in names)


@cache
def footprint(name: str, choice: str | None = None) -> Footprint:
    """Returns the footprint of a trick, or of one of its choices."""
    [trick] = [row for row in TRICKS if row.name == name]
    forms = (
        (choice,) if choice else forms_of(trick) or trick.choices or questions()[FORMS]
    )
    listed = [] if trick.choices else [name]
    whole = Subset.of(*listed, parallel=forms[0], task=task_of(trick))
    needed = [other for other in whole.tricks if other not in (name, FORMS)]
    form = "none" if trick.choices else forms[0]
    around = Subset.of(*needed, parallel=form, task=whole.task)
    alone = without, with_it = render_files(around.answers), render_files(whole.answers)
    pairs = [alone, *(pair_of_all(trick, form) for form in forms)]
    before = flags(without)
    brought = [file for file in sorted(with_it) if is_code(file)]
    # Lines that other tricks share are not its own.
    changed = {
        file: [
            name
            for name in definitions(with_it[file])
            if all(differ(name, *(files[file] for files in pair)) for pair in pairs)
        ]
        for file in brought
        if file in without and file.endswith(".py") and file != SETTINGS
    }
    return Footprint(
        [flag for flag in flags(with_it) if flag not in before],
        [file for file in brought if file not in without],
        changed.pop("train.py"),
        [file for file, names in changed.items() if names],
    )


def pair_of_all(trick: Trick, form: str) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the projects with all that goes with a trick, without it and with it."""
    off, on = ("none", form) if trick.choices else (False, True)
    same = {TASK: task_of(trick), FORMS: form}
    wanted = (same | {trick.name: level} for level in (off, on))
    without, with_it = (render_files(everything(**each).answers) for each in wanted)
    return without, with_it


def differ(name: str, before: str, after: str) -> bool:
    """Returns whether a function or class of a module is new or changed."""
    return definitions(before).get(name) != definitions(after).get(name)


def is_code(file: str) -> bool:
    """Returns whether a file is a script, a module of the package with code, or a guide."""
    is_part = file.startswith("tests/") or file.endswith(("__init__.py", "README.md"))
    return file.endswith((".py", ".sh", ".md")) and not is_part


@cache
def definitions(text: str) -> dict[str, str]:
    """Returns the functions and classes of a module, each with its text."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    nodes = (node for node in ast.parse(text).body if isinstance(node, kinds))
    return {node.name: ast.unparse(node) for node in nodes}


def flags(files: dict[str, str]) -> list[str]:
    """Returns the flags of a project; `--data` and `--model` with what their help names."""
    tree = ast.parse(files[SETTINGS])
    settings = next(n for n in tree.body if getattr(n, "name", "") == "Settings")
    found = []
    for field, described in pairwise(settings.body):
        if isinstance(field, ast.AnnAssign):
            flag = f"--{field.target.id.replace('_', '-')}"
            found.append(flag)
            if field.target.id in ("data", "model"):
                values = re.findall(r"`([\w:-]+)`", described.value.value)
                found += [f"{flag} {value}" for value in values]
    return found
