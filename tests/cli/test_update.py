"""`torch-tricks update`: newer versions, and what becomes of edits."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import rendering
import yaml
from commands import (
    GIT,
    NAME,
    RECOMMENDED,
    commit,
    custom,
    edit,
    files,
    git,
    run,
    run_undo,
    state,
)
from parts import few_of
from rendering import PACKAGE
from versions import NEW_TRICK, REPOSITORY


class TestUpdate:
    def test_takes_up_the_newest_version(self, project, fresh):
        directory = project(preset="recommended")
        before = state(directory)
        output = run("update")
        assert files(directory) == files(fresh("v0.2.0", preset="recommended"))
        lines = output.splitlines()
        assert "from v0.1.0 to v0.2.0" in lines
        assert f"tricks: {', '.join([*RECOMMENDED, NEW_TRICK])}" in lines
        assert (
            f"renamed {PACKAGE}/optim/schedule.py -> {PACKAGE}/optim/rates.py" in lines
        )
        status = git(directory, "diff", "HEAD", "--name-status", "--no-renames")
        touched = {line.split("\t")[1] for line in status.splitlines()}
        words = re.findall(r"^(?:changed|added|renamed) (.*)$", output, re.MULTILINE)
        assert {path for word in words for path in word.split(" -> ")} == touched
        assert any(
            line.startswith("to continue: read git diff HEAD,") for line in lines
        )
        run_undo(output)
        assert state(directory) == before

    @pytest.mark.proof
    def test_the_clone_of_the_tool_is_the_commit_that_it_has(
        self, hub, tmp_path, monkeypatch
    ):
        """And not its files as they stand, which are others after the next commit."""
        clone = tmp_path / "clone"
        git(hub, "clone", "--quiet", str(hub / REPOSITORY), str(clone))
        git(clone, "tag", "--delete", *git(clone, "tag").split())
        monkeypatch.setattr(
            "torch_tricks.template.default_source", lambda: (str(clone), "HEAD")
        )
        directory = tmp_path / "project"
        run("new", directory, "--template", clone, "--preset=minimal")
        git(directory, "init", "--quiet")
        commit(directory)
        monkeypatch.chdir(directory)
        assert "nothing to do" in run("update")
        assert json.loads(run("status", "--json"))["newer_versions"] == []
        edit(clone / "template/train.py.jinja", "Trains a new model", "Trains it")
        commit(clone)
        monkeypatch.setattr(rendering, "_clones", {})
        described = git(clone, "rev-parse", "--short", "HEAD").strip()
        assert json.loads(run("status", "--json"))["newer_versions"] == [described]
        assert "changed train.py" in run("update").splitlines()
        # YAML quotes a commit of digits alone.
        answers = yaml.safe_load((directory / ".copier-answers.yml").read_text())
        assert answers["_commit"] == described

    def test_keeps_edits(self, project):
        """Lines, line endings, bytes that are no text, permissions, links and new files.

        The edits of schedule.py follow it to its new name.
        """
        directory = project(preset="minimal")
        loop, link = directory / "train.py", directory / "pyproject.toml"
        edit(loop, "def main(", "# Mine\n\n\ndef main(")
        loop.write_bytes(loop.read_bytes() + b"# \xe9")
        loop.chmod(0o755)
        link.unlink()
        link.symlink_to("train.py")
        old, new = (
            directory / PACKAGE / "optim" / f"{name}.py"
            for name in ("schedule", "rates")
        )
        old.write_text(old.read_text() + "\n# Mine\n")
        edited = old.read_text()
        windows = directory / PACKAGE / "files.py"
        windows.write_bytes(windows.read_bytes().replace(b"\n", b"\r\n"))
        (directory / "notes.py").write_text("mine = 1\n")
        commit(directory)
        run("update")
        text = windows.read_bytes()
        assert b"Whole writing" in text and text.count(b"\n") == text.count(b"\r\n")
        code = loop.read_bytes()
        assert b"# Mine" in code and b"Trains a new model" in code
        assert code.endswith(b"# \xe9")
        assert os.access(loop, os.X_OK) and os.readlink(link) == "train.py"
        assert new.read_text() == edited
        assert not old.exists()
        assert (directory / "notes.py").read_text() == "mine = 1\n"

    def test_marks_a_conflict(self, project):
        directory = project(preset="minimal")
        edit(directory / "train.py", "Trains a model", "Trains my model")
        commit(directory)
        before = state(directory)
        output = run("update", code=1)
        assert "\nconflict train.py\n" in output
        assert "to continue: resolve" in output
        code = (directory / "train.py").read_text()
        assert code.startswith('<<<<<<< before updating\n"""Trains my model on images.')
        assert '"""Trains a new model' in code
        [ancestor] = re.findall(r"^\|{7} last update\n(.*)\n={7}$", code, re.MULTILINE)
        assert ancestor.startswith('"""Trains a model on images')
        assert "UU train.py" in git(directory, "status", "--porcelain")
        run_undo(output)
        assert state(directory) == before

    @pytest.mark.proof
    def test_an_older_git_marks_the_common_ancestor_too(
        self, project, tmp_path, monkeypatch
    ):
        directory = project(preset="minimal")
        edit(directory / "train.py", "Trains a model", "Trains my model")
        commit(directory)
        older = tmp_path / "older" / "git"
        older.parent.mkdir()
        # As git before 2.35 answers.
        older.write_text(
            f'#!/bin/sh\ncase "$*" in *--zdiff3*) exit 129;; esac\nexec {GIT} "$@"\n'
        )
        older.chmod(0o755)
        monkeypatch.setenv("PATH", f"{older.parent}:{os.environ['PATH']}")
        run("update", code=1)
        assert "\n||||||| last update\n" in (directory / "train.py").read_text()

    def test_keeps_edits_of_a_removed_file_aside(self, project):
        directory = project(**custom("swa"))
        swa = directory / PACKAGE / "optim" / "swa.py"
        swa.write_text(swa.read_text() + "\n# Mine\n")
        edited = swa.read_text()
        taken = directory / "kept-aside" / PACKAGE / "optim" / "swa.py.kept"
        taken.parent.mkdir(parents=True)
        taken.write_text("of last time")
        (directory / ".gitignore").write_text("*.kept-2\n")
        commit(directory)
        before = state(directory)
        output = run("remove", "swa", code=1)
        kept = f"kept-aside/{PACKAGE}/optim/swa.py.kept-2"
        assert f"\nkept aside {kept} (your edits of {PACKAGE}/optim/swa.py)\n" in output
        assert f"\nremoved {PACKAGE}/optim/swa.py\n" in output
        assert not swa.exists()
        assert taken.read_text() == "of last time"
        assert (directory / kept).read_text() == edited
        run_undo(output)
        assert state(directory) == before

    def test_deleted_files_stay_deleted_and_are_missed_where_they_are_imported(
        self, project
    ):
        directory = project(preset="minimal")
        for name in ("README.md", "pyproject.toml", f"{PACKAGE}/metrics.py"):
            (directory / name).unlink()
        (directory / "tests" / "test_task.py").unlink()
        commit(directory)
        output = run("update", code=1)
        line = f"missing {PACKAGE}/metrics.py (you deleted it; "
        assert re.findall(r"^missing .*; ", output, re.MULTILINE) == [line]
        assert not (directory / "README.md").exists()
        assert not (directory / "pyproject.toml").exists()

    @pytest.mark.proof
    def test_a_module_that_became_a_package_is_not_missed(self, project):
        directory = project(preset="minimal")
        package = directory / PACKAGE / "metrics"
        package.mkdir()
        (directory / PACKAGE / "metrics.py").rename(package / "__init__.py")
        commit(directory)
        assert "missing" not in run("update")

    def test_a_file_that_the_owner_renamed_gets_the_changes(self, project):
        directory = project(preset="minimal")
        git(directory, "mv", "train.py", "learn.py")
        commit(directory)
        output = run("update", code=1)
        why = "(you renamed it to learn.py; tests/conftest.py imports it)"
        assert f"missing train.py {why}" in output
        assert "Trains a new model" in (directory / "learn.py").read_text()
        assert not (directory / "train.py").exists()

    @pytest.mark.proof
    def test_a_file_that_both_renamed_is_there_twice(self, project):
        directory = project(preset="minimal")
        mine = directory / PACKAGE / "mine.py"
        (directory / PACKAGE / "optim" / "schedule.py").rename(mine)
        mine.write_text(mine.read_text() + "# Mine\n")
        commit(directory)
        output = run("update", code=1)
        assert (
            f"kept aside {PACKAGE}/mine.py (your edits of {PACKAGE}/optim/schedule.py)"
            in output
        )
        assert "# Mine" in mine.read_text()
        assert (directory / PACKAGE / "optim" / "rates.py").exists()

    def test_a_binary_file_stays_the_owners(self, project):
        directory = project(preset="minimal")
        (directory / PACKAGE / "optim" / "rates.py").write_bytes(b"\0\xff\n")
        commit(directory)
        output = run("update", code=1)
        assert f"conflict {PACKAGE}/optim/rates.py" in output
        assert (directory / PACKAGE / "optim" / "rates.py").read_bytes() == b"\0\xff\n"
        git(directory, "checkout", "--theirs", f"{PACKAGE}/optim/rates.py")
        assert b"def " in (directory / PACKAGE / "optim" / "rates.py").read_bytes()

    @pytest.mark.proof
    def test_a_project_with_other_line_endings_keeps_them(self, project):
        """In files that either side renamed, in new ones and in the answers, too."""
        directory = project(**custom("schedule"))
        git(directory, "mv", "train.py", "learn.py")
        for name, content in files(directory).items():
            (directory / name).write_bytes(content.replace(b"\n", b"\r\n"))
        commit(directory)
        output = run("update", "--data", "tricks=[schedule,ema]", code=1)
        assert "\nconflict " not in output
        assert f"\nadded {PACKAGE}/optim/ema.py\n" in output
        after = files(directory)
        assert b"run.ema" in after["learn.py"]
        assert f"{PACKAGE}/optim/rates.py" in after
        for name, content in after.items():
            assert content.count(b"\n") == content.count(b"\r\n"), name
        shown = git(directory, "diff", "HEAD", "--numstat", ".copier-answers.yml")
        assert int(shown.split()[0]) < 8

    @pytest.mark.proof
    def test_a_formatted_answers_file_has_no_edits(self, project):
        """As yamlfmt and prettier write it."""
        directory = project(**custom("amp"))
        answers = directory / ".copier-answers.yml"
        text = answers.read_text().replace("''", '""').replace("\n- ", "\n  - ")
        answers.write_text(f"---\n{text}")
        commit(directory)
        assert "kept aside" not in run("update")

    def test_a_comment_in_the_answers_file_is_kept_aside(self, project):
        directory = project(preset="minimal")
        answers = directory / ".copier-answers.yml"
        answers.write_text(answers.read_text() + "# Mine\n")
        commit(directory)
        output = run("update", code=1)
        kept = "kept-aside/.copier-answers.yml.kept"
        assert f"kept aside {kept} (your edits of .copier-answers.yml)" in output
        assert (directory / kept).read_text().endswith("# Mine\n")
        assert "v0.2.0" in answers.read_text()

    def test_an_answer_that_was_edited_by_hand_counts(self, project, fresh):
        directory = project(preset="minimal")
        edit(directory / ".copier-answers.yml", "author: ''", "author: Ada")
        commit(directory)
        run("update")
        answers = (directory / ".copier-answers.yml").read_bytes()
        expected = fresh("v0.2.0", preset="minimal", author="Ada")
        assert answers == (expected / ".copier-answers.yml").read_bytes()

    def test_answers_can_be_changed(self, project, fresh):
        directory = project(preset="minimal")
        run("update", "--data", "preset=recommended", "-d", "author=Ada")
        expected = fresh("v0.2.0", author="Ada", preset="recommended")
        assert files(directory) == files(expected)

    @pytest.mark.proof
    def test_needs_no_help_from_the_configuration_of_git(
        self, project, fresh, tmp_path, monkeypatch
    ):
        directory = project(preset="minimal")
        hooks = directory / ".git" / "hooks"
        hooks.mkdir(exist_ok=True)
        for name in ("post-checkout", "post-index-change", "pre-commit", "post-merge"):
            (hooks / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/a-hook-ran\n")
            (hooks / name).chmod(0o755)
        configuration = tmp_path / "gitconfig"
        configuration.write_text(
            "[user]\nuseConfigOnly = true\n[commit]\ngpgSign = true\n[core]\nautocrlf = true\n"
            "[diff]\nnoprefix = true\n[merge]\nconflictStyle = diff3\n[status]\nshort = true\n"
        )
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(configuration))
        # As git itself would have checked it out.
        git(directory, "rm", "-r", "--quiet", "--cached", ".")
        git(directory, "reset", "--hard", "--quiet")
        before = state(directory)
        (tmp_path / "a-hook-ran").unlink(missing_ok=True)
        assert b"\r\n" in before[0]["train.py"]
        output = run("update")
        assert not (tmp_path / "a-hook-ran").exists()
        expected = files(fresh("v0.2.0", preset="minimal"))
        crlf = {name: text.replace(b"\n", b"\r\n") for name, text in expected.items()}
        assert {name: text for name, text in files(directory).items()} == crlf
        run_undo(output)
        assert state(directory) == before

    def test_a_version_that_is_no_newer(self, project):
        directory = project(version="v0.2.0", preset="minimal")
        status = json.loads(run("status", "--json"))
        assert (status["newer_versions"], status["new_tricks"]) == ([], [])
        assert run("update") == "the project already has v0.2.0: nothing to do\n"
        assert "cannot go back" in run("update", "--to", "v0.1.0", code=2)
        assert "it has v0.1.0, v0.2.0" in run("update", "--to", "v0.3.0", code=2)
        assert "cannot be had" in run("update", "--to", "no-such-branch", code=2)
        assert "nothing to do" in run("update", "--to", "0.2.0")
        assert git(directory, "status", "--porcelain") == ""

    @pytest.mark.parametrize("conflict", few_of([False, True], 1))
    def test_dry_run_shows_everything_and_does_nothing(self, project, conflict):
        directory = project(preset="minimal")
        if conflict:
            edit(directory / "train.py", "Trains a model", "Trains my model")
            commit(directory)
        before = state(directory), (directory / ".git" / "index").read_bytes()
        dry = run("update", "--dry-run", code=conflict)
        assert (state(directory), (directory / ".git" / "index").read_bytes()) == before
        assert '+"""Trains a new model' in dry
        assert f"rename to {PACKAGE}/optim/rates.py" in dry
        output = run("update", code=conflict)
        prefixes = ("changed", "added", "removed", "renamed", "conflict")
        said = [line for line in output.splitlines() if line.startswith(prefixes)]
        assert [line for line in dry.splitlines() if line.startswith(prefixes)] == said

    @pytest.mark.proof
    def test_the_real_copier_and_this_tool_take_turns(self, project, fresh):
        directory = project(preset="minimal")
        run("add", "swa")
        commit(directory)
        command = [Path(sys.executable).with_name("copier"), "update", "--defaults"]
        result = subprocess.run(command, check=True, capture_output=True, text=True)
        assert f"{NAME} now has swa." in result.stderr
        assert files(directory) == files(fresh("v0.2.0", **custom("swa")))
        commit(directory)
        run("remove", "swa")
        assert files(directory) == files(fresh("v0.2.0", **custom()))
