"""The template as data: blocks of lines, each with the condition for a project to have it.

In a template every tag is an `if`, `elif`, `else` or `endif` alone on its line, and asks for
nothing but what was chosen; one `for` goes through the tricks, and an `include` in it takes the
section of each. So a file is a list of blocks of lines with conditions, and rendering is choosing
among them: it gives what Copier gives, to the byte, in a hundredth of the time, as a test says for
every construct that the template uses.

A template may be a stranger's. Nothing here runs what it holds: a condition is made of the few
operations in `ASKED`, a place is filled in only by an expression of a fixed set, and a file has
a place inside the project. All else is an `UnknownConstruct`, which is left to Copier's sandbox.
"""

import ast
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

from torch_tricks.catalogue import choice_questions, own_file, own_questions
from torch_tricks.questions import OFF

ANSWERS_FILE = ".copier-answers.yml"
SUFFIX = ".jinja"

Condition = tuple[tuple[str, bool], ...]
"""Expressions, each with the value that it must have."""


class UnknownConstruct(Exception):
    """A template holds something that this module does not know."""


class File(NamedTuple):
    """A file of a template, as it is stored."""

    content: bytes
    executable: bool = False


@dataclass(frozen=True)
class Block:
    """Lines that stand under the same condition."""

    condition: Condition
    text: str
    """With `{{ }}` where the project's names go."""
    path: str
    """The file of the template that has them."""
    line: int
    """Number of the first one in it."""


@dataclass(frozen=True)
class Source:
    """A file of the template."""

    path: str
    """From the folder of the template, as it is called there."""
    condition: Condition
    """The condition for the project to have the file."""
    target: str
    """Where it goes, with `{{ }}` where the project's names go."""
    blocks: tuple[Block, ...]
    executable: bool


@dataclass(frozen=True)
class Template:
    """All files, and what their conditions ask for that no question asks."""

    sources: tuple[Source, ...]
    computed: Mapping[str, str]
    """Names with the conditions that they stand for, such as `distributed`."""
    choices: tuple[str, ...]
    """The questions with choices, such as `parallel`."""

    def render(self, answers: Mapping[str, Any]) -> dict[str, str]:
        """Returns the text of each file of a project, by its path.

        Args:
            answers: `chosen`, the answers to questions with choices, and the names and texts
                that Copier asks for; `recorded` is what the answers file holds.
        """
        names = {name: answers[name] for name in ("chosen", *self.choices)}
        for name, expression in self.computed.items():
            names[name] = evaluate(expression, names)
        names |= {"author": answers["author"]}
        known: dict[str, bool] = {}

        def holds(condition: Condition) -> bool:
            for expression, wanted in condition:
                if expression not in known:
                    known[expression] = bool(evaluate(expression, names))
                if known[expression] != wanted:
                    return False
            return True

        project = {}
        for source in self.sources:
            if holds(source.condition):
                blocks = [b.text for b in source.blocks if holds(b.condition)]
                project[place_of(source, answers)] = fill("".join(blocks), answers)
        return project

    def write(self, directory: Path, answers: Mapping[str, Any]) -> None:
        """Writes a project into a folder, which is empty or not there yet."""
        executable = {place_of(s, answers) for s in self.sources if s.executable}
        for name, text in self.render(answers).items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="")
            if name in executable:
                # For whoever may read it, which the umask has decided.
                mode = path.stat().st_mode
                path.chmod(mode | (mode & 0o444) >> 2)


