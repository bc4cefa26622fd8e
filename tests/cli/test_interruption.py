"""Commands that stop halfway, and the projects that they leave."""

import os

import pytest
from commands import commit, custom, edit, git, run, state
from rendering import PACKAGE
from torch_tricks import cli, merging
from torch_tricks.project import Project
from typer.testing import CliRunner


class TestInterruption:
    """The project comes back after any interruption of the writing."""

    @pytest.fixture
    def planned(self, project, fresh):
        """A project with edits of all kinds, and a plan that touches them."""
        directory = project(**custom("swa"))
        edit(directory / "train.py", "Trains a model", "Trains my model")
        for name in ("swa", "schedule"):
            path = directory / PACKAGE / "optim" / f"{name}.py"
            path.write_text(path.read_text() + "# Mine\n")
        commit(directory)
        opened = Project.at(directory)
        with merging.scratch_for(opened) as (scratch, _):
            base, new = fresh(**custom("swa")), fresh("v0.2.0", preset="minimal")
            plan = merging.plan_update(opened, scratch, base, new)
            assert plan.conflicts
            assert plan.kept
            assert plan.renamed
            yield opened, plan

    @pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
    def test_a_change_that_fails_is_undone(self, planned, monkeypatch, error):
        project, plan = planned
        before = state(project.directory)
        for step in ("git", "_replace_index", "_remove"):
            whole = getattr(merging, step)

            def fail(*arguments, whole=whole, **options):
                whole(*arguments, **options)
                raise error("no space left")

            with monkeypatch.context() as patch, pytest.raises(error):
                patch.setattr(merging, step, fail)
                merging.apply(project, plan)
            assert state(project.directory) == before

    def test_looking_takes_no_lock(self, project):
        directory = project(preset="minimal")
        # The index is out of date, and git status would lock and refresh it.
        os.utime(directory / "train.py", (0, 0))
        index = (directory / ".git" / "index").read_bytes()
        run("add", "swa", "--dry-run")
        run("status")
        assert (directory / ".git" / "index").read_bytes() == index

    @pytest.mark.parametrize(
        ("name", "sentence", "status"),
        [
            ("train.py", "train.py not committed", " M train.py\n"),
            (
                f"{PACKAGE}/optim/rates.py",
                f"{PACKAGE}/optim/rates.py is in the way",
                f"?? {PACKAGE}/optim/rates.py\n",
            ),
        ],
    )
    def test_a_file_that_was_saved_meanwhile_is_not_overwritten(
        self, project, monkeypatch, name, sentence, status
    ):
        directory = project(preset="minimal")
        plan_update = merging.plan_update

        def save(*arguments):
            plan = plan_update(*arguments)
            (directory / name).write_text("mine")
            return plan

        monkeypatch.setattr("torch_tricks.changing.plan_update", save)
        result = CliRunner().invoke(cli.app, ["update"])
        assert result.exit_code == 2
        assert sentence in result.stderr
        assert (directory / name).read_text() == "mine"
        assert git(directory, "status", "--porcelain") == status
