"""Writes what the documentation shows of rendered projects anew: make docs.

A code block below a comment such as `<!-- from everything: train.py backward -->` is that
function of that preset's project, or with `ddp` or `fsdp` of that with everything and this form
of several GPUs, or with a trick that `everything` leaves out, or that is for other tasks only, of
that with all that goes with it;
a table or list between `<!-- the NAME -->` and `<!-- end -->` is computed. So are title and summary
of a trick's page, which are those of its row, the line above its folded code, and the lines
`- Code:` and `- Flags:` in the section of a trick.
"""

import ast
import json
import re
import tempfile
import textwrap
import tomllib
from collections import Counter
from collections.abc import Iterable
from difflib import unified_diff
from functools import cache
from itertools import chain, product
from pathlib import Path
from typing import Any

from footprint import footprint
from rendering import PACKAGE, render
from subsets import ROOT, TRICKS, everything, questions, task_of
from torch_tricks.catalogue import Trick
from torch_tricks.measuring.comparing import compare

PAGES = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]
SNIPPET = re.compile(
    r"^(<!-- from (\w+): (\S+) ?(\S*) -->\n```python\n)(.*?)(^```\n)",
    re.DOTALL | re.MULTILINE,
)
HEAD = re.compile(r"\A# .+\n\n(?:[^`\n].*\n\n)?")
"""Title and summary of a trick's page."""
FOLDED = re.compile(
    r"(<details>\n<summary>)[^\n]*(</summary>\n(.*?)</details>\n)", re.DOTALL
)
"""Code that a trick's page shows on demand."""
LISTED = re.compile(r"^- Code:.*\n(?:  .*\n)*(?:- Flags:.*\n)?", re.MULTILINE)
"""The entries of a trick that a section of a project's README lists."""
COMPUTED = re.compile(r"(<!-- the (\w+) -->\n)(.*?)(<!-- end -->\n)", re.DOTALL)


@cache
def project(name: str) -> dict[str, str]:
    """Returns the files of a preset's project by path.

    The name of a form of `parallel` gives all the tricks with that form, and that of a trick
    all that go with it.
    """
    answers = {"preset": name}
    if name in questions()["parallel"]:
        answers = everything(parallel=name).answers
    elif name in questions():
        [row] = [row for row in TRICKS if row.name == name]
        answers = everything(task=task_of(row), **{name: True}).answers
    return rendered(answers)


def rendered(answers: dict[str, Any]) -> dict[str, str]:
    """Returns the files of a project by path."""
    with tempfile.TemporaryDirectory() as directory:
        path = render(Path(directory), answers)
        return {
            file.relative_to(path).as_posix(): file.read_text(encoding="utf-8")
            for file in sorted(path.rglob("*"))
            if file.is_file()
        }


def code(preset: str, file: str, name: str) -> str:
    """Returns a file, or the function, class, method or assignment of that name in it."""
    source = project(preset)[file]
    return part_of(source, name) if name else source


def part_of(source: str, name: str) -> str:
    """Returns the function, class, method or assignment of that name in a module."""
    node: ast.AST = ast.parse(source)
    for part in name.split("."):
        node = next(child for child in node.body if part in names_of(child))
    lines = source.splitlines(keepends=True)
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
    return textwrap.dedent("".join(lines[first - 1 : node.end_lineno]))


def names_of(node: ast.AST) -> list[str]:
    """Returns what a statement defines."""
    targets = getattr(node, "targets", [getattr(node, "target", None)])
    return [getattr(item, "name", getattr(item, "id", "")) for item in [node, *targets]]


def trick_table() -> str:
    rows = ["| trick | effect | flags | recommended |", "|---|---|---|---|"]
    group = ""
    for trick in TRICKS:
        if trick.group != group:
            group = trick.group
            rows.append(f"| **{group}** | | | |")
        link = f"[`{trick.name}`](tricks/{trick.name}.md)"
        flags = ", ".join(f"`{flag}`" for flag in all_flags(trick))
        mark = "yes" if trick.recommended else ""
        rows.append(f"| {link} | {trick.title}: {trick.buys} | {flags} | {mark} |")
    return "\n".join(rows) + "\n"