def files_in(directory: Path) -> dict[str, File]:
    """Reads the files of a folder, by their paths in it with forward slashes."""
    return {
        path.relative_to(directory).as_posix(): File(
            path.read_bytes(), bool(path.stat().st_mode & 0o100)
        )
        for path in sorted(directory.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def read_template(files: Mapping[str, File], questions: Mapping[str, Any]) -> Template:
    """Reads the files of a template.

    Raises:
        UnknownConstruct: one holds something else than whole-line conditions; it says where.
    """
    rows = questions["catalogue"]["default"]
    computed = {
        name: computed_condition(question["default"], rows)
        for name, question in questions.items()
        if isinstance(question, dict) and question.get("type") == "bool"
    }
    excluded = questions.get("_exclude", [])
    if excluded not in ([], [f"/{SECTIONS}"]):
        raise UnknownConstruct(f"_exclude: {excluded}")
    reader = Reader(files, rows, computed)
    sources = (
        reader.source(path)
        for path in sorted(files)
        if not (excluded and path.startswith(f"{SECTIONS}/"))
    )
    return Template(tuple(sources), computed, tuple(choice_questions(questions)))


SECTIONS = "readme-sections"
"""The folder of the files that README.md.jinja includes; no project has it."""

OF_ROWS = re.compile(
    r"catalogue\.items\(\) \| selectattr\('0', 'in', chosen\) "
    r"\| selectattr\('1\.(\w+)', 'defined'\) \| list != \[\]"
)
"""Asks whether the row of a chosen trick has an entry."""


def computed_condition(default: str, catalogue: Mapping[str, Any]) -> str:
    """Returns what a computed question stands for, with the tricks whose rows it looks at."""
    expression = default.removeprefix("{{ ").removesuffix(" }}")
    if found := OF_ROWS.fullmatch(expression):
        names = [name for name, row in catalogue.items() if found[1] in row]
        return " or ".join(f'"{name}" in chosen' for name in names) or "False"
    return expression


PART = re.compile(r"\{% if (?P<condition>.*?) %\}(?P<name>.*)\{% endif %\}(?P<rest>.*)")


def place_of(source: Source, answers: Mapping[str, Any]) -> str:
    """Returns where a file goes: a path inside the project.

    Raises:
        UnknownConstruct: its path would lead out of the project or into git's files, or be excluded.
    """
    place = fill(source.target, answers)
    parts = place.split("/")
    if parts[0] == SECTIONS:
        raise UnknownConstruct(f"{source.path} would be {place}")
    for part in parts:
        if part in ("", ".", "..") or part.lower() == ".git" or "\\" in part:
            raise UnknownConstruct(f"{source.path} would be {place}")
    return place


def as_text(text: str) -> str:
    """Returns a text in which nothing is to be filled in."""
    return re.sub(r"\{\{", '{{ "{{" }}', text)


UNREAD = re.compile(r"\{[{%#]|\r")
"""Jinja's syntax beside tags and places, and line endings that it changes."""

STRIPS = re.compile(r"-\}\}(?!\n?\Z)")
"""Strips more than the newline at the end of a file, which `fill` strips."""

TAG = re.compile(r"\s*\{% (if|elif|else|endif|for|endfor|include)\b ?(.*?) ?%\}\n?")
LOOP = "name in chosen"
SECTION = f'"template/{SECTIONS}/" ~ name ~ ".md.jinja"'
"""The file that the loop includes of a trick."""


@dataclass(frozen=True)
class Reader:
    """Turns the files of a template into blocks of lines."""

    files: Mapping[str, File]
    catalogue: Mapping[str, Any]
    computed: Mapping[str, str]

    def source(self, path: str) -> Source:
        """Reads one file: its path, part by part, and its blocks."""
        condition: list[tuple[str, bool]] = []
        parts = []
        for part in path.split("/"):
            if found := PART.fullmatch(part):
                condition.append((found["condition"], True))
                # Without what the condition is for, no name may be left.
                if found["rest"] not in ("", SUFFIX):
                    raise UnknownConstruct(path)
                part = found["name"] + found["rest"]
            if UNREAD.search(PLACE.sub("", part)):
                raise UnknownConstruct(path)
            parts.append(part)
        target, text = "/".join(parts), self.text(path)
        if target.endswith(SUFFIX):
            if STRIPS.search(text):
                raise UnknownConstruct(path)
            blocks = tuple(Lines(self, path, split(text)).blocks())
        else:
            blocks = (Block((), as_text(text), path, 1),)
        executable = self.files[path].executable
        target = target.removesuffix(SUFFIX)
        return Source(path, tuple(condition), target, blocks, executable)

    def section(self, name: str) -> Iterator[Block]:
        """Yields the blocks that the loop includes of a trick."""
        path = f"{SECTIONS}/{name}.md.jinja"
        if path not in self.files or "-}}" in self.text(path):
            raise UnknownConstruct(path)
        yield from Lines(self, path, split(self.text(path))).blocks()

    def text(self, path: str) -> str:
        try:
            return self.files[path].content.decode()
        except UnicodeDecodeError as error:
            raise UnknownConstruct(f"{path}: {error}") from error


def split(text: str) -> list[str]:
    """Returns the lines of a text, by newlines alone, as Jinja counts them."""
    return re.findall(r".*\n|.+", text)


@dataclass(frozen=True)
class Lines:
    """Some lines of a file, of which the first has the number `start`."""

    reader: Reader
    path: str
    lines: Sequence[str]
    start: int = 1

    def blocks(self, name: str | None = None) -> Iterator[Block]:
        """Yields the blocks of the lines.

        Args:
            name: the trick of the loop around them.
        """
        stack: Stack = []
        first = loop = None
        for index, line in enumerate(self.lines):
            tag = TAG.fullmatch(line)
            if tag is None and UNREAD.search(PLACE.sub("", line)):
                raise self.unknown(index)
            if loop is not None:
                if tag and tag.groups() == ("endfor", ""):
                    yield from under(stack, self.part(loop, index).unroll())
                    loop = None
                continue
            if tag is None:
                first = index if first is None else first
                continue
            if first is not None:
                yield self.block(stack, first, index)
                first = None
            if tag[1] == "for" and tag[2] == LOOP:
                loop = index + 1
            elif tag[1] == "include" and tag[2] == SECTION and name is not None:
                yield from under(stack, self.reader.section(name))
            elif not change(stack, *tag.groups()):
                raise self.unknown(index)
        if stack or loop is not None:
            raise self.unknown(len(self.lines))
        if first is not None:
            yield self.block(stack, first, len(self.lines))

    def part(self, first: int, end: int) -> "Lines":
        return Lines(self.reader, self.path, self.lines[first:end], self.start + first)

    def block(self, stack: "Stack", first: int, end: int) -> Block:
        text = "".join(self.lines[first:end])
        return Block(joined(stack), text, self.path, self.start + first)

    def unroll(self) -> Iterator[Block]:
        """Yields the blocks of a loop's body for each trick, or for each of its choices."""
        catalogue, computed = self.reader.catalogue, self.reader.computed
        for name, row in catalogue.items():
            body = list(self.blocks(name))
            asks = {ask for block in body for ask, _ in block.condition}
            for choice in row.get("choices", [None]):
                known = {"name": name, "catalogue": catalogue}
                asked = f'"{name}" in chosen'
                if choice is not None:
                    known[name], asked = choice, f'{name} == "{choice}"'
                    for other, expression in computed.items():
                        if names_in(parse(expression)) <= {name}:
                            known[other] = evaluate(expression, known)
                rest = {ask: simplified(parse(ask), known) for ask in asks}
                for block in body:
                    condition = settle(block.condition, rest)
                    if condition is not None:
                        whole = ((asked, True), *condition)
                        text = fill_known(block.text, known)
                        yield replace(block, condition=whole, text=text)

    def unknown(self, index: int) -> UnknownConstruct:
        rest = [*self.lines[index:], "no end of what was begun"]
        return UnknownConstruct(f"{self.path}:{self.start + index}: {rest[0].strip()}")


Stack = list[tuple[Condition, Condition]]
"""For each `if` around a line: its condition now, and the condition of a later `else`."""


def change(stack: Stack, kind: str, asked: str) -> bool:
    """Follows a tag; returns whether it is one that may stand here."""
    if kind == "if":
        stack.append((((asked, True),), ((asked, False),)))
        return True
    if not stack or kind not in ("elif", "else", "endif"):
        return False
    if (kind == "elif") != bool(asked):
        return False
    _, others = stack.pop()
    if kind == "elif":
        stack.append(((*others, (asked, True)), (*others, (asked, False))))
    elif kind == "else":
        stack.append((others, others))
    return True


def under(stack: Stack, blocks: Iterable[Block]) -> Iterator[Block]:
    """Yields blocks that stand under tags."""
    around = joined(stack)
    for block in blocks:
        yield replace(block, condition=(*around, *block.condition))


def joined(stack: Stack) -> Condition:
    """Returns all that the tags around a line ask for."""
    return tuple(literal for now, _ in stack for literal in now)


ASKED = (
    *(ast.Expression, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not),
    *(ast.Compare, ast.In, ast.NotIn, ast.Eq, ast.NotEq),
    *(ast.Name, ast.Load, ast.Constant, ast.Tuple, ast.Subscript),
)
"""The syntax that a condition may have."""

LONGEST = 300
"""Parts of a condition at most: what is nested deeper, Python cannot go through."""


@cache
def parse(expression: str) -> ast.expr:
    """Returns the tree of a condition, which is the same in Jinja and in Python."""
    try:
        tree = ast.parse(expression, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UnknownConstruct(f"{expression}: {error}") from error
    nodes = list(ast.walk(tree))
    if len(nodes) > LONGEST:
        raise UnknownConstruct(f"{expression:.60}: too long")
    for node in nodes:
        if not isinstance(node, ASKED):
            raise UnknownConstruct(f"{expression}: {type(node).__name__}")
    return tree.body


@cache
def compiled(expression: str) -> CodeType:
    return compile(ast.Expression(parse(expression)), expression, "eval")


def evaluate(expression: str, names: Mapping[str, Any]) -> Any:
    """Returns the value of a condition.

    Raises:
        UnknownConstruct: it asks for something that there is not.
    """
    try:
        return eval(compiled(expression), {"__builtins__": {}}, dict(names))
    except (NameError, TypeError, LookupError, RecursionError) as error:
        raise UnknownConstruct(f"{expression}: {error}") from error


def settle(
    condition: Condition, rest: Mapping[str, ast.expr | bool]
) -> Condition | None:
    """Returns what is left to ask, or None if the condition cannot hold.

    Args:
        rest: of each expression, what is left of it.
    """
    if any(rest[expression] is (not wanted) for expression, wanted in condition):
        return None
    return tuple(
        (ast.unparse(left).replace("'", '"'), wanted)
        for expression, wanted in condition
        if not isinstance(left := rest[expression], bool)
    )


def simplified(tree: ast.expr, known: Mapping[str, Any]) -> ast.expr | bool:
    """Returns a condition without what the known names decide."""
    if isinstance(tree, ast.BoolOp):
        decisive = isinstance(tree.op, ast.Or)
        values = [simplified(value, known) for value in tree.values]
        if decisive in values:
            return decisive
        left = [value for value in values if isinstance(value, ast.expr)]
        if len(left) < 2:
            return left[0] if left else not decisive
        return ast.BoolOp(tree.op, left)
    if names_in(tree) <= known.keys():
        return bool(evaluate(ast.unparse(tree), known))
    return tree


def names_in(tree: ast.expr) -> set[str]:
    """Returns the names that a condition asks for."""
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


PLACE = re.compile(r"\{\{ (.*?) (-?)\}\}(\n?)")

PLACES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "package_name": lambda answers: answers["package_name"],
    "project_name": lambda answers: answers["project_name"],
    "task": lambda answers: answers["task"],
    "description": lambda answers: answers["description"],
    'package_name | replace("_", "-")': lambda answers: answers["package_name"].replace(
        "_", "-"
    ),
    "description | to_json(ensure_ascii=false)": lambda answers: json.dumps(
        answers["description"], ensure_ascii=False
    ),
    "author | to_json(ensure_ascii=false)": lambda answers: json.dumps(
        answers["author"], ensure_ascii=False
    ),
    "_copier_conf.answers_file": lambda answers: ANSWERS_FILE,
    "_copier_answers | to_nice_yaml": lambda answers: as_yaml(answers["recorded"]),
    '"{{"': lambda answers: "{{",
}
"""The values to fill in, by their expressions."""


def fill(text: str, answers: Mapping[str, Any]) -> str:
    """Fills in what a text has places for."""

    def value(found: re.Match[str]) -> str:
        expression, strips, end = found.groups()
        if expression not in PLACES:
            raise UnknownConstruct(found[0].strip())
        return PLACES[expression](answers) + ("" if strips else end)

    return PLACE.sub(value, text)


OF_TRICK: dict[str, Callable[[str, Mapping[str, Any], Any], str]] = {
    "name": lambda name, row, choice: name,
    "catalogue[name].title": lambda name, row, choice: row["title"],
    'catalogue[name].get("source_of", {}).get(choice_answers.get(name), catalogue[name].source)': (
        lambda name, row, choice: row.get("source_of", {}).get(
            choice, row.get("source")
        )
    ),
}
"""The values that the loop's body can show of its trick, by their expressions."""


def fill_known(text: str, known: Mapping[str, Any]) -> str:
    """Fills in what a text says of the trick of a loop.

    Raises:
        UnknownConstruct: it says something else.
    """

    def value(found: re.Match[str]) -> str:
        expression, _, end = found.groups()
        if not re.search(r"\b(name|catalogue)\b", expression):
            return found[0]
        row = known["catalogue"][known["name"]]
        try:
            filled = OF_TRICK[expression](known["name"], row, known.get(known["name"]))
            return as_text(filled) + end
        except (AttributeError, LookupError, TypeError) as error:
            raise UnknownConstruct(found[0].strip()) from error

    return PLACE.sub(value, text)


def as_yaml(answers: Mapping[str, Any]) -> str:
    """Writes answers as Copier does."""
    import yaml

    return yaml.dump(
        dict(answers), indent=4, allow_unicode=True, default_flow_style=False
    )


@cache
def own_template() -> Template:
    """Returns the template that this version of the tool came with."""
    return read_template(files_in(own_file("template")), own_questions())


def choose(
    questions: Mapping[str, Any],
    preset: str,
    choices: Mapping[str, str],
    tricks: Sequence[str],
) -> list[str]:
    """Returns what is chosen, as copier.yml computes it.

    Args:
        choices: the answers to the questions with choices.
        tricks: those that were ticked, which the preset `custom` asks for.
    """
    entries = choice_questions(questions)

    def has(name: str, row: Mapping[str, Any]) -> bool:
        if row.get("choices"):
            return choices[name] != OFF
        if preset == "custom":
            return name in tricks
        for question, entry in entries.items():
            if choices[question] not in row.get(entry, [choices[question]]):
                return False
        if preset == "everything":
            return not row.get("excludes")
        return preset == "recommended" and bool(row.get("recommended"))

    rows = questions["catalogue"]["default"]
    return [name for name, row in rows.items() if has(name, row)]
