"""The recipes: each block runs and gives what its comments say, and the table has them all."""

import re
import sys
import warnings
from collections.abc import Iterator
from itertools import groupby

import pytest
import snippets
import torch
from processes import call
from subsets import ROOT
from write_docs import code

FOLDER = ROOT / "docs" / "recipes"
INDEX = FOLDER / "README.md"
PAGES = sorted(path for path in FOLDER.glob("*.md") if path != INDEX)
RECIPES = 162

SECTIONS = [
    pytest.param(page, list(section), id=f"{page.stem}: {heading}")
    for page in PAGES
    for heading, section in groupby(
        snippets.blocks(page.read_text(encoding="utf-8"))[1:],
        key=lambda block: block.heading,
    )
]


@pytest.fixture
def fresh(tmp_path, monkeypatch) -> Iterator[None]:
    """An empty directory, a seed, and torch as it was, with its warnings every time."""
    monkeypatch.chdir(tmp_path)
    dtype, always = torch.get_default_dtype(), torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.default_generator.manual_seed(0)
        yield
    torch.set_default_dtype(dtype)
    torch.set_warn_always(always)


@pytest.mark.parametrize(("page", "section"), SECTIONS)
def test_a_recipe_gives_what_its_comments_say(page, section, fresh, capfd):
    names = {"__name__": "recipe"}
    imports, *_ = snippets.blocks(page.read_text(encoding="utf-8"))
    for block in [imports, *section]:
        snippets.run(block, names, page.relative_to(ROOT))
    assert capfd.readouterr() == ("", "")


def test_the_index_gives_what_its_comments_say(fresh):
    for block in snippets.blocks(INDEX.read_text(encoding="utf-8")):
        snippets.run(block, {}, INDEX)


@pytest.mark.parametrize(("page", "section"), SECTIONS)
def test_a_block_claims_something_and_a_wrong_one_says_so(page, section):
    """Whoever copies in a hurry sees it in the block, too."""
    assert not section[0].code.startswith("# Wrong"), "the right form comes first"
    for block in section:
        claims = [claim for _, claim in snippets.statements(block) if claim]
        assert claims or "assert " in block.code, block
        if any(map(snippets.RAISED.fullmatch, claims)):
            assert block.code.startswith("# Wrong"), block


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_named_in_the_index_and_says_the_traps(page):
    text = page.read_text(encoding="utf-8")
    assert f"]({page.name})" in INDEX.read_text(encoding="utf-8")
    for heading in headings(text):
        assert f"]({page.name}#{anchor(heading)})" in INDEX.read_text("utf-8"), heading
    sections = re.split(r"^## .+$", text, flags=re.MULTILINE)[1:]
    assert all("**Trap" in section for section in sections)


def test_the_blocks_are_formatted(tmp_path):
    for page in PAGES:
        for block in snippets.blocks(page.read_text(encoding="utf-8")):
            path = tmp_path / f"{page.stem}_{block.line}.py"
            path.write_text(block.code, encoding="utf-8")
    options = ("--diff", "--isolated", tmp_path)
    call(sys.executable, "-m", "ruff", "format", *options)


ROW = re.compile(r"^\| (\d+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
LINK = re.compile(r"\[[^]]+\]\(([^)#]*)#?([^)]*)\)")
PLACE = re.compile(r"`([\w./]+\.(?:py|md|toml))`(?: `([\w.]+)`)?")


def rows() -> list[tuple[int, str]]:
    """Returns the number of each recipe of the table, and where it is."""
    found = ROW.findall(INDEX.read_text(encoding="utf-8"))
    return [(int(number), where) for number, _, where in found]


def test_the_table_has_each_recipe_once():
    assert [number for number, _ in rows()] == list(range(1, RECIPES + 1))


@pytest.mark.parametrize(("number", "where"), rows())
def test_a_recipe_is_where_the_table_says(number, where):
    links, places = LINK.findall(where), PLACE.findall(where)
    assert links or places
    for file, fragment in links:
        page = (FOLDER / file).resolve() if file else INDEX
        anchors = map(anchor, headings(page.read_text(encoding="utf-8")))
        assert not fragment or fragment in anchors, fragment
    for file, name in places:
        assert code("everything", file, name)


def headings(page: str) -> list[str]:
    """Returns the headings of a page's sections."""
    return re.findall(r"^## (.+)$", snippets.BLOCK.sub("", page), re.MULTILINE)


def anchor(heading: str) -> str:
    """Returns the name by which GitHub links to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize(
    "line",
    [
        *("1.26  # 1.2", "torch.Size([2, 3])  # (3, 2)", "3  # 30", "None  # nothing"),
        "1 / 0  # ZeroDivisionError: nothing of it",
        *("1 / 0  # ValueError", "x = 1  # ValueError", "1 + 1  # UserWarning"),
    ],
)
def test_a_wrong_comment_is_found(line, fresh):
    block = snippets.Block("", f"import torch\n{line}\n", 1)
    with pytest.raises(AssertionError):
        snippets.run(block, {}, INDEX)
