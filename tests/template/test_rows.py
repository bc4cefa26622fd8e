"""Rows of the catalogue agree with each other."""

from dataclasses import replace
from itertools import product

import pytest
from blocks import choose
from covering import FORMS, TASK
from rendering import render_files
from subsets import TASKS, TRICKS, questions
from torch_tricks.catalogue import own_questions


def test_groups_stand_together():
    groups = [trick.group for trick in TRICKS]
    assert groups == sorted(groups, key=groups.index), "a group is in two places"


@pytest.mark.parametrize("trick", TRICKS, ids=lambda trick: trick.name)
def test_a_row_is_a_line_of_a_list(trick):
    line = f"{trick.title}: {trick.buys}"
    assert 20 <= len(line) <= 80, f"title and buys of {trick.name}: {len(line)} letters"
    others = {*trick.needs, *trick.excludes, *trick.goes_with}
    assert others < {other.name for other in TRICKS}
    assert trick.wants or not trick.goes_with, f"{trick.name} lacks wants"


def test_a_trick_of_another_version_is_off():
    row = next(trick for trick in TRICKS if not trick.bounds)
    assert replace(row, excludes=("gone",)).obstacles({}) == []
    assert replace(row, needs=("gone",)).obstacles({}) == ["gone"]


def test_a_preset_has_what_its_tricks_need():
    """Also `recommended` with another form: `custom` begins with its tricks."""
    forms = questions()[FORMS]
    for preset, task, form in product(("recommended", "everything"), TASKS, forms):
        answers = {TASK: task, FORMS: form}
        chosen = choose(own_questions(), preset, answers, [])
        for row in TRICKS:
            needed = {*row.needs} if row.name in chosen else set()
            assert needed <= {*chosen}, (row.name, preset, answers)


def test_the_practices_are_in_all_presets_but_minimal():
    practices = {row.name for row in TRICKS if row.once_in_all}
    assert practices == {"folders", "csv", "evaluate", "predict"}
    scripts = {"evaluate.py", "predict.py"}
    for preset in ("recommended", "everything"):
        assert scripts < render_files({"preset": preset}).keys()
    minimal = render_files({"preset": "minimal"})
    assert not scripts & minimal.keys()
    assert "pillow" not in minimal["pyproject.toml"]
