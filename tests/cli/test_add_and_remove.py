"""`torch-tricks add` and `remove`: what becomes of a project."""

import re
import subprocess
from pathlib import Path

import pytest
from commands import commit, custom, edit, files, git, notes, run, run_undo
from parts import few_of
from rendering import PACKAGE

NO_PROJECT = (
    "no .copier-answers.yml here or above: cd into a project, or pass --project"
)
NEWER = custom() | {"version": "v0.2.0"}


class TestAddAndRemove:
    def test_takes_lists_with_commas(self, project, fresh):
        directory = project(preset="minimal")
        run("add", "swa,amp", "parallel=ddp, mixup")
        expected = custom("swa", "mixup", "amp", parallel="ddp")
        assert files(directory) == files(fresh(**expected))
        commit(directory)
        run("remove", "swa,parallel", "mixup")
        assert files(directory) == files(fresh(**custom("amp")))
        assert not (directory / PACKAGE / "processes").exists()
        commit(directory)
        assert "did you mean ema?" in run("add", "mixup,emma", code=2)

    def test_a_removed_module_is_missed_where_it_is_imported(self, project):
        directory = project(preset="minimal")
        run("add", "ema")
        (directory / "mine.py").write_text(f"from {PACKAGE}.optim.ema import *\n")
        commit(directory)
        output = run("remove", "ema", code=1)
        why = "(it was removed; mine.py imports it)"
        assert f"missing {PACKAGE}/optim/ema.py {why}" in output
        (directory / "mine.py").write_text("import json\n")
        run_undo(output)
        (directory / "mine.py").unlink()
        commit(directory)
        assert "missing" not in run("remove", "ema")

    def test_says_so_if_there_is_nothing_to_do(self, project):
        directory = project(**custom("amp", parallel="ddp"))
        there = "amp is already in the project\nparallel is already in the project\n"
        assert run("add", "amp,parallel") == f"{there}nothing to do\n"
        assert run("remove", "swa") == "swa is not in the project\nnothing to do\n"
        assert git(directory, "status", "--porcelain") == ""

    @pytest.mark.proof
    def test_every_change_shows_in_git_diff(self, project):
        directory = project(**custom("amp"))
        shown = run("remove", "amp", "--dry-run")
        run("remove", "amp")
        assert git(directory, "diff", "HEAD") in shown
        git(directory, "checkout", ".")
        shown = run("add", "swa", "--dry-run")
        run("add", "swa")
        assert git(directory, "diff", "HEAD") in shown

    @pytest.mark.proof
    def test_a_change_can_be_stashed(self, project):
        """As a later command advises: new, changed and removed files."""
        directory = project(**custom("swa"))
        before = files(directory)
        run("update", "--data", "tricks=[ema]")
        after = files(directory)
        assert ", or git stash, first" in run("add", "amp", code=2)
        git(directory, "stash")
        assert files(directory) == before
        git(directory, "stash", "pop")
        assert files(directory) == after


class TestAdvice:
    """A trick that another one makes useful, and that goes without it, too."""

    def test_for_new_projects(self, tmp_path):
        wishes = ("new", tmp_path / "a", "--preset=minimal", "--with=freeze")
        assert notes(run(*wishes)) == [
            "freeze needs pretrained weights: torch-tricks add pretrained"
        ]
        wishes = ("new", tmp_path / "b", "--preset=minimal", "--with=freeze,pretrained")
        assert notes(run(*wishes)) == []

    def test_once_for_what_has_changed(self, project):
        directory = project(preset="minimal")
        said = notes(run("add", "freeze,layerwise_lr"))
        for note, trick in zip(said, ("freeze", "layerwise_lr"), strict=True):
            assert note.startswith(f"{trick} needs ")
            assert note.endswith(": torch-tricks add pretrained")
        commit(directory)
        assert notes(run("add", "amp")) == []
        commit(directory)
        assert notes(run("add", "pretrained")) == []
        commit(directory)
        assert notes(run("remove", "pretrained")) == said
        git(directory, "checkout", ".")
        assert notes(run("add", "distillation")) == []


def test_new_dependencies_are_named_with_the_command(project):
    directory = project(preset="minimal")
    line = 'new dependencies, h5py>=3.12.1: pip install -e ".[dev]"\n'
    assert line in run("add", "hdf5", "amp")
    commit(directory)
    assert "new dependencies" not in run("add", "swa")


def test_new_dependencies_are_installed_by_uv_in_a_project_with_uv(project):
    directory = project(**custom("uv"))
    line = (
        "new dependencies, h5py>=3.12.1: uv sync --extra cpu --extra dev    # or cu126"
    )
    assert line in run("add", "hdf5")
    installation = (directory / "README.md").read_text().split("## Train")[0]
    assert "uv sync" in installation and "pip install" not in installation