def trick_diff() -> str:
    """Returns what distillation changes in train.py of the project without tricks."""
    taught = {"preset": "custom", "tricks": ["distillation"], "parallel": "none"}
    sides = [
        files["train.py"].splitlines(keepends=True)
        for files in (project("minimal"), rendered(taught))
    ]
    lines = list(unified_diff(*sides, n=1))[2:]
    # The numbers of the lines change with every edit above them.
    text = "".join("@@\n" if line.startswith("@@") else line for line in lines)
    return f"```diff\n{text}```\n"


def sizes() -> str:
    """Returns the lines of Python of each preset's project, in hundreds."""
    rows = ["| preset | lines of Python | of its tests |", "|---|---|---|"]
    for preset in ("minimal", "recommended", "everything"):
        lines = Counter[bool]()
        for file, text in project(preset).items():
            if file.endswith(".py"):
                lines[file.startswith("tests/")] += len(text.splitlines())
        code, tests = (f"{round(lines[of], -2):,}" for of in (False, True))
        rows.append(f"| `{preset}` | {code} | {tests} |")
    return "\n".join(rows) + "\n"


def all_flags(trick: Trick) -> Iterable[str]:
    """Returns the flags of a trick and of its choices."""
    choices = trick.choices or (None,)
    return dict.fromkeys(chain(*(footprint(trick.name, c).flags for c in choices)))


def file_list() -> str:
    """Returns the files of the project with everything, each with its first line."""
    rows = ["```text"]
    files = project("everything")
    width = max(len(file) for file in files if file.endswith(".py")) + 1
    for file, text in files.items():
        summary = ""
        if file.endswith(".py"):
            docstring = ast.get_docstring(ast.parse(text)) or ""
            summary = docstring.partition("\n")[0].partition(": https")[0].rstrip(".")
        rows.append(f"{file:<{width}}{summary}".rstrip())
    return "\n".join([*rows, "```"]) + "\n"


NUMBERS: dict[str, tuple[str, float, str, bool]] = {
    "val_accuracy": ("accuracy", 100, "%", True),
    "val_balanced_accuracy": ("balanced accuracy", 100, "%", True),
    "val_loss": ("validation loss", 1, "", False),
    "seconds_per_step": ("time of a step", 1000, "ms", False),
    "startup_seconds": ("time to start up", 1, "s", False),
    "seconds_in_all": ("time in all", 1, "s", False),
    "peak_memory_bytes": ("peak memory", 2**-20, "MiB", False),
}
"""The numbers of a measured run: name, factor and unit, and whether more is better."""


@cache
def measurements() -> dict[str, dict[str, Any]]:
    """Returns what is measured of the tricks, by its name."""
    return tomllib.loads((ROOT / "docs/effects.toml").read_text("utf-8"))


def settings() -> str:
    """Returns the settings in which tricks are measured."""
    rows = [
        f"| `{name}` | {asked['where']} |" for name, asked in measurements().items()
    ]
    return "\n".join(["| | setting |", "|---|---|", *rows]) + "\n"


def effects() -> str:
    """Returns what was measured of the tricks, a table for each machine."""
    lines = (ROOT / "docs/effects.jsonl").read_text("utf-8").splitlines()
    kept = list(map(json.loads, lines))
    tables = []
    for machine in dict.fromkeys(line["machine"] for line in kept):
        found = {
            line["name"]: line["runs"] for line in kept if line["machine"] == machine
        }
        rows = [
            f"On {machine}:\n",
            "| | trick | measured | without | with | difference | |",
            "|---|---|---|---|---|---|---|",
        ]
        for name, asked in measurements().items():
            rows += effects_of(name, asked, found.get(name, {}))
        tables.append("\n".join(rows) + "\n")
    return "\n" + "\n".join(tables) + "\n"


