"""Renders, checks, trains and tests a few projects that have a trick.

    make try TRICK=mixup

Its own tests come first, then what is quick: its row, its places in what CONTRIBUTING asks for,
its page, packaging, floors, and what a GPU would wait for. Nothing else is tried after what fails.
The projects are everything, the trick with what it needs, with and without several processes, and
of the rows in which any two tricks meet the one that has it with most others. All own tests of
the last one run, as the trick may break those of the loop.
"""

import os
import re

import pytest
import training
from covering import FORMS, TASK
from inspection import faults, ruff, write_code
from rendering import render_files, render_subset
from subsets import (
    TRICKS,
    Subset,
    covering_array,
    everything,
    questions,
    space,
    task_of,
)
from test_covering import own_tests_in_a_fork, python

TRICK = os.environ.get("TORCH_TRICKS_TRICK")
SEVERAL = ("ddp", "fsdp")


def rows_with(trick: str) -> list[Subset]:
    """Four rows at most, the longest first."""
    rows, levels = {row.name: row for row in TRICKS}, questions()
    if trick not in rows:
        raise pytest.UsageError(f"make try TRICK=NAME, with one of {', '.join(rows)}")
    if trick == FORMS:
        return [everything(), *(Subset.of(parallel=form) for form in levels[FORMS][1:])]
    task = task_of(rows[trick])
    on = {TASK: task, trick: levels[trick][1]}
    forms = [form for form in levels[FORMS] if space().allows(on | {FORMS: form})]
    meetings = [row for row in covering_array(2) if trick in row.tricks]
    plain = [row for row in meetings if row.parallel not in SEVERAL] or meetings
    rows = [
        Subset.of(trick, parallel=forms[-1], task=task),
        everything(**on | {FORMS: "dp" if "dp" in forms else forms[0]}),
        max(plain[1:], key=lambda row: len(row.tricks), default=plain[0]),
        Subset.of(trick, parallel=forms[0], task=task),
    ]
    return list(dict.fromkeys(rows))


def own_tests(subset: Subset) -> list[str]:
    """Returns the tests that a project has for the trick, and would not have without it."""
    levels = subset.named_levels | {TRICK: questions()[TRICK][0]}
    without = render_files(Subset(tuple(levels.values())).answers)
    found = render_files(subset.answers).keys() - without.keys()
    return sorted(n for n in found if re.fullmatch(r"tests/(\w+/)*test_\w+\.py", n))


@pytest.mark.parametrize("subset", rows_with(TRICK)[:2], ids=str)
def test_own_tests(subset, tmp_path, zygote):
    files = own_tests(subset)
    assert files, f"no file in template/tests/ comes with {TRICK} alone"
    project = render_subset(tmp_path / "project", subset)
    own_tests_in_a_fork(project, zygote, *files)


@pytest.mark.parametrize("subset", rows_with(TRICK), ids=str)
def test_a_project(subset, tmp_path, zygote, folder, hdf5, mypy):
    project = render_subset(tmp_path / "project", subset)
    files = render_files(subset.answers)
    found = list(faults(files, subset))
    assert not found, "\n".join(found)
    write_code(files, tmp_path / "files")
    assert ruff(tmp_path / "files") == ""
    python(project, *mypy)
    flags = training.flags(subset, folder, hdf5)
    run = tmp_path / "run"
    training.train_and_resume(zygote.run, subset, project, run, flags)
    if subset == rows_with(TRICK)[-1]:
        own_tests_in_a_fork(project, zygote)