def test_an_answers_file_may_have_another_name(project, fresh):
    """As by `copier copy -a`, beside that of another template."""
    directory = project(preset="minimal")
    git(directory, "mv", ".copier-answers.yml", ".tricks.yml")
    (directory / ".copier-answers.yml").write_text("_commit: v1\n_src_path: gh:a/b\n")
    commit(directory)
    named = ("--project", directory / ".tricks.yml")
    assert "edited          none\ndeleted         none" in run("status", *named)
    run("add", "swa", *named)
    after, expected = files(directory), files(fresh(**custom("swa")))
    assert after.pop(".copier-answers.yml").endswith(b"gh:a/b\n")
    after[".copier-answers.yml"] = after.pop(".tricks.yml")
    assert after == expected
    for command in (["status"], ["add", "ema"]):
        assert "is of another template (gh:a/b): pass" in run(*command, code=2)


class TestFromAFolderInside:
    """As in git, the project is looked for upwards, and paths are relative to this folder."""

    INSIDE = f"{PACKAGE}/optim"

    @pytest.mark.parametrize(
        ("place", "command", "before", "after"),
        few_of(
            [
                ("project", ["add", "swa"], custom(), custom("swa")),
                ("a repository/leaves", ["remove", "amp"], custom("amp"), custom()),
                ("a repository/leaves", ["update"], custom(), NEWER),
            ],
            2,
        ),
        ids=str,
    )
    def test_changes_are_the_same(
        self, project, fresh, tmp_path, monkeypatch, place, command, before, after
    ):
        directory = project(place=place, **before)
        (tmp_path / "notes").write_text("not committed")
        original = files(tmp_path)
        monkeypatch.chdir(directory / self.INSIDE)
        output = run(*command)
        assert files(directory) == files(fresh(**after))
        said = re.findall(r"^changed (.*)$", output, re.MULTILINE)
        assert {"../../train.py", "../../.copier-answers.yml"} <= {*said}
        assert "run pytest in ../.., then" in output
        run_undo(output)
        assert files(tmp_path) == original

    @pytest.mark.proof
    def test_looking_is_the_same(self, project, monkeypatch):
        directory = project(preset="minimal")
        edit(directory / "train.py", "Trains", "Really trains")
        (directory / self.INSIDE / "schedule.py").unlink()
        looks = (["list"], ["show", "swa"], ["status", "--json"])
        expected = [run(*look) for look in looks]
        monkeypatch.chdir(directory / self.INSIDE)
        assert [run(*look) for look in looks] == expected
        lines = run("status").splitlines()
        assert "edited          ../../train.py" in lines
        assert "deleted         schedule.py" in lines

    def test_a_refusal_has_paths_from_here(self, project, monkeypatch):
        directory = project(place="repository/leaves", preset="minimal")
        (directory / "train.py").write_text("mine")
        monkeypatch.chdir(directory / self.INSIDE)
        assert "error: ../../train.py not committed" in run("add", "swa", code=2)
        git(directory, "checkout", ".")
        Path("swa.py").write_text("mine")
        assert "error: swa.py is in the way" in run("add", "swa", code=2)
        git(directory, "update-index", "--assume-unchanged", "train.py")
        remedy = "git update-index --no-assume-unchanged ../../train.py"
        assert remedy in run("add", "swa", code=2)
        subprocess.run(remedy, shell=True, check=True)
        assert "error: swa.py is in the way" in run("add", "swa", code=2)

    def test_project_may_name_one(self, project, monkeypatch, tmp_path, fresh):
        directory = project(preset="minimal")
        monkeypatch.chdir(tmp_path)
        output = run("add", "swa", "--project", directory / self.INSIDE)
        assert files(directory) == files(fresh(**custom("swa")))
        assert "\nchanged train.py\n" in output

    def test_the_folder_may_go(self, project, monkeypatch, fresh):
        directory = project(**custom("resume"))
        monkeypatch.chdir(directory / PACKAGE / "processes")
        output = run("remove", "resume")
        assert "\nremoved signals.py\n" in output
        assert files(directory) == files(fresh(**custom()))

    @pytest.mark.proof
    def test_another_repository_inside_is_no_part(self, project, monkeypatch):
        directory = project(preset="minimal")
        other = directory / "others" / "timm" / "src"
        other.mkdir(parents=True)
        git(directory, "init", "--quiet", str(other.parent))
        monkeypatch.chdir(other)
        assert NO_PROJECT in run("add", "swa", code=2)
        assert not re.search("^  (in|- ) ", run("list"), re.MULTILINE)

    def test_home_is_the_end(self, tmp_path, monkeypatch):
        (tmp_path / ".copier-answers.yml").write_text("_src_path: dotfiles\n")
        folder = tmp_path / "home" / "work"
        folder.mkdir(parents=True)
        monkeypatch.setenv("HOME", str(folder.parent))
        monkeypatch.chdir(folder)
        assert NO_PROJECT in run("status", code=2)
