"""The task of a project: new ones have the one that is asked for, and keep it."""

import json
from types import SimpleNamespace

import pytest
from commands import run, state
from subsets import TASKS, TRICKS
from torch_tricks import changing, preview
from versions import NEW_TRICK

TASK = TASKS[-1]
"""Any but the default. `tests/repo/test_choices.py` tries the rules of all."""


def test_what_is_of_another_task_is_refused(project, tmp_path):
    directory = project(preset="minimal", task=TASK)
    before = state(directory)
    sentence = f"mixup is not for task={TASK}: leave it out, or make a"
    assert sentence in run("add", "mixup", code=2)
    wanted = ["--task", TASK, "--with", "mixup"]
    assert sentence in run("new", tmp_path / "leaves", *wanted, code=2)
    remedy = "make a new project with torch-tricks new --task classification"
    refused = run("update", "--data", "task=classification", code=2)
    assert refused == f"error: the task of a project cannot change: {remedy}"
    refused = run("add", "task=classification", code=2)
    assert refused.endswith(f"a project keeps its task: {remedy}")
    assert "task is no trick" in run("remove", "task", code=2)
    assert "no choice of task is" in run("update", "-d", "task=best", code=2)
    assert state(directory) == before
    status = json.loads(run("status", "--json"))
    assert status["task"] == TASK
    expected = [row.name for row in TRICKS if row.works("task", TASK)]
    assert status["tricks_out"] == expected
    assert status["new_tricks"] == [NEW_TRICK]


@pytest.mark.parametrize("task", TASKS)
def test_new_tricks_are_named_if_they_work_for_it(capsys, task):
    questions = preview.own_version().questions
    before = SimpleNamespace(questions=SimpleNamespace(tricks={}), version="1")
    answers = {"task": task}
    after = SimpleNamespace(
        questions=questions, version="2", answers=answers, tricks=[]
    )
    changing.print_versions(before, after)
    said = capsys.readouterr().out
    for trick in TRICKS:
        assert (f"new trick {trick.name} " in said) == trick.works("task", task)


def test_a_task_that_does_not_exist_is_refused(tmp_path):
    refused = run("new", tmp_path / "leaves", "--task", "clasification", code=2)
    assert 'no choice of task is called "clasification"; ' in refused
    refused = run("new", tmp_path / "leaves", "--with", "task=classification", code=2)
    assert "with torch-tricks new --task classification" in refused
