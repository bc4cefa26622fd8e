"""The built site: its links, anchors and images lead somewhere, and no third party is asked."""

import html
import json
import re
import sys
from collections import Counter
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest
import write_site
from address import ADDRESS, SITE
from browsing import needs_chromium, served
from markdown_it import MarkdownIt
from processes import call
from subsets import ROOT, TRICKS

PICK = "<!doctype html>\n<title>Pick</title>\r\n<p>é &amp; {{ no template }}".encode()
"""A page whose bytes would change if anything touched it."""
ASKED = {
    *((tag, "src") for tag in ("audio", "embed", "iframe", "img", "input", "script")),
    *((tag, "src") for tag in ("source", "track", "video")),
    *((tag, "srcset") for tag in ("img", "source")),
    *(("video", "poster"), ("object", "data"), ("link", "href"), ("use", "href")),
}
"""Attributes that a browser loads by itself, unless a `link` only names something."""
NAMES = {"alternate", "canonical", "next", "prev"}
CSS_URL = re.compile(r"""url\(\s*["']?([^"')]+)|@import\s*["']([^"']+)""")


class Page(HTMLParser):
    """The links, assets and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = {""}
        self.links: list[str] = []
        self.assets: list[str] = []
        self.content: list[str] = []
        self.feed(text)
        for style in re.findall(r"<style.*?</style>", text, re.DOTALL):
            self.assets += ("".join(found) for found in CSS_URL.findall(style))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values.get("id", ""), values.get("name", "")}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if {*values.get("rel", "").split()} & NAMES and tag == "link":
            self.links.append(values["href"])
            return
        for name in values.keys() & {name for on, name in ASKED if on == tag}:
            parts = values[name].split(",") if name == "srcset" else [values[name]]
            self.assets += (part.split()[0] for part in parts)
        if "style" in values:
            found = CSS_URL.findall(values["style"])
            self.assets += ("".join(names) for names in found)


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """A directory with the site in `site`, and what it was built from in `docs`."""
    if not find_spec("zensical"):
        pytest.skip("zensical is not installed: pip install -e '.[site]'")
    directory = tmp_path_factory.mktemp("build")
    page = directory / "pick.html"
    page.write_bytes(PICK)
    path = write_site.stage(directory, page)
    call(sys.executable, "-m", "zensical", "build", "--strict", "-f", path)
    return directory


@pytest.fixture(scope="module")
def site(build):
    """The pages of the site by path."""
    root = build / "site"
    paths = [path for path in root.rglob("*.html") if path.parent.name != "pick"]
    return {
        path.relative_to(root).as_posix(): Page(path.read_text("utf-8"))
        for path in paths
    }


def wrong_links(root: Path, pages: dict[str, Page], site: dict[str, Page]) -> list[str]:
    """Returns the links of some pages of the site that lead nowhere."""
    wrong = []
    for name, page in pages.items():
        for link in page.links:
            parts = urlsplit(urljoin(SITE + name, link))
            if parts.netloc != urlsplit(SITE).netloc:
                if link.startswith(f"{ADDRESS}/blob/main/"):
                    if not (ROOT / link.removeprefix(f"{ADDRESS}/blob/main/")).exists():
                        wrong.append(f"{name}: {link}")
                elif parts.scheme not in ("https", "mailto"):
                    wrong.append(f"{name}: {link}")
                continue
            path = unquote(parts.path.removeprefix(urlsplit(SITE).path))
            if path.endswith("/") or not path:
                path += "index.html"
            of_pick = {"", *(f"lines={trick.name}" for trick in TRICKS)}
            anchors = site[path].anchors if path in site else of_pick
            if not (root / path).is_file() or unquote(parts.fragment) not in anchors:
                wrong.append(f"{name}: {link}")
    return wrong


def wrong_assets(root: Path, name: str, assets: list[str]) -> list[str]:
    """Returns what a file asks for that is not a file of the site."""
    wrong = []
    for asset in assets:
        if asset.startswith(("data:", "#")):
            continue
        parts = urlsplit(urljoin(SITE + name, asset))
        path = unquote(parts.path.removeprefix(urlsplit(SITE).path))
        own = f"{parts.scheme}://{parts.netloc}{parts.path}".startswith(SITE)
        if not own or not (root / path).is_file():
            wrong.append(f"{name}: {asset}")
    return wrong


def test_every_link_and_anchor_leads_somewhere(build, site):
    assert wrong_links(build / "site", site, site) == []
    assert "pick/" in site["index.html"].links
    for trick in TRICKS:
        page = site[f"tricks/{trick.name}/index.html"]
        assert f"../../pick/#lines={trick.name}" in page.links


def test_the_site_asks_nobody_else(build, site):
    """All scripts, styles, fonts and images are files of the site."""
    root = build / "site"
    found = [wrong_assets(root, name, page.assets) for name, page in site.items()]
    for path in root.rglob("*.css"):
        text = path.read_text(encoding="utf-8")
        urls = ["".join(names) for names in CSS_URL.findall(text)]
        found.append(wrong_assets(root, path.relative_to(root).as_posix(), urls))
    assert [asset for assets in found for asset in assets] == []
    assert all(page.assets for page in site.values())
    # The theme's script asks others on pages with a diagram, a formula or a repository's stars.
    for name in site:
        text = (root / name).read_text(encoding="utf-8")
        for asking in ('class="mermaid"', "arithmatex", 'data-md-component="source"'):
            assert asking not in text, f"{name}: {asking}"


@pytest.mark.parametrize(
    ("text", "link", "asset"),
    [
        ('<a href="nowhere/">', "nowhere/", None),
        ('<a href="./#nothing">', "./#nothing", None),
        (f'<a href="{ADDRESS}/blob/main/no.py">', f"{ADDRESS}/blob/main/no.py", None),
        ('<a href="/start/">', "/start/", None),
        ('<img src="no.png">', None, "no.png"),
        ('<img srcset="logo.svg 1x, no.png 2x">', None, "no.png"),
        ('<script src="//example.org/x.js">', None, "//example.org/x.js"),
        (
            '<link rel="preconnect" href="https://example.org">',
            None,
            "https://example.org",
        ),
        ("<style>@import 'https://x.org/a.css'</style>", None, "https://x.org/a.css"),
        ('<p style="background: url(a.png)">', None, "a.png"),
    ],
)
def test_what_leads_nowhere_or_elsewhere_is_found(text, link, asset, build, site):
    page, root = Page(text), build / "site"
    found = wrong_links(root, {"index.html": page}, site | {"index.html": page})
    assert found == ([f"index.html: {link}"] if link else [])
    found = wrong_assets(root, "index.html", page.assets)
    assert found == ([f"index.html: {asset}"] if asset else [])


def test_the_page_to_pick_tricks_in_is_carried_to_the_byte(build):
    assert (build / "site" / "pick" / "index.html").read_bytes() == PICK


def test_every_page_is_in_the_navigation(site):
    pages = {*site} - {"404.html"}
    linked = {
        urlsplit(urljoin(f"{SITE}start/", link)).path
        for link in site["start/index.html"].links
    }
    base = urlsplit(SITE).path
    assert {base + page.removesuffix("index.html") for page in pages} <= linked
    assert {f"tricks/{trick.name}/index.html" for trick in TRICKS} < pages


@pytest.mark.parametrize(
    "words",
    [
        *(
            "custom dataset",
            "custom loss",
            "docker",
            "fine-tune",
            "imbalanced",
            "laptop",
        ),
        *("multi-gpu", "onnx", "out of memory", "resume", "slurm", "two gpus"),
    ],
)
def test_the_search_finds_a_guide_by_the_words_that_people_type(build, words):
    index = json.loads((build / "site" / "search.json").read_text(encoding="utf-8"))
    found = {
        entry["location"]
        for entry in index["items"]
        if words in f"{entry['title']} {entry['text']}".lower()
    }
    assert [page for page in found if page.startswith(("guides/", "start/"))]


def test_the_site_shows_what_github_shows(build):
    """Zensical takes another dialect of Markdown, in which a list may be a paragraph."""
    github = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    for path in (build / "docs").rglob("*.md"):
        name = path.relative_to(build / "docs").with_suffix("").as_posix()
        folder = name.removesuffix("index")
        page = (build / "site" / folder / "index.html").read_text(encoding="utf-8")
        article = re.search(r"<h1.*(?=</article>)", page, re.DOTALL)[0]
        text = re.sub(r"\A---\n.*?---\n", "", path.read_text("utf-8"), flags=re.DOTALL)
        rendered = github.render(text)
        assert words(article) == words(rendered), name
        assert structure(article) == structure(rendered), name


def words(text: str) -> str:
    """Returns the text of HTML without tags and white space."""
    plain = re.sub(r"<!--.*?-->|<[^>]+>", "", text, flags=re.DOTALL)
    return re.sub(r"[\s¶]+", "", html.unescape(plain))


def structure(text: str) -> Counter[str]:
    """Returns how many lists, tables and blocks of code there are."""
    return Counter(re.findall(r"<(ul|ol|li|table|tr|pre|h\d|strong)\b", text))


PAGES = (
    *("", "tricks/", "tricks/swa/", "recipes/", "recipes/tensors/", "recommended/"),
    *("figures/", "resuming/"),
)
"""Pages with tables and code."""


@needs_chromium
def test_a_browser_asks_nobody_else_and_nothing_is_wider_than_a_phone(build, browser):
    """Requests of scripts count, too."""
    asked = []
    context = browser.new_context(viewport={"width": 390, "height": 844})
    context.on("request", lambda request: asked.append(request.url))
    page = context.new_page()
    with served(build / "site") as own:
        for name in PAGES:
            asked.clear()
            page.goto(own + name, wait_until="networkidle")
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, name
            assert len(asked) > 1
            others = [url for url in asked if not url.startswith((own, "data:"))]
            assert others == [], name
        context.close()


def rewritten(text: str, source: str = "docs/data.md", page: str = "data.md") -> str:
    return write_site.rewrite_links(text, source, page, write_site.pages())


@pytest.mark.parametrize(
    ("source", "page", "link", "becomes"),
    [
        ("docs/updating.md", "updating.md", "../CHANGELOG.md", "changelog.md"),
        ("docs/tricks/swa.md", "tricks/swa.md", "../data.md#a", "../data.md#a"),
        ("README.md", "index.md", "docs/tricks/swa.md", "tricks/swa.md"),
        ("README.md", "index.md", "LICENSE", f"{ADDRESS}/blob/main/LICENSE"),
        ("docs/data.md", "data.md", "../copier.yml", f"{ADDRESS}/blob/main/copier.yml"),
        ("docs/data.md", "data.md", f"{SITE}pick/", "pick/"),
        ("docs/tricks/swa.md", "tricks/swa.md", f"{SITE}pick/", "../pick/"),
        ("docs/data.md", "data.md", "#below", "#below"),
        ("docs/data.md", "data.md", "https://arxiv.org", "https://arxiv.org"),
    ],
)
def test_links_are_rewritten(source, page, link, becomes):
    assert rewritten(f"[`a`]({link})", source, page) == f"[`a`]({becomes})"


def test_code_is_no_link():
    text = "`x[0](../CHANGELOG.md)`\n\n```python\nf[0](../CHANGELOG.md)\n```\n"
    assert rewritten(text) == text
    with pytest.raises(ValueError, match="docs/data.md links to nowhere.md"):
        rewritten("[a](nowhere.md)")
