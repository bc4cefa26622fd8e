"""What the documentation shows is what the template renders.

A code block below a comment such as `<!-- from everything: train.py backward -->` is that
function of that preset's project, or with `ddp` or `fsdp` of that with everything and this form
of several GPUs; a table or list between `<!-- the NAME -->` and
`<!-- end -->` is computed. `python tests/test_docs.py --write` writes them anew.
"""

import ast
import re
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml
from jinja2 import StrictUndefined
from rendering import render
from subsets import TRICKS, all_subsets, everything, questions
from torch_tricks.catalogue import Trick

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]
SNIPPET = re.compile(
    r"^(<!-- from (\w+): (\S+) ?(\S*) -->\n```python\n)(.*?)(^```\n)",
    re.DOTALL | re.MULTILINE,
)
COMPUTED = re.compile(r"(<!-- the (\w+) -->\n)(.*?)(<!-- end -->\n)", re.DOTALL)
LINK = re.compile(r"\[[^]]*\]\(([^)\s]+)\)")


@cache
def project(name: str) -> dict[str, str]:
    """Returns the files of a preset's project by path.

    The name of a form of `parallel` gives all the tricks with that form.
    """
    answers = {"preset": name}
    if name in questions()["parallel"]:
        answers = everything(parallel=name).answers
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
    rows = ["| trick | what it buys | flags | |", "|---|---|---|---|"]
    group = ""
    for trick in TRICKS:
        if trick.group != group:
            group = trick.group
            rows.append(f"| **{group}** | | | |")
        flags = ", ".join(f"`{flag}`" for flag in all_flags(trick))
        mark = "recommended" if trick.recommended else ""
        link = f"[`{trick.name}`](docs/tricks/{trick.name}.md)"
        rows.append(f"| {link} | {trick.title}: {trick.buys} | {flags} | {mark} |")
    return "\n".join(rows) + "\n"


def all_flags(trick: Trick) -> Iterable[str]:
    """Returns the flags of a trick and of its choices."""
    return dict.fromkeys([*trick.flags, *chain(*trick.flags_of.values())])


def trick_index() -> str:
    return "".join(
        f"- [{trick.title}](tricks/{trick.name}.md): {trick.buys}\n" for trick in TRICKS
    )


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


COMPUTERS = {"tricks": trick_table, "index": trick_index, "files": file_list}

each_page = pytest.mark.parametrize(
    "page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix()
)


def written(text: str) -> str:
    """Returns a page with all its snippets, tables and lists as they should be."""
    text = SNIPPET.sub(lambda m: m[1] + code(m[2], m[3], m[4]) + m[6], text)
    return COMPUTED.sub(lambda m: m[1] + COMPUTERS[m[2]]() + m[4], text)


@each_page
def test_shown_code_is_the_rendered_code(page):
    text = page.read_text(encoding="utf-8")
    assert text == written(text), "run: python tests/test_docs.py --write"


@each_page
def test_all_shown_python_has_a_source(page):
    text = page.read_text(encoding="utf-8")
    lines = text.splitlines()
    assert lines.count("```python") == len(SNIPPET.findall(text))
    assert lines.count("<!-- end -->") == len(COMPUTED.findall(text))


@pytest.mark.parametrize("trick", TRICKS, ids=lambda trick: trick.name)
def test_a_page_of_the_handbook_shows_the_code_and_names_the_source(trick):
    text = (ROOT / "docs" / "tricks" / f"{trick.name}.md").read_text(encoding="utf-8")
    shown = {match[2] for match in SNIPPET.findall(text)}
    assert shown, "no code is shown"
    if trick.module:
        assert f"leaf_diseases/{trick.module}.py" in shown
    assert trick.source in text
    assert text.startswith(f"# {trick.title}\n")
    for heading in ("The idea", "The code", "Traps", "Source"):
        assert f"\n## {heading}\n" in text
    for flag in all_flags(trick):
        assert f"`{flag}" in text


