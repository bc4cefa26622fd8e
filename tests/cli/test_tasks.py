"""The task of a project: new ones have the one that is asked for, and keep it."""

import json
from types import SimpleNamespace

import pytest
from commands import NAME, commit, custom, files, run, state
from subsets import TASKS, TRICKS
from torch_tricks import changing, preview
from versions import NEW_TRICK


@pytest.mark.parametrize("task", TASKS)
class TestOfATask:
    @pytest.mark.parametrize("preset", ["recommended", "everything"])
    def test_a_project_equals_that_of_copier(self, tmp_path, fresh, task, preset):
        directory = tmp_path / "leaves"
        run("new", directory, "--name", NAME, "--task", task, "--preset", preset)
        assert files(directory) == files(fresh(preset=preset, task=task))

    def test_only_its_tricks_can_be_had(self, project, tmp_path, task):
        directory = project(preset="minimal", task=task)
        before = state(directory)
        for trick in TRICKS:
            if not trick.works("task", task):
                sentence = f"{trick.name} is not for task={task}: leave it out, or make"
                assert sentence in run("add", trick.name, code=2)
        assert state(directory) == before
        wanted = ["--task", task, "--with", "video"]
        if task != "classification":
            refused = run("new", tmp_path / "leaves", *wanted, code=2)
            assert f"video is not for task={task}: leave it out, or make a" in refused

    def test_tricks_come_and_go(self, project, fresh, task):
        directory = project(**custom("amp"), task=task)
        run("add", "swa")
        assert files(directory) == files(fresh(**custom("swa", "amp"), task=task))
        commit(directory)
        run("remove", "swa")
        assert files(directory) == files(fresh(**custom("amp"), task=task))

    def test_an_update_keeps_it(self, project, fresh, task):
        directory = project(preset="recommended", task=task)
        run("update", "--data", f"task={task}")
        assert files(directory) == files(
            fresh("v0.2.0", preset="recommended", task=task)
        )

    def test_it_does_not_change(self, project, task):
        directory = project(preset="minimal", task=task)
        before = state(directory)
        for other in {*TASKS} - {task}:
            remedy = f"make a new project with torch-tricks new --task {other}"
            refused = run("update", "--data", f"task={other}", code=2)
            assert refused == f"error: the task of a project cannot change: {remedy}"
            refused = run("add", f"task={other}", code=2)
            assert refused.endswith(f"a project keeps its task: {remedy}")
        assert "task is no trick" in run("remove", "task", code=2)
        assert "no choice of task is" in run("update", "-d", "task=best", code=2)
        assert state(directory) == before

    def test_status_has_it_and_the_tricks_for_it(self, project, task):
        project(preset="minimal", task=task)
        status = json.loads(run("status", "--json"))
        assert status["task"] == task
        named = [trick.name for trick in TRICKS if trick.works("task", task)]
        assert status["tricks_out"] == named
        assert status["new_tricks"] == [NEW_TRICK]

    def test_new_tricks_are_named_if_they_work_for_it(self, capsys, task):
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


def test_tasks_are_completed():
    from torch_tricks.cli import complete_tasks

    assert complete_tasks("") == [*TASKS]
    assert complete_tasks("class") == ["classification"]
