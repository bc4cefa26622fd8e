"""`torch-tricks status`: what is said of a project."""

import json
import shutil

from commands import RECOMMENDED, commit, edit, run
from subsets import TRICKS
from torch_tricks.template import PUBLISHED
from versions import NEW_TRICK


class TestStatus:
    def test_says_what_there_is(self, project):
        directory = project(preset="recommended")
        edit(directory / "train.py", "Trains a model", "Trains my model")
        (directory / "predict.py").unlink()
        (directory / "notes").write_text("mine")
        status = json.loads(run("status", "--json"))
        assert status == {
            "source": PUBLISHED,
            "version": "v0.1.0",
            "task": "classification",
            "newer_versions": ["v0.2.0"],
            "new_tricks": [NEW_TRICK],
            "tricks_in": RECOMMENDED,
            "tricks_out": [
                trick.name
                for trick in TRICKS
                if trick.name not in RECOMMENDED
                and trick.works("task", "classification")
            ],
            "renamed": {},
            "edited": ["train.py"],
            "deleted": ["predict.py"],
            "conflicts": [],
            "not_known": None,
        }
        output = run("status")
        assert "task            classification\n" in output
        assert "edited          train.py\n" in output
        assert "newer versions  v0.2.0\n" in output
        assert f"new tricks      {NEW_TRICK}\n" in output

    def test_lists_conflicts_that_are_left(self, project):
        directory = project(preset="minimal")
        edit(directory / "train.py", "Trains a model", "Trains my model")
        commit(directory)
        run("update", code=1)
        assert json.loads(run("status", "--json"))["conflicts"] == ["train.py"]
        # Also when git no longer knows of them, and elsewhere in a larger repository.
        commit(directory)
        assert json.loads(run("status", "--json"))["conflicts"] == ["train.py"]

    def test_works_outside_of_git(self, project):
        directory = project(preset="minimal")
        shutil.rmtree(directory / ".git")
        status = json.loads(run("status", "--json"))
        assert (status["edited"], status["conflicts"]) == ([], None)
