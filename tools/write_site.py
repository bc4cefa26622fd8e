"""Stages the site's pages for Zensical: make site.

README.md, the handbook and the pages about the repository stay where GitHub shows them. A
copy of each goes to build/docs, with its links rewritten: to the copy of another page, or to
the repository for a file that is not on the site.
"""

import json
import posixpath
import re
import shutil
from itertools import groupby
from pathlib import Path
from typing import Any

from address import ADDRESS, SITE
from torch_tricks.catalogue import own_catalogue

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build"
PAGE = BUILD / "site" / "pick" / "index.html"
"""The page in which tricks are picked, as `make page` writes it."""
ELSEWHERE = {
    "docs/README.md": "handbook.md",
    "docs/recipes/README.md": "recipes/index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "docs/tricks.md": "tricks/index.md",
    "README.md": "index.md",
}
"""The pages that have another place on the site than in the repository, or below docs."""
GUIDES = (
    *("own-images", "imbalanced", "evaluate", "fine-tune", "resume", "memory"),
    *("several-gpus", "slurm", "docker", "compare", "serve", "extend", "update"),
)
REFERENCE = (
    *("command-line", "data", "resuming", "several-processes", "updating", "files"),
    "own-loop",
)
RECIPES = (
    *("environment", "tensors", "images", "models", "data", "losses", "training"),
    *("saving", "speed", "debugging"),
)
PROJECT = ("contributing", "releasing", "security", "changelog")
FIGURES = ("recommended", "figures", "proof")
CODE = re.compile(
    r"^ *(?P<fence>```+).*?^ *(?P=fence) *$|(?P<ticks>`+)(?:(?!\n\n).)+?(?P=ticks)(?!`)"
    r"|\]\((?P<link>[^)\s]+)\)",
    re.DOTALL | re.MULTILINE,
)
"""Blocks and spans of code, which stay as they are, and links."""


def pages(root: Path = ROOT) -> dict[str, str]:
    """Returns the pages of the site by their place in the repository."""
    folders = (
        "docs",
        *(f"docs/{name}" for name in ("guides", "tasks", "tricks", "recipes")),
    )
    handbook = [page for folder in folders for page in root.glob(f"{folder}/*.md")]
    names = sorted(path.relative_to(root).as_posix() for path in handbook)
    return {name: name.removeprefix("docs/") for name in names} | ELSEWHERE


def rewrite_links(text: str, source: str, page: str, staged: dict[str, str]) -> str:
    """Returns Markdown whose links lead from a page of the site to where they led before.

    Args:
        text: what stands in the file `source` of the repository.
        source: the file that the links begin at.
        page: the page of the site that the text will stand in.
        staged: all pages of the site by their place in the repository.

    Raises:
        ValueError: a link leads to no file.
    """

    def rewritten(match: re.Match[str]) -> str:
        if not (link := match["link"]):
            return match[0]
        if link.startswith(SITE):
            return f"]({relative(link.removeprefix(SITE) or './', page)})"
        if re.match(r"[a-z]+:", link):
            return match[0]
        path, mark, anchor = link.partition("#")
        if not path and staged.get(source) == page:
            return match[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        target = target if path else source
        if target in staged:
            return f"]({relative(staged[target], page)}{mark}{anchor})"
        if target.startswith("docs/pictures/"):
            return f"]({relative(target.removeprefix('docs/'), page)})"
        if not (ROOT / target).exists():
            raise ValueError(f"{source} links to {link}, which is not there")
        return f"]({ADDRESS}/blob/main/{target}{mark}{anchor})"

    return CODE.sub(rewritten, text)


def relative(target: str, page: str) -> str:
    """Returns the link from a page to another file of the site."""
    path = posixpath.relpath(target, posixpath.dirname(page) or ".")
    return f"{path}/" if target.endswith("/") else path


def staged_page(source: str, staged: dict[str, str]) -> str:
    """Returns a page of the repository as the site has it."""
    page = staged[source]
    text = read(source)
    if page.startswith("tricks/") and page != "tricks/index.md":
        text = with_lines(text, Path(page).stem)
    text = rewrite_links(text, source, page, staged)
    # The first page has the whole width.
    head = "---\nhide:\n  - navigation\n  - toc\n---\n\n"
    return head + text if page == "index.md" else text


def with_lines(text: str, trick: str) -> str:
    """Returns a page of the handbook with a link to its trick's lines, below the commands."""
    link = f"[See its lines in a project]({SITE}pick/#lines={trick})"
    return re.sub(r"\A(.*?\n```\n)", rf"\1\n{link}\n", text, flags=re.DOTALL)


def read(source: str) -> str:
    return (ROOT / source).read_text(encoding="utf-8")


def navigation(staged: dict[str, str]) -> list[Any]:
    """Returns the site's navigation: titles, each with a page or with a list of its own."""
    title_of = {
        page: re.search(r"^# (.+)$", read(source), re.MULTILINE)[1]
        for source, page in staged.items()
    }

    def titled(*names: str) -> list[Any]:
        return [{title_of[f"{name}.md"]: f"{name}.md"} for name in names]

    groups = groupby(own_catalogue().values(), lambda trick: trick.group)
    tricks = [
        {group: [{t.title: f"tricks/{t.name}.md"} for t in rows]}
        for group, rows in groups
    ]
    tasks = [page.removesuffix(".md") for page in title_of if page.startswith("tasks/")]
    return [
        {"Home": "index.md"},
        {"Pick tricks": "pick/index.html"},
        {"Get started": "start.md"},
        {"Tricks": ["tricks/index.md", *tricks]},
        {"Tasks": titled(*tasks)},
        {"Guides": titled(*(f"guides/{name}" for name in GUIDES))},
        {"Reference": ["handbook.md", *titled(*REFERENCE)]},
        {"Recipes": ["recipes/index.md", *titled(*(f"recipes/{n}" for n in RECIPES))]},
        {"Figures": titled(*FIGURES)},
        {"Project": [*titled(*PROJECT), {"Repository": ADDRESS}]},
    ]


def settings(nav: list[Any]) -> str:
    """Returns Zensical's settings, with the site's address and navigation."""
    text = read("docs/site/zensical.toml")
    added = f"[project]\nsite_url = {json.dumps(SITE)}\nnav = {as_toml(nav)}\n"
    return text.replace("[project]\n", added, 1)


def as_toml(value: Any) -> str:
    """Returns a value of lists, dictionaries and strings as TOML has it."""
    if isinstance(value, dict):
        rows = (f"{json.dumps(k)} = {as_toml(v)}" for k, v in value.items())
        return f"{{ {', '.join(rows)} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(as_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)


def stage(build: Path = BUILD, page: Path = PAGE) -> Path:
    """Writes what Zensical builds the site from, and returns its settings' path.

    Args:
        build: a directory, which gets `docs`; the site goes into its `site`.
        page: the page in which tricks are picked. It is carried through as it is.
    """
    staged = pages()
    docs = build / "docs"
    shutil.rmtree(docs, ignore_errors=True)
    for source, name in staged.items():
        path = docs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(staged_page(source, staged), encoding="utf-8")
    shutil.copytree(ROOT / "docs" / "pictures", docs / "pictures")
    for name in ("extra.css", "logo.svg"):
        shutil.copy(ROOT / "docs" / "site" / name, docs)
    (docs / "pick").mkdir()
    shutil.copy(page, docs / "pick" / "index.html")
    path = build / "zensical.toml"
    path.write_text(settings(navigation(staged)), encoding="utf-8")
    return path


if __name__ == "__main__":
    if not PAGE.exists():
        raise SystemExit("there is no page to pick tricks in: make page")
    stage()
