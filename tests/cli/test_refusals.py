"""Refusals, which come before any file is touched."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from commands import commit, custom, edit, files, git, run, run_undo, state
from parts import few_of
from rendering import PACKAGE
from torch_tricks.git import Scratch
from torch_tricks.template import PUBLISHED
from versions import IDENTITY, REPOSITORY

LISTED = r"tricks:\n- seeding"


UNFIT = [
    (custom(), ["add", "video"], "video needs folders: choose both, or neither"),
    (
        custom("folders", "video"),
        ["remove", "folders"],
        "video needs folders: remove video too",
    ),
    (custom("folders", "hdf5"), ["add", "video"], "video excludes hdf5"),
    (custom(), ["add", "sync_bn"], "parallel=ddp or parallel=fsdp: add"),
    (
        custom("sync_bn", parallel="ddp"),
        ["add", "parallel=dp"],
        "parallel=ddp or parallel=fsdp: remove sync_bn too",
    ),
]
WRONG_ANSWERS = [
    ("update", LISTED, "tricks: [video]", "video needs folders"),
    ("update", LISTED, "tricks: [amp, sva]", "sva"),
    ("add swa", LISTED, "tricks: seeding", "must be a list, such as"),
    ("list", "parallel: none", "parallel: ddq", "did you mean ddp?"),
    ("show swa", "preset: custom", "preset: costum", "mean custom?"),
    ("update", "package_name: leaf_", "package_name: Leaf_", "package_name"),
    ("update", "project_name: .*\n", "", "has no project_name: write that"),
    ("update", f"parallel: .*\n|{LISTED}", "", "no parallel and no tricks"),
    ("update", "(?s).+", "", "get it back from git"),
    ("update", "(?s).+", "a: [", "correct it"),
    ("update", "_commit: .*\n", "", "does not say which version"),
    ("update", "_commit: .*", "_commit: 0a1b2c3", "_commit in .copier-answers"),
    ("update", "_src_path: .*", "_src_path: /nowhere", "_src_path"),
]


class TestTricksThatDoNotGoTogether:
    """Such a list is refused with a sentence, wherever it stands."""

    def test_new(self, tmp_path):
        wishes = ("--template", PUBLISHED, "--data", "tricks=[video]", "--defaults")
        assert "video needs folders" in run("new", tmp_path / "leaves", *wishes, code=2)
        assert os.listdir(tmp_path) == []

    def test_update(self, project):
        directory = project(preset="minimal")
        before = state(directory)
        data = ("--data=preset=custom", "--data=tricks=[folders, video, hdf5]")
        assert "video excludes hdf5" in run("update", *data, code=2)
        assert state(directory) == before

    @pytest.mark.parametrize(("before", "command", "sentence"), few_of(UNFIT, 0, 1))
    def test_add_and_remove(self, project, before, command, sentence):
        directory = project(**before)
        before = state(directory)
        assert sentence in run(*command, code=2)
        assert state(directory) == before

    @pytest.mark.parametrize(
        ("command", "pattern", "wrong", "sentence"), few_of(WRONG_ANSWERS, 1, 2, 3, 4)
    )
    def test_the_answers_file(self, project, command, pattern, wrong, sentence):
        """Copier alone forgets such an answer, and takes the default."""
        directory = project(**custom("seeding"))
        answers = directory / ".copier-answers.yml"
        text = re.sub(pattern, wrong, answers.read_text())
        assert text != answers.read_text()
        answers.write_text(text)
        commit(directory)
        before = state(directory)
        assert sentence in run(*command.split(), code=2)
        assert state(directory) == before

    @pytest.mark.proof
    def test_a_list_that_a_newer_version_refuses(self, project):
        directory = project(**custom("l1"))
        status = json.loads(run("status", "--json"))
        assert (status["tricks_in"], status["not_known"]) == (["l1"], None)
        assert "l1 needs ema: choose both, or neither" in run("update", code=2)
        wanted = run("update", "--data", "tricks=[ema,l1]", "--dry-run")
        assert "tricks: l1, ema\n" in wanted
        run("add", "ema")
        commit(directory)
        run("update")
        answers = yaml.safe_load((directory / ".copier-answers.yml").read_text())
        assert answers["tricks"] == ["l1", "ema"]
        assert answers["_commit"] == "v0.2.0"


SWA = f"{PACKAGE}/optim/swa.py"
COMMIT = "commit() { git add -A; git commit --quiet --message Work; }"

REFUSED = {
    f"mv {PACKAGE} leafnet": "commit -a (and git add before it for what you moved)",
    """name=$'f"ü\\n.py'; touch "$name"; commit; tee "$name" <<<mine >train.py""": (
        'f"ü\n.py and 1 more not committed'
    ),
    "echo mine >notes; git add notes": "notes not committed",
    "rm -r .git": "run git init, git add -A and git commit",
    "rm -r .git; git init --quiet; echo '*' >.gitignore": "run git add, with -f",
    "git rev-parse HEAD >.git/MERGE_HEAD": "git merge --abort",
    "mkdir .git/rebase-merge": "git rebase --abort",
    "touch .git/index.lock": "index.lock",
    "echo '||||||| last update' >train.py; commit": "train.py still has conflict markers",
    f"""
    mkdir ../other; echo 'name: Ada' >../other/copier.yml
    (cd ../other; git init --quiet; commit; git tag v0.1.0)
    sed --in-place "s|{PUBLISHED}|$(realpath ../other)|" .copier-answers.yml; commit
    """: "use Copier's commands",
    f"rm -r .git {PACKAGE}; git init --quiet; commit; echo mine >{PACKAGE}": (
        f"{PACKAGE} is in the way"
    ),
    f"ln --symbolic nowhere {SWA}": f"{SWA} is in the way",
    f"echo swa.py >.gitignore; commit; echo mine >{SWA}": f"{SWA} is in the way",
    f"mkdir {SWA}; echo mine >{SWA}/notes; commit": f"{SWA} is one kind of thing",
}
"""What a shell does to a project, and what is said of it."""


class TestRefusals:
    """Before anything is touched: one line, the remedy, and exit code 2."""

    @pytest.mark.parametrize(
        ("prepare", "sentence"), REFUSED.items(), ids=[*REFUSED.values()]
    )
    def test_a_refusal_leaves_everything_alone(self, project, prepare, sentence):
        directory = project(preset="minimal")
        shell = ["bash", "-ec", f"{COMMIT}\n{prepare}"]
        subprocess.run(shell, check=True, env=os.environ | IDENTITY)
        before = files(directory)
        # What is in the way of swa.py is in the way of adding swa only.
        command = ["add", "swa"] if SWA in prepare else ["update"]
        assert " ".join(sentence.split()) in run(*command, code=2)
        assert files(directory) == before

    def test_every_command_looks_first(self, project):
        directory = project(preset="minimal")
        (directory / "train.py").write_text("mine")
        for command in (["add", "amp"], ["remove", "amp", "--dry-run"], ["update"]):
            refused = run(*command, code=2)
            assert "train.py not committed: run git commit -a" in refused
        assert (directory / "train.py").read_text() == "mine"


class TestWhatGitDoesNotSee:
    """Untracked files, marked files, sparse checkouts, and repositories of others."""

    def test_untracked_files_elsewhere_are_nobodys_business(self, project, fresh):
        directory = project(preset="minimal")
        mine = {"photos/cat.jpg": b"\xff", f"{PACKAGE}/mine.py": b"mine = 1\n"}
        mine |= {"run-7/model.pt": b"weights", "kept-aside/notes": b"mine"}
        for name, content in mine.items():
            (directory / name).parent.mkdir(exist_ok=True)
            (directory / name).write_bytes(content)
        before = state(directory)
        output = run("update")
        assert files(directory) == files(fresh("v0.2.0", preset="minimal")) | mine
        assert "then git commit -a\n" in output
        run_undo(output)
        assert state(directory) == before
        output = run("update", "--data", "package_name=plants")
        assert files(directory).items() >= mine.items()
        run_undo(output)
        assert state(directory) == before

    @pytest.mark.proof
    def test_what_is_said_to_go_on_commits_the_change_and_nothing_else(self, project):
        directory = project(**custom("swa"))
        for name in ("train.py", f"{PACKAGE}/optim/swa.py"):
            (directory / name).write_text("# Mine\n")
        commit(directory)
        (directory / "photo").write_text("mine")
        output = run("update", "--data", "tricks=[amp]", code=1)
        assert "then run git add -u, pytest, and git commit\n" in output
        line = run("update", code=2)
        assert "train.py still has conflict markers" in line
        assert "run git add -u and git commit first" in line
        (directory / "train.py").write_text("# Mine\n")
        git(directory, "add", "-u")
        git(directory, "commit", "--quiet", "--message=Update")
        assert git(directory, "status", "--porcelain") == "?? photo\n"
        committed = git(directory, "ls-files").splitlines()
        assert {*committed, "photo"} == files(directory).keys()
        assert f"kept-aside/{PACKAGE}/optim/swa.py.kept" in committed

    @pytest.mark.proof
    def test_a_file_in_place_of_the_folder_for_what_is_kept(self, project):
        directory = project(**custom("swa"))
        swa = directory / PACKAGE / "optim" / "swa.py"
        swa.write_text(swa.read_text() + "# Mine\n")
        commit(directory)
        (directory / "kept-aside").write_text("mine")
        (directory / "kept-aside-2").symlink_to("nowhere")
        before = state(directory)
        output = run("remove", "swa", code=1)
        assert f"kept aside kept-aside-3/{PACKAGE}/optim/swa.py.kept " in output
        run_undo(output)
        assert state(directory) == before

    @pytest.mark.parametrize(
        ("mark", "name", "options"),
        [
            ("assume-unchanged", "train.py", []),
            ("skip-worktree", ".copier-answers.yml", ["--dry-run"]),
        ],
    )
    def test_a_marked_file_is_not_overwritten(self, project, mark, name, options):
        directory = project(preset="minimal")
        git(directory, "update-index", f"--{mark}", name)
        path = directory / name
        path.write_text(path.read_text() + "# Mine\n")
        before = state(directory)
        line = run("update", *options, code=2)
        command = f"git update-index --no-{mark} {name}"
        assert f"git sees no edits in {name}" in line
        assert command in line
        assert state(directory) == before
        subprocess.run(command, shell=True, check=True, cwd=directory)
        assert f"{name} not committed" in run("update", *options, code=2)

    @pytest.mark.proof
    def test_a_skipped_file_that_stays_is_left_alone(self, project):
        directory = project(preset="minimal")
        git(directory, "update-index", "--skip-worktree", "pyproject.toml")
        (directory / "pyproject.toml").write_text("mine")
        before = state(directory)
        output = run("update")
        assert (directory / "pyproject.toml").read_text() == "mine"
        run_undo(output)
        assert state(directory) == before

    def test_the_way_back_would_overwrite_any_file_that_is_assumed_unchanged(
        self, project
    ):
        directory = project(preset="minimal")
        names = ["pyproject.toml", "README.md"]
        git(directory, "update-index", "--assume-unchanged", *names)
        line = run("update", code=2)
        assert "git update-index --no-assume-unchanged README.md pyproject.toml" in line

    @pytest.mark.proof
    def test_a_sparse_checkout_that_leaves_out_what_changes(self, project):
        directory = project(preset="minimal")
        git(directory, "sparse-checkout", "set", "--cone", "tests")
        before = state(directory)
        for command in (["update"], ["update", "--dry-run"], ["add", "swa"]):
            line = run(*command, code=2)
            assert "run git sparse-checkout disable" in line
            assert state(directory) == before

    @pytest.mark.proof
    @pytest.mark.parametrize("options", [[], ["--sparse-index"]])
    def test_a_sparse_checkout_that_leaves_out_other_things(
        self, project, tmp_path, fresh, options
    ):
        directory = project("code/project", preset="minimal")
        for folder in ("papers", "code/project/data"):
            (tmp_path / folder).mkdir()
            (tmp_path / folder / "large").write_text("large")
        commit(tmp_path)
        names = {
            str(Path(name).parent) for name in files(fresh("v0.2.0", **custom("swa")))
        }
        folders = [f"code/project/{name}" for name in names - {"."}]
        git(tmp_path, "sparse-checkout", "set", "--cone", *options, *folders)
        assert not (directory / "data").exists()
        before = state(directory)
        for command in (["update"], ["add", "swa"]):
            output = run(*command)
            assert not (directory / "data").exists()
            run_undo(output)
            assert state(directory) == before

    @pytest.mark.proof
    def test_a_new_file_outside_of_a_sparse_checkout(self, project, fresh):
        directory = project(preset="minimal")
        folders = {str(Path(name).parent) for name in files(directory)} - {"."}
        git(directory, "sparse-checkout", "set", "--cone", *folders)
        before = state(directory)
        line = run("update", "--data", "package_name=plants", code=2)
        assert "outside of your sparse-checkout definition" in line
        assert "hint" not in line
        assert state(directory) == before

    @pytest.mark.parametrize(
        "command",
        [
            ["update"],
            ["add", "swa"],
            ["show", "swa"],
            ["new", "x", "--defaults", "--ref=v0.1.0"],
        ],
    )
    def test_a_machine_without_git(self, project, monkeypatch, command):
        directory = project(preset="minimal")
        before = files(directory)
        monkeypatch.setenv("PATH", "/nowhere")
        assert "git is not installed" in run(*command, code=2)
        assert files(directory) == before

    def test_a_repository_of_somebody_else(self, project, monkeypatch):
        directory = project(preset="minimal")
        monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
        for command in (["update"], ["add", "swa"]):
            line = run(*command, code=2)
            assert "dubious ownership in repository" in line
            assert f"git config --global --add safe.directory {directory}" in line
        status = json.loads(run("status", "--json"))
        assert "dubious ownership" in status["not_known"]
        assert status["version"] == "v0.1.0"

    @pytest.mark.proof
    def test_a_template_of_somebody_else(self, project, hub, monkeypatch, tmp_path):
        clone = tmp_path / "clone"
        git(hub, "clone", "--quiet", str(hub / REPOSITORY), str(clone))
        directory = project(preset="minimal")
        edit(directory / ".copier-answers.yml", PUBLISHED, str(clone))
        commit(directory)
        config = tmp_path / "gitconfig"
        git(tmp_path, "config", "--file", config, "safe.directory", str(directory))
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
        monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
        new = ["new", tmp_path / "leaves", "--template", clone, "--defaults"]
        for command in (["add", "swa"], ["update"], new):
            assert f"safe.directory {clone}" in run(*command, code=2)
        assert "safe.directory" in json.loads(run("status", "--json"))["not_known"]

    @pytest.mark.proof
    def test_only_what_the_merge_needs_is_copied(self, project, monkeypatch, fresh):
        directory = project(preset="minimal")
        git(directory, "mv", "train.py", "learn.py")
        large = {f"photos/{n}": os.urandom(200_000) for n in range(20)}
        large |= {"photos/labels.csv": b"cat,1\n" * 1000}
        for name, content in large.items():
            (directory / name).parent.mkdir(exist_ok=True)
            (directory / name).write_bytes(content)
        commit(directory)
        sizes = []
        merge = Scratch.merge

        def measure(scratch, *trees):
            merged = merge(scratch, *trees)
            sizes.append(
                sum(path.stat().st_size for path in scratch.directory.rglob("*"))
            )
            return merged

        monkeypatch.setattr(Scratch, "merge", measure)
        for options in (["--dry-run"], []):
            output = run("update", *options, code=1)
            assert "photos" not in output
        assert max(sizes) < 2_000_000
        assert files(directory).items() >= large.items()
        assert "Trains a new model" in (directory / "learn.py").read_text()
