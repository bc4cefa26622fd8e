"""The template as data, and Jinja alone: both render what Copier renders, to the byte."""

import difflib
import re
from itertools import product
from pathlib import Path

import pytest
from blocks import UnknownConstruct, files_in, read_template
from commands import copy_questions
from parts import few_of
from rendering import all_answers, contents, render, render_version, render_with_copier
from subsets import TASKS, TRICKS, covering_array
from torch_tricks import preview
from torch_tricks.catalogue import own_questions
from torch_tricks.preview import own_version

PRESETS = ("minimal", "recommended", "everything")


def check(answers: dict[str, object], directory: Path) -> None:
    expected = contents(render_with_copier(directory / "copier", answers))
    for render_quickly in (render, render_by_jinja):
        found = contents(render_quickly(directory / render_quickly.__name__, answers))
        assert found.keys() == expected.keys()
        for name, (mode, content) in found.items():
            other_mode, other = expected[name]
            texts = (text.decode().splitlines(True) for text in (other, content))
            assert content == other, "".join(difflib.unified_diff(*texts, name, name))
            assert mode == other_mode, name


def render_by_jinja(directory: Path, answers: dict[str, object]) -> Path:
    recorded = all_answers(answers)["recorded"]
    source = recorded.pop("_src_path")
    if answers["preset"] != "custom":
        recorded.pop("tricks", None)
    preview.render(own_version(), source, directory, recorded)
    path = directory / ".copier-answers.yml"
    # Copier records no version of a template outside of git.
    version = f"_commit: {own_version().name}\n"
    path.write_text(path.read_text("utf-8").replace(version, ""), "utf-8")
    return directory


# Each preset once at once, and three tasks.
@pytest.mark.parametrize(("preset", "task"), few_of(product(PRESETS, TASKS), 0, 5, 10))
def test_presets_equal_those_of_copier(preset, task, tmp_path):
    check({"preset": preset, "task": task}, tmp_path)


@pytest.mark.parametrize("row", few_of(range(len(covering_array())), 2, 3))
def test_rows_equal_those_of_copier(row, tmp_path):
    check(covering_array()[row].answers, tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        "{% set x = 1 %}",
        "{% for row in chosen %}",
        "kept {% if parallel %} too",
        "{%- if parallel %}",
        "{% include 'x' %}",
        "{% if parallel %} ",
        "kept\f  {% if parallel %}",
        "kept\u2028  {% if parallel %}",
    ],
)
def test_a_tag_that_is_not_known_is_named_with_its_place(line, tmp_path):
    (tmp_path / "notes.txt.jinja").write_text(f"first\n{line}\n", encoding="utf-8")
    with pytest.raises(UnknownConstruct, match=r"^notes\.txt\.jinja:2: "):
        read_template(files_in(tmp_path), own_questions())


@pytest.mark.parametrize(
    "text",
    ["{% if unknown %}\na\n{% endif %}\n", "{{ chosen }}\n"],
    ids=["condition", "place"],
)
def test_what_cannot_be_asked_or_filled_in_is_an_error(text, tmp_path):
    (tmp_path / "notes.txt.jinja").write_text(text, encoding="utf-8")
    template = read_template(files_in(tmp_path), own_questions())
    answers = {"chosen": [], "task": TASKS[0], "parallel": "none", "author": ""}
    with pytest.raises(UnknownConstruct):
        template.render(answers)


LOOP = "{% for name in chosen %}\nTAG\n{% endfor %}\n"
INCLUDE = '{% include "template/{{ trick." ~ name ~ " }}/readme_section.md.jinja" %}'


def with_sections(
    directory: Path, text: str, loop: str = LOOP.replace("TAG", INCLUDE)
) -> Path:
    """Writes a template whose only file includes a section with this text for each trick."""
    template = directory / "template"
    copy_questions(directory)
    for trick in TRICKS:
        section = template / f"{{{{ trick.{trick.name} }}}}" / "readme_section.md.jinja"
        section.write_text(text, encoding="utf-8")
    (template / "notes.txt.jinja").write_text(loop, encoding="utf-8")
    return directory


SECTION = """
{% if name == "seeding" %}
{{ package_name }} {{ name }}
{% elif "folders" in chosen and parallel == "none" %}
    two
  {% else %}
three
{% endif %}
at the end"""


@pytest.mark.parametrize("preset", ["minimal", "everything"])
def test_sections_equal_those_of_copier(preset, tmp_path):
    tag = f'{{% if "swa" in chosen %}}\n{INCLUDE}\n{{% endif %}}'
    template = with_sections(tmp_path / "work", SECTION, LOOP.replace("TAG", tag))
    answers = all_answers({"preset": preset})
    files = read_template(files_in(template / "template"), own_questions())
    copied = render_version(template, tmp_path / "copier", {"preset": preset})
    assert files.render(answers) == {
        path.name: path.read_text(encoding="utf-8") for path in copied.iterdir()
    }


SECTION_TAG = INCLUDE.replace(".md.jinja", ".md")
NOTES, SWA = "notes.txt.jinja", "{{ trick.swa }}/readme_section.md.jinja"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (NOTES, "{% if parallel %}\na\n{% endif -%}\n\n b\n"),
        (NOTES, "{% if parallel %}\na\n{% else -%}\n\n b\n{% endif %}\n"),
        (NOTES, "{{ project_name -}}\n\n b\n"),
        ('{% if "swa" in chosen %}a{% endif %}', ""),
        (NOTES, LOOP.replace("TAG", SECTION_TAG)),
        (NOTES, LOOP.replace("TAG", '{% include "copier.yml" %}')),
        (NOTES, LOOP.replace("TAG", INCLUDE.replace(" %}", " ignore missing %}"))),
        (SWA, f"first\n{INCLUDE}\n"),
        (SWA, "first\n{% for name in chosen %}\n"),
        (SWA, "first\n{% set x = 1 %}\n"),
        (SWA, "{{ name -}}"),
        (SWA, None),
    ],
)
def test_what_only_copier_renders_is_named_with_its_place(name, text, tmp_path):
    template = with_sections(tmp_path, "text\n") / "template"
    path = template / name
    path.unlink() if text is None else path.write_text(text, encoding="utf-8")
    with pytest.raises(UnknownConstruct, match=rf"^{re.escape(name)}"):
        read_template(files_in(template), own_questions())


def test_a_file_that_copier_would_exclude_is_left_to_it(tmp_path):
    (tmp_path / "{{ trick.swa }}").mkdir()
    (tmp_path / "{{ trick.swa }}" / "{{ description }}").write_text("text")
    template = read_template(files_in(tmp_path), own_questions())
    assert template.render(all_answers({"preset": "minimal"})) == {}
    answers = all_answers({"preset": "everything"}) | {"description": "row.yml"}
    with pytest.raises(UnknownConstruct, match="would be row.yml"):
        template.render(answers)


@pytest.mark.parametrize("excluded", [["*.md"], ["/row.yml", "*.md"], None])
def test_other_files_are_excluded_by_copier_alone(excluded, tmp_path):
    with pytest.raises(UnknownConstruct, match="_exclude"):
        read_template({}, own_questions() | {"_exclude": excluded})
