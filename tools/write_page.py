"""Writes the page on which tricks are picked: make page.

One file with its styles, its scripts and the template as data, which needs no server. What it
shows is what `blocks.py` renders, and `docs/page/render.js` says how the page does it.
"""

import argparse
import ast
import json
import re
import tomllib
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

from blocks import (
    PLACE,
    PLACES,
    SUFFIX,
    Condition,
    Template,
    UnknownConstruct,
    as_yaml,
    own_template,
    parse,
)
from jinja2 import TemplateError
from markdown import markdown
from torch_tricks.catalogue import (
    Trick,
    choice_questions,
    own_catalogue,
    own_questions,
    read_catalogue,
)
from torch_tricks.git import git
from torch_tricks.preview import Version, own_version
from torch_tricks.template import PUBLISHED

ROOT = Path(__file__).parents[1]
PARTS = ROOT / "docs" / "page"
HANDBOOK = "../tricks/NAME/"
"""Where the page of a trick lies, seen from this one."""

NAMES = (
    *("package_name", "distribution_name", "project_name", "task"),
    *("description", "answers"),
)
"""The names that the page fills in, each in the place of a character that no template holds."""

MARKS = dict(zip(NAMES, "\ue000\ue001\ue002\ue003\ue004\ue005", strict=True))

FILLED_IN = {
    "package_name": MARKS["package_name"],
    'package_name | replace("_", "-")': MARKS["distribution_name"],
    "project_name": MARKS["project_name"],
    "task": MARKS["task"],
    "description": MARKS["description"],
    # In none of them JSON would escape anything.
    "description | to_json(ensure_ascii=false)": f'"{MARKS["description"]}"',
    "_copier_answers | to_nice_yaml": MARKS["answers"],
}

EXAMPLES = {
    "task": {
        "classification": "rust",
        "multilabel": "rust; mildew",
        "regression": "12.5",
        "segmentation": "leaf_01_mask.png",
        "detection": "rust 12 40 96 180",
    }
}
"""A target for each choice of a question, as it stands in a list of labels."""

Tree = list[Any]
"""A condition: `["in", trick]`, `["==", question, choice]`, and `and`, `or` and `not` of trees."""


class Conditions:
    """Numbers what blocks ask for, so that each is asked once."""

    def __init__(
        self, template: Template, tricks: Container[str], given: Mapping[str, Any]
    ) -> None:
        self.computed, self.choices = template.computed, template.choices
        self.tricks, self.given = tricks, given
        self.trees: list[Tree] = []
        self.numbers: dict[Condition, int] = {}

    def number(self, condition: Condition) -> int:
        """Returns the place of a condition among the trees."""
        if condition not in self.numbers:
            literals = [
                self.tree(parse(expression))
                if wanted
                else ["not", self.tree(parse(expression))]
                for expression, wanted in condition
            ]
            self.trees.append(literals[0] if len(literals) == 1 else ["and", *literals])
            self.numbers[condition] = len(self.trees) - 1
        return self.numbers[condition]

    def tree(self, node: ast.expr) -> Tree:
        """Returns a condition as data.

        Raises:
            UnknownConstruct: the page does not know how to ask this.
        """
        match node:
            case ast.BoolOp(op, values):
                name = "and" if isinstance(op, ast.And) else "or"
                return [name, *map(self.tree, values)]
            case ast.UnaryOp(ast.Not(), operand):
                return ["not", self.tree(operand)]
            case ast.Compare(left, [ast.NotIn() | ast.NotEq() as op], right):
                positive = ast.In() if isinstance(op, ast.NotIn) else ast.Eq()
                return ["not", self.tree(ast.Compare(left, [positive], right))]
            case ast.Compare(ast.Constant(str(name)), [ast.In()], [ast.Name("chosen")]):
                if name in self.tricks:
                    return ["in", name]
            case ast.Compare(ast.Name(name), [ast.Eq()], [ast.Constant(choice)]):
                if name in self.choices:
                    return ["==", name, choice]
            case ast.Compare(ast.Name(), [ast.In()], [ast.Tuple(choices)]):
                each = (ast.Compare(node.left, [ast.Eq()], [one]) for one in choices)
                return ["or", *map(self.tree, each)]
            case ast.Name("chosen"):
                return ["or", *(["in", name] for name in self.tricks)]
            case ast.Name(name) if name in self.computed:
                return self.tree(parse(self.computed[name]))
            case ast.Name(name) if name in self.given:
                # What the page does not ask for is known: an empty `and` holds, an empty `or` not.
                return ["and" if self.given[name] else "or"]
        raise UnknownConstruct(ast.unparse(node))


