"""The template as blocks of lines with conditions, for the page and for tests.

In a template every tag is an `if`, `elif`, `else` or `endif` alone on its line, and depends only
on the choices. One `for` loops over the tricks, and includes the section of each. A folder has the
name of a trick, a task, a form or a part, which is its condition. So a file is a list of blocks of
lines with conditions, and rendering selects blocks. The result equals Copier's to the byte, in a
hundredth of the time; a test compares both for every construct of the template.

No code of the template runs: conditions consist of the few operations in `ASKED`, and placeholders
are expressions of a fixed set. Anything else is an `UnknownConstruct`.
"""

import ast
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

from torch_tricks.catalogue import choice_questions, own_file, own_questions
from torch_tricks.questions import OFF
from torch_tricks.store import File, files_in

ANSWERS_FILE = ".copier-answers.yml"
SUFFIX = ".jinja"

Condition = tuple[tuple[str, bool], ...]
"""Expressions with their required values."""


class UnknownConstruct(Exception):
    """A template has a construct that this module does not support."""


@dataclass(frozen=True)
class Block:
    """Lines with the same condition."""

    condition: Condition
    text: str
    """Text, with `{{ }}` for placeholders."""
    path: str
    """Path of the file in the template."""
    line: int
    """Number of the first line in the file."""


@dataclass(frozen=True)
class Source:
    """A file of the template."""

    path: str
    """Path in the folder of the template."""
    condition: Condition
    """Condition of the file."""
    target: str
    """Path in a project, with `{{ }}` for placeholders."""
    blocks: tuple[Block, ...]
    executable: bool


@dataclass(frozen=True)
class Template:
    """All files of a template, and the names in their conditions."""

    sources: tuple[Source, ...]
    computed: Mapping[str, str]
    """Computed names with their conditions, such as `distributed`."""
    choices: tuple[str, ...]
    """The questions with choices, such as `parallel`."""

    def render(self, answers: Mapping[str, Any]) -> dict[str, str]:
        """Renders the files of a project, by path.

        Args:
            answers: `chosen`, the answers to questions with choices, and the texts that Copier
                prompts for; `recorded` is the content of the answers file.
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
        """Renders a project into an empty or new folder."""
        executable = {place_of(s, answers) for s in self.sources if s.executable}
        for name, text in self.render(answers).items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="")
            if name in executable:
                # Readable by those whom the umask allows.
                mode = path.stat().st_mode
                path.chmod(mode | (mode & 0o444) >> 2)


def read_template(files: Mapping[str, File], questions: Mapping[str, Any]) -> Template:
    """Parses the files of a template.

    Raises:
        UnknownConstruct: a file has other tags than whole-line conditions.
    """
    rows = questions["catalogue"]["default"]
    computed = {
        name: computed_condition(question["default"], rows)
        for name, question in questions.items()
        if isinstance(question, dict) and question.get("type") == "bool"
    }
    excluded = questions.get("_exclude", [])
    if excluded not in ([], [f"/{name}" for name in EXCLUDED]):
        raise UnknownConstruct(f"_exclude: {excluded}")
    part = questions.get("part", {}).get("default", "")
    parts = {name: asked for name, asked in PART.findall(part)}
    reader = Reader(files, rows, computed, parts)
    sources = map(reader.source, sorted(files))
    kept = (s for s in sources if not excluded or s.target not in EXCLUDED)
    return Template(tuple(kept), computed, tuple(choice_questions(questions)))


ROW, SECTION = EXCLUDED = ("row.yml", "readme_section.md")
"""Files in the folder of a trick that no project has: its row, and its section of the README."""

OF_ROWS = re.compile(
    r"catalogue\.items\(\) \| selectattr\('0', 'in', chosen\) "
    r"\| selectattr\('1\.(\w+)', 'defined'\) \| list != \[\]"
)
"""Matches a test for an entry in the rows of chosen tricks."""


def computed_condition(default: str, catalogue: Mapping[str, Any]) -> str:
    """Returns the condition of a computed question, with the tricks of matching rows."""
    expression = default.removeprefix("{{ ").removesuffix(" }}")
    if found := OF_ROWS.fullmatch(expression):
        names = [name for name, row in catalogue.items() if found[1] in row]
        return " or ".join(f'"{name}" in chosen' for name in names) or "False"
    return expression


PART = re.compile(r"(?m)^(\w+): \"\{\{ '\.' if (.+) else '' \}\}\"$")
"""Matches a part in `copier.yml`, with its condition."""

FOLDER = re.compile(r"\{\{ (trick|task_is|form|part)\.(\w+) \}\}")
"""Matches a folder that has a condition."""

CONDITIONS = {
    "trick": '"{}" in chosen',
    "task_is": 'task == "{}"',
    "form": 'parallel == "{}"',
}
"""Conditions of folders, but for those of parts."""


def place_of(source: Source, answers: Mapping[str, Any]) -> str:
    """Returns the path of a file inside a project.

    Raises:
        UnknownConstruct: the path is outside of the project, in `.git`, or excluded.
    """
    place = fill(source.target, answers)
    if place in EXCLUDED:
        raise UnknownConstruct(f"{source.path} would be {place}")
    for part in place.split("/"):
        if part in ("", ".", "..") or part.lower() == ".git" or "\\" in part:
            raise UnknownConstruct(f"{source.path} would be {place}")
    return place


def as_text(text: str) -> str:
    """Returns a text without placeholders."""
    return re.sub(r"\{\{", '{{ "{{" }}', text)


UNREAD = re.compile(r"\{[{%#]|\r")
"""Unsupported syntax of Jinja, and line endings that Jinja changes."""

STRIPS = re.compile(r"-\}\}(?!\n?\Z)")
"""A tag that would strip more than the last newline."""

TAG = re.compile(r"\s*\{% (if|elif|else|endif|for|endfor|include)\b ?(.*?) ?%\}\n?")
LOOP = "name in chosen"
INCLUDED = f'"template/{{{{ trick." ~ name ~ " }}}}/{SECTION}{SUFFIX}"'
"""The include of a trick's section in the loop."""