@each_page
def test_links_lead_to_files(page):
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        if not link.startswith(("https://", "#")):
            assert (page.parent / link.partition("#")[0]).exists(), link


def test_the_table_of_settings_that_may_change_is_the_code():
    assignment = code(
        "everything", "leaf_diseases/checkpoints/checkpoint.py", "MAY_CHANGE"
    )
    names = ast.literal_eval(assignment.partition(" = ")[2])
    may_change = {"--" + name.replace("_", "-") for name in names}
    pages = [
        project("everything")["README.md"],
        (ROOT / "docs/resuming.md").read_text(),
    ]
    for text in pages:
        table = text.partition("| setting | what a change does |")[2].partition("\n\n")[
            0
        ]
        assert set(re.findall(r"`(--[\w-]+)`", table)) == may_change


def test_the_readme_of_a_project_names_only_what_the_project_has():
    files = project("everything")
    for line in re.findall(r"^- Code: (.+)$", files["README.md"], re.MULTILINE):
        for where, name in named_places(line):
            if where:
                assert code("everything", where, name)
            else:
                assert name in files


def named_places(line: str) -> Iterator[tuple[str, str]]:
    """Yields each function of a line such as `a.py`; in `b.py`: `f`, `g`, with its file.

    A file that is named as a whole has no other.
    """
    for part in re.split("(?:^|; )in ", line):
        where, _, names = part.rpartition(": ")
        for name in re.findall(r"`([^`]+)`", names):
            yield where.strip("`"), name


@pytest.mark.parametrize(
    ("form", "trick"),
    [
        (form, trick)
        for form in ("dp", "ddp", "fsdp")
        for trick in everything(parallel=form).tricks
    ],
)
def test_the_readme_names_functions_that_a_trick_changes(form, trick):
    files = project(form)
    answers = {"parallel": form, trick: questions()[trick][0]}
    without = rendered(everything(**answers).answers)
    [title] = (row.title for row in TRICKS if row.name == trick)
    [section] = re.findall(
        rf"^### {re.escape(title)}\n.*?^- Code: (.+?)$",
        files["README.md"],
        re.DOTALL | re.MULTILINE,
    )
    for file, name in named_places(section):
        if file:
            present, absent = part_of(files[file], name), ""
            # There may be no such function without it.
            with suppress(StopIteration):
                absent = part_of(without[file], name)
            assert present != absent, name


def test_the_readme_of_every_project_has_whole_sections():
    config = yaml.safe_load((ROOT / "copier.yml").read_text(encoding="utf-8"))
    environment = jinja2.Environment(
        **config["_envops"] | {"undefined": StrictUndefined}
    )
    source = (ROOT / "template" / "README.md.jinja").read_text(encoding="utf-8")
    template = environment.from_string(source)
    titles = {trick.name: trick.title for trick in TRICKS}
    names = {"project_name": "A", "description": "B", "package_name": "c"}
    computed = {
        name: environment.compile_expression(config[name]["default"].strip("{ }"))
        for name in ("distributed", "epoch_sampler")
    }
    for subset in all_subsets():
        answers = subset.answers
        answers |= {
            "chosen": subset.tricks,
            "distributed": computed["distributed"](**answers),
        }
        text = template.render(
            **names,
            **answers,
            epoch_sampler=computed["epoch_sampler"](**answers),
            catalogue=config["catalogue"]["default"],
        )
        headings = re.findall(r"^### (.+)$", text, re.MULTILINE)
        assert headings == [titles[trick] for trick in subset.tricks]
        assert ("\n## Tricks\n" in text) == bool(headings)
        assert "\n\n\n" not in re.sub(r"```.*?```", "-", text, flags=re.DOTALL)
        assert text.endswith(".\n")


def test_changelog_begins_with_the_version_of_the_package():
    project_file = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    version = re.search(r'^version = "(.+)"$', project_file, re.MULTILINE)[1]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## \[?([\d.]+)", changelog, re.MULTILINE)[1] == version


def write() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        page.write_text(written(text), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python tests/test_docs.py --write")
    write()
