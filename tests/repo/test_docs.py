"""The documentation shows the code that the template renders; `make docs` writes it."""

import ast
import re

import pytest
from footprint import MODULES, flags
from subsets import ROOT, SEED_OF_PAIRS, TRICKS, covering_array
from write_docs import (
    COMPUTED,
    PAGES,
    SNIPPET,
    all_flags,
    measurements,
    part_of,
    project,
    rendered,
    section_of,
    sizes,
    written,
    written_section,
)

LINK = re.compile(r"\[[^]]*\]\(([^)\s]+)\)")

TRAINING = re.compile(r"\b(?:train|cross_validate)\.py ([^`\n#]*)")
"""The arguments of a command of the scripts that take all flags of a project."""

GUIDES = sorted(ROOT.glob("docs/guides/*.md"))

RUN = (ROOT / "docs" / "recipes", ROOT / "docs" / "guides")
"""Pages whose code is run, in test_recipes.py and test_first_steps.py, and not rendered."""

each_page = pytest.mark.parametrize(
    "page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix()
)


@each_page
def test_shown_code_is_the_rendered_code(page):
    assert page.read_text(encoding="utf-8") == written(page), "run: make docs"


@pytest.mark.parametrize("trick", TRICKS, ids=lambda trick: trick.name)
def test_a_section_lists_the_code_and_the_flags(trick):
    text = section_of(trick).read_text(encoding="utf-8")
    assert "- Code: " in text
    assert text == written_section(trick, text), "run: make docs"


@each_page
def test_all_shown_python_has_a_source(page):
    text = page.read_text(encoding="utf-8")
    lines = text.splitlines()
    if page.parent not in RUN:
        assert lines.count("```python") == len(SNIPPET.findall(text))
    assert lines.count("<!-- end -->") == len(COMPUTED.findall(text))


@pytest.mark.parametrize("trick", TRICKS, ids=lambda trick: trick.name)
def test_a_page_of_the_handbook_shows_the_code_and_names_the_source(trick):
    text = (ROOT / "docs" / "tricks" / f"{trick.name}.md").read_text(encoding="utf-8")
    shown = {match[2] for match in SNIPPET.findall(text)}
    assert shown, "no code is shown"
    if modules := MODULES.get(trick.name):
        assert shown & {f"leaf_diseases/{module}.py" for module in modules}
    assert trick.source in text
    for flag in all_flags(trick):
        assert f"`{flag}" in text


@pytest.mark.parametrize("trick", TRICKS, ids=lambda trick: trick.name)
def test_a_page_of_the_handbook_has_its_parts_in_order(trick):
    text = (ROOT / "docs" / "tricks" / f"{trick.name}.md").read_text(encoding="utf-8")
    [head, *parts] = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)
    summary = f"{trick.title}\n\n{trick.buys[0].upper()}{trick.buys[1:]}.\n\n"
    assert head.startswith(f"# {summary}```sh\n")
    assert re.search(rf"^torch-tricks add (.* )?{trick.name}\b", head, re.MULTILINE)
    headings = [part for part in parts[::2] if part != "How it works"]
    assert headings == ["When it helps", "Pitfalls", "Source", "The code"]
    assert "How it works" not in parts[::2] or parts[4] == "How it works"
    folded = r"\n<details>\n<summary>.+</summary>\n\n(.+)\n</details>\n"
    [code] = re.fullmatch(folded, parts[-1], re.DOTALL).groups()
    shown = SNIPPET.findall(text)
    assert shown == SNIPPET.findall(code)
    assert sum(snippet[4].count("\n") for snippet in shown) <= 65


@pytest.mark.parametrize(
    "trick", [t.name for t in TRICKS if t.group not in ("Watch", "Use the model")]
)
def test_a_trick_is_measured_or_the_page_says_why_not(trick):
    here = [one for name, one in measurements().items() if "gpu-" not in name]
    measured = {trick for one in here for trick in one["tricks"].split(",")}
    text = (ROOT / "docs" / "recommended.md").read_text(encoding="utf-8")
    said = text.partition("## What is not measured here")[2].partition("\n## ")[0]
    places = [trick in measured, f"`{trick}`" in said]
    assert sum(places) == 1, (
        f"{trick} belongs in docs/effects.toml, or under `What is not measured here` of "
        "docs/recommended.md"
    )


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_a_guide_has_only_flags_of_the_tricks_that_it_names(page):
    text = page.read_text(encoding="utf-8")
    known = set(flags(project("recommended")))
    for trick in TRICKS:
        if re.search(
            rf"\btricks/{trick.name}\.md|torch-tricks .*\b{trick.name}\b", text
        ):
            known |= {flag.replace("--no-", "--") for flag in all_flags(trick)}
    for command in TRAINING.findall(text.replace("\\\n", " ")):
        for flag in re.findall(r"(?<= )--[a-z][\w-]*", command):
            assert flag.replace("--no-", "--") in known, f"{flag} in: {command}"


@each_page
def test_links_lead_to_files(page):
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        if not link.startswith(("https://", "#")):
            assert (page.parent / link.partition("#")[0]).exists(), link


def test_the_list_of_settings_that_stay_the_same_is_the_code():
    module = project("everything")["leaf_diseases/checkpoint.py"]
    fixed = re.search(r"^FIXED = (\(.+?^\))", module, re.MULTILINE | re.DOTALL)
    names = {"--" + name.replace("_", "-") for name in ast.literal_eval(fixed[1])}
    text = (ROOT / "docs/resuming.md").read_text(encoding="utf-8")
    listed = text.partition("These settings stay the same")[2].partition("\n\n")[2]
    documented = set(re.findall(r"`(--[\w-]+)`", listed.partition("\n\n")[0]))
    # The state of a part does not fit where these have changed.
    assert documented - {"--model", "--pooling", "--teacher"} == names


@pytest.mark.parametrize("form", ["dp", "ddp", "fsdp"])
def test_the_readme_of_a_project_names_only_what_the_project_has(form):
    files = project(form)
    for line in re.findall(r"^- Code: (.+)$", files["README.md"], re.MULTILINE):
        for name in re.findall("`(.+?)`", line):
            assert name in files or part_of(files["train.py"], name)


def test_the_readme_of_every_row_has_whole_sections():
    titles = {trick.name: trick.title for trick in TRICKS}
    for subset in covering_array(2, SEED_OF_PAIRS):
        text = rendered(subset.answers)["README.md"]
        headings = re.findall(r"^### (.+)$", text, re.MULTILINE)
        assert headings == [titles[trick] for trick in subset.tricks]
        assert ("\n## Tricks\n" in text) == bool(headings)
        assert "\n\n\n" not in re.sub(r"```.*?```", "-", text, flags=re.DOTALL)
        assert text.endswith(".\n")


def test_the_readme_counts_what_there_is():
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    lines = dict(re.findall(r"`(\w+)` \| ([\d,]+) \|", sizes()))
    assert f"from {len(TRICKS)} tricks" in text
    assert f"[{lines['recommended']} lines]" in text
    assert f"or {lines['minimal']} without tricks" in text
    assert f"renders {len(covering_array())} projects" in text
    assert f"trains {len(covering_array(2, SEED_OF_PAIRS))} others" in text