@dataclass(frozen=True)
class Reader:
    """Parses the files of a template into blocks of lines."""

    files: Mapping[str, File]
    catalogue: Mapping[str, Any]
    computed: Mapping[str, str]
    parts: Mapping[str, str]
    """Parts that several tricks share, with their conditions."""

    def source(self, path: str) -> Source:
        """Parses one file: its folders, and its blocks."""
        condition: list[tuple[str, bool]] = []
        parts = []
        for part in path.split("/"):
            if found := FOLDER.fullmatch(part):
                condition.append((self.condition(*found.groups()), True))
                continue
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

    def condition(self, kind: str, name: str) -> str:
        """Returns the condition of a folder."""
        if kind == "part":
            if name not in self.parts:
                raise UnknownConstruct(f"part.{name}")
            return self.parts[name]
        return CONDITIONS[kind].format(name)

    def section(self, name: str) -> Iterator[Block]:
        """Yields the blocks of a trick's section."""
        path = f"{{{{ trick.{name} }}}}/{SECTION}{SUFFIX}"
        if path not in self.files or "-}}" in self.text(path):
            raise UnknownConstruct(path)
        yield from Lines(self, path, split(self.text(path))).blocks()

    def text(self, path: str) -> str:
        try:
            return self.files[path].content.decode()
        except UnicodeDecodeError as error:
            raise UnknownConstruct(f"{path}: {error}") from error


def split(text: str) -> list[str]:
    """Splits a text at newlines only, like Jinja."""
    return re.findall(r".*\n|.+", text)


@dataclass(frozen=True)
class Lines:
    """Lines of a file, from the number `start` on."""

    reader: Reader
    path: str
    lines: Sequence[str]
    start: int = 1

    def blocks(self, name: str | None = None) -> Iterator[Block]:
        """Yields the blocks of these lines.

        Args:
            name: trick of the enclosing loop.
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
            elif tag[1] == "include" and tag[2] == INCLUDED and name is not None:
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
        """Yields the blocks of a loop body for each trick, or for each choice of a trick."""
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
"""For each enclosing `if`: the current condition, and that of a later `else`."""


def change(stack: Stack, kind: str, asked: str) -> bool:
    """Applies a tag to the stack; returns whether the tag is valid here."""
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
    """Yields blocks with the conditions of enclosing tags."""
    around = joined(stack)
    for block in blocks:
        yield replace(block, condition=(*around, *block.condition))


def joined(stack: Stack) -> Condition:
    """Returns the conjunction of the conditions around a line."""
    return tuple(literal for now, _ in stack for literal in now)


ASKED = (
    *(ast.Expression, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not),
    *(ast.Compare, ast.In, ast.NotIn, ast.Eq, ast.NotEq),
    *(ast.Name, ast.Load, ast.Constant, ast.Tuple, ast.Subscript),
)
"""Supported syntax of conditions."""

LONGEST = 300
"""Largest number of nodes in a condition, below the recursion limit of Python."""


@cache
def parse(expression: str) -> ast.expr:
    """Parses a condition, in the common syntax of Jinja and Python."""
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
    """Evaluates a condition.

    Raises:
        UnknownConstruct: the condition has an unknown name.
    """
    try:
        return eval(compiled(expression), {"__builtins__": {}}, dict(names))
    except (NameError, TypeError, LookupError, RecursionError) as error:
        raise UnknownConstruct(f"{expression}: {error}") from error


def settle(
    condition: Condition, rest: Mapping[str, ast.expr | bool]
) -> Condition | None:
    """Simplifies a condition by known names; returns None if it is false.

    Args:
        rest: simplified form of each expression.
    """
    if any(rest[expression] is (not wanted) for expression, wanted in condition):
        return None
    return tuple(
        (ast.unparse(left).replace("'", '"'), wanted)
        for expression, wanted in condition
        if not isinstance(left := rest[expression], bool)
    )


def simplified(tree: ast.expr, known: Mapping[str, Any]) -> ast.expr | bool:
    """Simplifies a condition by the values of known names."""
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
    """Returns the names in a condition."""
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
"""Values of placeholders, by expression."""


def fill(text: str, answers: Mapping[str, Any]) -> str:
    """Fills the placeholders of a text."""

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
"""Values of a trick for the loop body, by expression."""


def fill_known(text: str, known: Mapping[str, Any]) -> str:
    """Fills the placeholders for the trick of a loop.

    Raises:
        UnknownConstruct: an expression is not supported.
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
    """Formats answers as YAML, as Copier does."""
    import yaml

    return yaml.dump(
        dict(answers), indent=4, allow_unicode=True, default_flow_style=False
    )


@cache
def own_template() -> Template:
    """Returns the built-in template."""
    return read_template(files_in(own_file("template")), own_questions())


def choose(
    questions: Mapping[str, Any],
    preset: str,
    choices: Mapping[str, str],
    tricks: Sequence[str],
) -> list[str]:
    """Returns the chosen tricks, as copier.yml computes them.

    Args:
        choices: answers to questions with choices.
        tricks: selected tricks, for the preset `custom`.
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