def effects_of(
    name: str, asked: dict[str, Any], runs: dict[str, list[dict[str, float]]]
) -> Iterable[str]:
    """Yields a row for each trick of a measurement, and each number that is shown."""
    variants = [f"with-{trick}" for trick in asked["tricks"].split(",")]
    others = [variant for variant in (*variants, "all-together") if variant in runs]
    for variant, number in product(others, asked["shows"]):
        words, factor, unit, more = NUMBERS[number]
        values = ([run[number] for run in runs[side]] for side in ("as-it-is", variant))
        one = compare(*values)
        digits = 3 if factor == 1 and not unit else 1
        cells = [
            f"{factor * value:.{digits}f} {unit}".strip()
            for value in (one.before, one.after)
        ]
        half = factor * (one.high - one.low) / 2
        difference = f"{factor * one.mean:+.{digits}f} ± {half:.{digits}f}"
        said = "the same" if one.low == one.high == 0 else "not significant"
        if one.significant:
            said = "**better**" if (one.mean > 0) == more else "**worse**"
        trick = variant.removeprefix("with-").replace("all-together", "all of them")
        row = " | ".join((f"`{name}`", trick, words, *cells, difference, said))
        yield f"| {row} |"


COMPUTERS = {
    "tricks": trick_table,
    "files": file_list,
    "diff": trick_diff,
    "sizes": sizes,
    "settings": settings,
    "effects": effects,
}


def written(page: Path) -> str:
    """Returns a page with all its snippets, tables and lists as they should be."""
    text = page.read_text(encoding="utf-8")
    if page.parent == ROOT / "docs" / "tricks":
        [trick] = [row for row in TRICKS if row.name == page.stem]
        summary = trick.buys[0].upper() + trick.buys[1:]
        text = HEAD.sub(f"# {trick.title}\n\n{summary}.\n\n", text)
    text = FOLDED.sub(lambda m: m[1] + parts_shown(m[3]) + m[2], text)
    text = SNIPPET.sub(lambda m: m[1] + code(m[2], m[3], m[4]) + m[6], text)
    return COMPUTED.sub(lambda m: m[1] + COMPUTERS[m[2]]() + m[4], text)


def parts_shown(text: str) -> str:
    """Returns the files that are shown in a text, and the parts of each, as HTML."""
    files: dict[str, list[str]] = {}
    for _, _, file, part, *_ in SNIPPET.findall(text):
        parts = files.setdefault(f"<code>{file}</code>", [])
        parts += {f"<code>{part}</code>"} - {*parts}
    return "; ".join(f"{file}: {', '.join(parts)}" for file, parts in files.items())


def section_of(trick: Trick) -> Path:
    """Returns the file with what the README of a project says of a trick."""
    folder = ROOT / "template" / f"{{{{ trick.{trick.name} }}}}"
    return folder / "readme_section.md.jinja"


def written_section(trick: Trick, text: str) -> str:
    """Returns a section with its code and flags as they should be, of each choice in turn.

    Those in the branch of another task than the first that the trick works for stay as they are.
    """
    choices = iter(trick.choices or (None,))

    def lines(match: re.Match[str]) -> str:
        if any(task != task_of(trick) for task in tasks_around(text[: match.start()])):
            return match[0]
        listed = footprint(trick.name, next(choices)).lines
        return listed.replace(f"{PACKAGE}/", "{{ package_name }}/")

    return LISTED.sub(lines, text)


def tasks_around(before: str) -> list[str]:
    """Returns the tasks that the conditions around the end of a text ask for."""
    stack: list[str] = []
    for word, condition in re.findall(r"\{% (if|elif|else|endif)\b(.*?)%\}", before):
        if word != "if":
            stack.pop()
        if word != "endif":
            stack.append(condition)
    return re.findall(r'task == "(\w+)"', "".join(stack))


def write() -> None:
    for trick in TRICKS:
        path = section_of(trick)
        text = path.read_text(encoding="utf-8")
        path.write_text(written_section(trick, text), encoding="utf-8")
    for page in PAGES:
        page.write_text(written(page), encoding="utf-8")


if __name__ == "__main__":
    write()