def read(template: Template, questions: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what the page needs to know of a template.

    Raises:
        UnknownConstruct: the page does not know something in it; it says where that is.
    """
    given = {"author": questions["author"]["default"]}
    tricks = read_catalogue(questions)
    conditions = Conditions(template, tricks, given)
    files: dict[str, list[Any]] = {}
    for source in template.sources:
        # Several templates of one file never have their conditions met together.
        file = files.setdefault(
            marked(source.target, given, source.path, 1),
            [0o755 if source.executable else 0o644, []],
        )
        blocks = []
        for block in source.blocks:
            try:
                number = conditions.number(block.condition)
            except UnknownConstruct as error:
                where = f"{block.path}:{block.line}"
                raise UnknownConstruct(f"{where}: {error}") from error
            blocks.append([number, marked(block.text, given, block.path, block.line)])
        try:
            file[1].append([conditions.number(source.condition), blocks])
        except UnknownConstruct as error:
            raise UnknownConstruct(f"{source.path}:1: {error}") from error
    return {
        "names": {mark: name for name, mark in MARKS.items()},
        "conditions": conditions.trees,
        "files": [[path, *file] for path, file in files.items()],
        "presets": choices_of(questions["preset"]),
        **evaluated(questions, tricks),
        "reserved": sorted(reserved_names(own_version())),
        "given": given,
    }


def reserved_names(version: Version) -> set[str]:
    """Returns the forbidden names of a package, such as names of dependencies."""
    known = {"catalogue": version.raw["catalogue"]["default"]}
    return {*version.default("reserved_names", known).split()}


def marked(text: str, given: Mapping[str, Any], path: str, line: int) -> str:
    """Returns a text with a mark for each name, and with all that is known filled in."""

    def unknown(at: int) -> UnknownConstruct:
        number = line + text.count("\n", 0, at)
        return UnknownConstruct(f"{path}:{number}: {text[at:].splitlines()[0].strip()}")

    def value(found: re.Match[str]) -> str:
        expression, strips, end = found.groups()
        if expression in FILLED_IN:
            filled = FILLED_IN[expression]
        elif expression in PLACES:
            try:
                filled = PLACES[expression](given)
            except KeyError as error:
                raise unknown(found.start()) from error
        else:
            raise unknown(found.start())
        return filled + ("" if strips else end)

    if other := re.search("[\ue000-\uf8ff]", text):
        raise unknown(other.start())
    blanked = PLACE.sub(lambda found: " " * len(found[0]), text)
    if path.endswith(SUFFIX) and (other := re.search(r"\{[{%#]", blanked)):
        raise unknown(other.start())
    return PLACE.sub(value, text)


def shown(
    trick: Trick, row: Mapping[str, Any], presets: Mapping[str, Container[str]]
) -> dict[str, Any]:
    """Returns what the page says of a trick, what it goes with, and the words that find it."""
    entries = ("name", "title", "buys", "group", "wants", "goes_with", "choices")
    values = {entry: getattr(trick, entry) for entry in entries}
    values["keywords"] = row.get("keywords")
    return {entry: value for entry, value in values.items() if value} | {
        "bounds": trick.bounds,
        "presets": [name for name, tricks in presets.items() if trick.name in tricks],
    }


def evaluated(
    questions: Mapping[str, Any], tricks: Mapping[str, Trick]
) -> dict[str, Any]:
    """Returns tricks with their presets, questions with choices, and a description for each task.

    Raises:
        UnknownConstruct: Jinja's sandbox refuses an expression.
    """
    try:
        ask = Version(questions, dict, "")
        rows = questions["catalogue"]["default"]
        # As for answers with which all tricks work: each trick has its bounds.
        known = {"catalogue": rows, "refusals": {}}
        presets = {
            preset: ask.default("preset_tricks", known | {"preset": preset})
            for preset in choices_of(questions["preset"])
        }
        return {
            "tricks": [shown(tricks[name], rows[name], presets) for name in tricks],
            "descriptions": {
                task: ask.default("description", {"task": task})
                for task in choices_of(questions["task"])
            },
            "questions": [
                question_of(name, questions, ask)
                for name in choice_questions(questions)
            ],
        }
    except TemplateError as error:
        raise UnknownConstruct(f"copier.yml: {error}") from error


def question_of(
    name: str, questions: Mapping[str, Any], ask: Version
) -> dict[str, Any]:
    """Returns a question with choices: what it has by default in each preset, and which ask it."""
    presets = {preset: {"preset": preset} for preset in choices_of(questions["preset"])}
    return {
        "name": name,
        "choices": choices_of(questions[name]),
        "examples": EXAMPLES.get(name, {}),
        "defaults": {preset: ask.default(name, presets[preset]) for preset in presets},
        "asked": [preset for preset in presets if ask.asks(name, presets[preset])],
    }


def choices_of(question: Mapping[str, Any]) -> dict[str, str]:
    """Returns the choices of a question, each with what it means."""
    return {
        value: label.partition(": ")[2] for label, value in question["choices"].items()
    }


def version_here() -> str:
    """Returns the version of the template as Copier records it, and says if it is not all."""
    version = git("describe", "--tags", "--always", cwd=ROOT).strip()
    if git("status", "--porcelain", "--", "copier.yml", "template", cwd=ROOT):
        print(
            f"note: the template has changes that {version} has not, so what this page makes "
            "cannot be updated: commit them first"
        )
    return version


def handbook_page(name: str) -> str:
    """Returns a trick's page of the handbook as HTML.

    A link to another trick is a button for its page, and one to another page leads to the site.
    Its headings are those of a part of the page.
    """
    text = (ROOT / "docs" / "tricks" / f"{name}.md").read_text(encoding="utf-8")
    text = re.sub(r"<!--.*?-->\n", "", text)
    html = markdown(text, extensions=["fenced_code", "tables"])
    html = re.sub(r"(</?h)(\d)", lambda found: f"{found[1]}{int(found[2]) + 1}", html)
    html = re.sub(
        r'<a href="(\w+)\.md(?:#[\w-]+)?">(.*?)</a>',
        r'<button type="button" class="page" data-page="\1">\2</button>',
        html,
        flags=re.DOTALL,
    )
    html = re.sub(
        r'<a href="\.\./([\w/-]+)\.md', r'<a target="handbook" href="../\1/', html
    )
    return html.replace('<a href="https:', '<a target="handbook" href="https:')


def embedded(data: Any) -> str:
    """Returns JSON that can stand in a page: nothing in it ends a script."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def page(source: str, version: str) -> str:
    """Returns the page of the template that is here.

    Args:
        source: where Copier gets the template, for what the page makes.
        version: the tag or commit.
    """
    data = read(own_template(), own_questions())
    data |= {"source": source, "version": version, "handbook": HANDBOOK}
    data["published"] = PUBLISHED
    recorded = {"_commit": version, "_src_path": source, **data["given"]}
    data["recorded"] = as_yaml(recorded)
    parts = {path.name: path.read_text(encoding="utf-8") for path in PARTS.iterdir()}
    data |= tomllib.loads(parts["starts.toml"])
    parts["data"] = embedded(data)
    pages = {name: handbook_page(name) for name in own_catalogue()}
    parts["pages"] = embedded(pages)
    return re.sub(r"@@([\w.]+)@@", lambda found: parts[found[1]], parts["page.html"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("output", type=Path, nargs="?", default=ROOT / "build/site/pick/index.html")
    add("--source", default=PUBLISHED, help="where projects get their updates from")
    add("--version", help="a tag or commit; by default what git calls this one")
    options = parser.parse_args()
    version = options.version or version_here()
    try:
        text = page(options.source, version)
    except UnknownConstruct as error:
        raise SystemExit(f"the page cannot render this: {error}") from error
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(text, encoding="utf-8", newline="\n")
    print(f"{options.output}: {len(text.encode()):,} bytes, of {version}")


if __name__ == "__main__":
    main()
