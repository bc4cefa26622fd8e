"""`torch-tricks new`: what it makes, and what it asks."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from commands import (
    NAME,
    RECOMMENDED,
    commit,
    custom,
    edit,
    files,
    git,
    python,
    run,
)
from rendering import PACKAGE, render
from subsets import ROOT, TASKS, TRICKS
from torch_tricks import cli
from torch_tricks.template import PUBLISHED
from typer.testing import CliRunner
from versions import NEW_TRICK, REPOSITORY

LESS_AMP = [name for name in RECOMMENDED if name != "amp"]


class TestNew:
    @pytest.mark.parametrize(
        ("wishes", "answers"),
        [
            (["--preset=minimal"], {"preset": "minimal"}),
            (["--task", TASKS[-1]], {"preset": "recommended", "task": TASKS[-1]}),
            (["--defaults"], {"preset": "recommended"}),
            (
                ["--preset=minimal", "--with=amp,mixup", "--with=swa"],
                custom("swa", "mixup", "amp"),
            ),
            (["--with=swa", "--without=amp"], custom(*LESS_AMP, "swa")),
            (["--preset=minimal", "--with", "parallel=dp"], custom(parallel="dp")),
            (
                ["--data=preset=custom", "-d", "tricks=[swa, amp]", "-d", "author=Ada"],
                custom("swa", "amp", author="Ada"),
            ),
            (
                ["--preset=minimal", "--with=parallel", "--data=parallel=ddp"],
                custom(parallel="ddp"),
            ),
            (["--data=tricks=[]"], custom()),
            (["--data=tricks=[swa]", "--with=parallel"], custom("swa", parallel="dp")),
            (
                [f"--data=tricks=[{','.join(RECOMMENDED)}]", "--data=parallel=none"],
                {"preset": "recommended"},
            ),
        ],
        ids=str,
    )
    def test_equals_what_copier_makes(self, tmp_path, fresh, wishes, answers):
        output = run("new", tmp_path / "leaves", "--name", NAME, *wishes)
        assert files(tmp_path / "leaves") == files(fresh(**answers))
        assert f"{NAME} is ready in " in output
        assert f"\nIts package is {PACKAGE}: import {PACKAGE}.\n" in output
        assert ", torch, torchvision, tqdm, tyro.\n" in output
        assert os.listdir(tmp_path) == ["leaves"]

    @pytest.mark.proof
    def test_a_clone_makes_projects_of_itself_as_it_stands(self, tmp_path):
        command = ("new", tmp_path / "leaves", "--name", NAME, "--preset=everything")
        result = python("-m", "torch_tricks", *command)
        assert result.returncode == 0, result.stderr
        made = files(tmp_path / "leaves")
        answers = yaml.safe_load(made.pop(".copier-answers.yml"))
        assert answers["_src_path"] == str(ROOT)
        assert answers["_commit"]
        fresh = files(render(tmp_path / "fresh", {"preset": "everything"}))
        del fresh[".copier-answers.yml"]
        assert made == fresh

    def test_everything_is_what_the_documentation_says(self, project):
        project(preset="everything")
        listed = [line.split() for line in run("list").splitlines()]
        missing = {words[1] for words in listed if words[:1] == ["-"]}
        page = (ROOT / "docs" / "tricks.md").read_text(encoding="utf-8")
        [row] = re.findall(r"^\| `everything` \| (.*)", page, re.MULTILINE)
        names = {trick.name for trick in TRICKS}
        assert {*re.findall(r"`(\w+)`", row)} & names == missing

    def test_the_trick_uv_installs_by_uv(self, tmp_path):
        output = run("new", tmp_path / "leaves", "--preset=minimal", "--with=uv")
        lines = [line.strip() for line in output.splitlines()]
        begin = lines.index(
            "uv sync --extra cpu --extra dev    # or cu126, cu130, rocm"
        )
        assert lines[begin + 1 :] == ["source .venv/bin/activate", "python train.py"]
        assert "pip" not in output

    def test_an_empty_folder_is_filled(self, tmp_path, fresh, monkeypatch):
        """Also where a link leads to it."""
        (tmp_path / "disk").mkdir()
        (tmp_path / "leaves").symlink_to("disk")
        monkeypatch.chdir(tmp_path / "leaves")
        output = run("new", ".", "--name", NAME, "--preset=minimal")
        assert files(tmp_path / "disk") == files(fresh(preset="minimal"))
        assert (tmp_path / "leaves").is_symlink()
        assert "    cd " not in output

    def test_a_fresh_clone_is_filled(self, tmp_path, fresh):
        """With what an editor, a virtual environment and a disk have put there."""
        git(tmp_path, "init", "--quiet")
        for name in (".venv", ".vscode", "lost+found"):
            (tmp_path / name).mkdir()
        head = (tmp_path / ".git" / "HEAD").stat().st_ino
        output = run("new", tmp_path, "--name", NAME, "--preset=minimal")
        assert files(tmp_path) == files(fresh(preset="minimal"))
        assert (tmp_path / ".git" / "HEAD").stat().st_ino == head
        assert (tmp_path / ".venv").is_dir()
        assert "git init" not in output
        [commands] = re.findall("^    (git .*)", output, re.MULTILINE)
        settings = "-c user.name=Test -c user.email=test@example.com"
        commands = commands.replace("commit", f"{settings} commit", 1)
        subprocess.run(commands, shell=True, cwd=tmp_path, check=True)
        assert git(tmp_path, "status", "--porcelain") == ""

    def test_a_folder_that_cannot_be_moved_leaves_nothing_behind(
        self, tmp_path, monkeypatch
    ):
        def refuse(*_):
            raise OSError(16, "Device or resource busy", str(tmp_path))

        monkeypatch.setattr("os.replace", refuse)
        line = run("new", tmp_path / "a" / "b" / "leaves", "--defaults", code=2)
        assert f"{tmp_path}/a/b/leaves cannot be made (Device or resource busy)" in line
        assert "/a/b/leaves/" not in line
        assert not (tmp_path / "a").exists()

    def test_a_full_disk_leaves_nothing_behind(self, tmp_path, monkeypatch):
        moved = []

        def rename(old, new):
            if len(moved) == 3:
                raise OSError(28, "No space left on device", str(old))
            moved.append(new)
            os.replace(old, new)

        git(tmp_path, "init", "--quiet")
        with monkeypatch.context() as patched:
            patched.setattr("os.rename", rename)
            line = run("new", tmp_path, "--defaults", code=2)
        assert line.startswith(f"error: {tmp_path} cannot be made (No space left")
        assert os.listdir(tmp_path) == [".git"]

    def test_a_full_temporary_folder_is_named(self, tmp_path, small_disk):
        command = ("-m", "torch_tricks", "new", tmp_path / "x", "--template", PUBLISHED)
        place = small_disk(2**16)
        result = python(*command, "--defaults", TMPDIR=str(place))
        assert result.returncode == 2
        assert f"error: the template has no room in {place} (" in result.stderr

    @pytest.mark.parametrize(
        ("ignored", "expected"),
        [
            ("", 'git add . && git commit -m "Start" .'),
            ("data/", 'git add . && git commit -m "Start" .'),
            ("work/", 'git init && git add -A && git commit -m "Start"'),
        ],
    )
    def test_inside_of_a_repository_no_other_one_is_advised(
        self, tmp_path, ignored, expected
    ):
        git(tmp_path, "init", "--quiet")
        (tmp_path / ".gitignore").write_text(ignored)
        output = run("new", tmp_path / "work" / "leaves", "--defaults")
        assert f"\n    {expected}\n" in output
        assert (f"the repository of {tmp_path}:" in output) == (ignored != "work/")
        assert ("\nnote: git ignores leaves/data/" in output) == (ignored == "data/")

    def test_beside_the_files_of_a_repository(self, tmp_path, fresh, monkeypatch):
        """Those that the project has too stay, and an update leaves them as well."""
        own = {
            "README.md": "# Mine\n",
            "pyproject.toml": "[project]\n",
            "src/a.py": "\n",
        }
        for name, text in own.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        git(tmp_path, "init", "--quiet")
        monkeypatch.chdir(tmp_path)
        output = run("new", "--here", "--name", NAME, "--preset=minimal")
        assert "\nnote: README.md, pyproject.toml stayed as you had them: " in output
        assert "\nnote: add what it depends on to your pyproject.toml" in output
        added = files(fresh(preset="minimal")) | {k: v.encode() for k, v in own.items()}
        assert files(tmp_path) == added
        commit(tmp_path, "Start")
        run("update")
        for name, text in own.items():
            assert text in (tmp_path / name).read_text()
        assert "Trains a new model" in (tmp_path / "train.py").read_text()

    @pytest.mark.parametrize(
        ("name", "reason"),
        [
            ("train.py", "train.py already, which the project needs"),
            ("tests", "tests already, which the project needs"),
            (".copier-answers.yml", "is a project already: torch-tricks add or update"),
        ],
    )
    def test_what_is_in_the_way_of_a_project(self, tmp_path, monkeypatch, name, reason):
        (tmp_path / name).write_text("mine = 1\n")
        monkeypatch.chdir(tmp_path)
        assert reason in run("new", "--here", "--preset=minimal", "--name=A", code=2)
        assert os.listdir(tmp_path) == [name]

    def test_a_link_out_of_the_folder_is_in_the_way(self, tmp_path, monkeypatch):
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "here").mkdir()
        (tmp_path / "here" / "tests").symlink_to("../elsewhere")
        monkeypatch.chdir(tmp_path / "here")
        assert "has tests already" in run("new", "--here", "--defaults", code=2)
        assert os.listdir(tmp_path / "elsewhere") == []
        assert os.listdir(tmp_path / "here") == ["tests"]

    @pytest.mark.proof
    def test_a_relative_template_is_found_again_from_the_project(
        self, hub, tmp_path, monkeypatch
    ):
        folder, template = (hub / REPOSITORY).parent, Path(REPOSITORY).name
        monkeypatch.chdir(folder)
        options = ("--name", NAME, "--preset=minimal", "--template", template)
        run("new", tmp_path / "leaves", *options)
        answers = yaml.safe_load(
            (tmp_path / "leaves" / ".copier-answers.yml").read_text()
        )
        assert answers["_src_path"] == str(folder / template)
        assert answers["_commit"] == "v0.2.0"

    @pytest.mark.proof
    def test_an_uncommitted_template_gets_a_note(self, hub, tmp_path):
        # In a process of its own, which clones the template each time.
        clone = tmp_path / "clone"
        git(hub, "clone", "--quiet", str(hub / REPOSITORY), str(clone))
        edit(clone / "copier.yml", "_envops:", "# Changed\n_envops:")
        options = ("--defaults", "--template", clone, "--ref", "HEAD")
        result = python("-m", "torch_tricks", "new", tmp_path / "leaves", *options)
        assert "changes that are not committed" in result.stdout

    @pytest.mark.parametrize(
        ("wishes", "sentence"),
        [
            (["--with=AMP"], "did you mean amp?"),
            (["--with=DDP"], "did you mean parallel=ddp?"),
            (["--with=zzz"], "there is folders, csv"),
            (["--with=amp", "--without=amp"], "amp is both added and left out"),
            (
                ["--with=parallel=fsdpp"],
                'no choice of parallel is called "fsdpp"; did you mean fsdp?',
            ),
            (["--with=parallel=none"], 'is called "none"; there is dp, ddp, fsdp'),
            (["--with=amp=fp16"], "amp has no choices"),
            (["--data=authr=Ada"], "did you mean author?"),
            (["--data=tricks=[amp,mixip]"], "did you mean mixup?"),
            (["--data=tricks=[ddp]"], "did you mean parallel=ddp?"),
            (["--data=tricks=[parallel]"], 'no trick is called "parallel"'),
            (["--data=author"], "write --data author=VALUE"),
            (["--data=swa=true"], "write --with or --without swa"),
            (["--data=preset=best"], 'no choice of preset is called "best"'),
            (["--data=package_name=class"], "class is taken"),
            (["--name=Leaves\x07"], "without control characters"),
            (["--ref=v9"], "the template has no version v9; it has v0.1.0, v0.2.0"),
            (
                ["--template=nowhere"],
                "'nowhere' does not appear to be a git repository",
            ),
            (["--template=gh:org/nothing"], "check the network"),
            (["--no-such-option"], "see torch-tricks new --help"),
        ],
        ids=str,
    )
    def test_a_refusal_leaves_nothing_behind(self, tmp_path, wishes, sentence):
        line = run(
            "new", tmp_path / "leaves", "--name", NAME, "--defaults", *wishes, code=2
        )
        assert sentence in line
        assert os.listdir(tmp_path) == []

    @pytest.mark.parametrize(
        ("folder", "name"),
        [
            ("leaf-diseases", "Leaf Diseases"),
            ("_oak__leaves.v2", "Oak Leaves.v2"),
            ("blätter", "Blätter"),
            ("a\x07\n\udcffb", "A B"),
            ("---", "Project"),
            ("MNISTnet", "MNISTnet"),
            ("x" * 120, "X" + "x" * 79),
            ("y" * 79 + "-z", "Y" + "y" * 78),
        ],
    )
    def test_the_folder_gives_the_name(self, tmp_path, folder, name):
        run("new", tmp_path / folder, "--preset=minimal")
        answers = yaml.safe_load(
            (tmp_path / folder / ".copier-answers.yml").read_text()
        )
        assert answers["project_name"] == name
        assert {"package_name", "description", "author"} < answers.keys()

    def test_nothing_is_overwritten(self, tmp_path):
        git(tmp_path, "init", "--quiet")
        for name in (".gitignore", "notes"):
            (tmp_path / name).write_text("mine")
        line = run("new", tmp_path, "--name", NAME, "--defaults", code=2)
        assert f"{tmp_path} has .gitignore, notes: choose another folder" in line
        assert files(tmp_path) == {".gitignore": b"mine", "notes": b"mine"}
        (tmp_path / "nowhere").symlink_to("x")
        for name in ("notes", "nowhere"):
            line = run("new", tmp_path / name, "--name", NAME, code=2)
            assert "exists already, and is no folder" in line

    def test_an_interrupt_leaves_nothing_behind(self, tmp_path, monkeypatch):
        def interrupt(*_, **__):
            raise KeyboardInterrupt

        monkeypatch.setattr("torch_tricks.preview.write", interrupt)
        arguments = ["new", str(tmp_path / "leaves"), "--name", NAME, "--defaults"]
        result = CliRunner().invoke(cli.app, arguments)
        assert (result.exit_code, result.stderr) == (130, "stopped\n")
        assert os.listdir(tmp_path) == []


class TestAsking:
    @pytest.mark.parametrize(
        ("wishes", "expected"),
        [
            (["--name", NAME], ["task", "preset"]),
            (["--data", "project_name=Oaks"], ["task", "preset"]),
            (["--data", "author=Ada"], ["project_name", "task", "preset"]),
            (["--task=classification"], ["project_name", "preset"]),
            (["--data", "task=classification"], ["project_name", "preset"]),
            (["--preset=everything"], ["project_name"]),
            (["--with=swa", "--preset=custom"], ["project_name"]),
            ([], ["project_name", "task", "preset"]),
            (["--name", NAME, "--preset=minimal"], []),
            (["--name", NAME, "--with=swa"], []),
            (["--name", NAME, "--without=amp"], []),
            (["--name", NAME, "--data=tricks=[swa]"], []),
            (["--defaults"], []),
        ],
        ids=str,
    )
    def test_what_was_not_told(self, tmp_path, asked, wishes, expected):
        run("new", tmp_path / "leaves", *wishes)
        assert [*asked] == expected

    def test_the_rest_if_the_preset_is_custom(self, tmp_path, asked, fresh):
        wishes = ("--name", NAME, "--preset=custom", "--data", "author=Ada")
        run("new", tmp_path / "leaves", *wishes)
        names = ["task", "package_name", "description", "parallel", "tricks"]
        assert [*asked] == names
        expected = fresh(**custom(*RECOMMENDED), author="Ada")
        assert files(tmp_path / "leaves") == files(expected)

    @pytest.mark.proof
    def test_who_changes_to_custom_about_the_tricks(self, project, asked, fresh):
        directory = project(preset="minimal")
        run("update", "--data", "preset=custom")
        assert [*asked] == ["parallel", "tricks"]
        expected = fresh("v0.2.0", **custom(*RECOMMENDED, NEW_TRICK))
        assert files(directory) == files(expected)
