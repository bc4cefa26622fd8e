"""The template's files follow a folder that the owner moved, and no folder of the template."""

import json
import subprocess
import sys

import pytest
from commands import commit, custom, files, git, run
from rendering import PACKAGE
from torch_tricks.merging import apply, plan_update, scratch_for
from torch_tricks.project import Project

BASE = {f"g/{name}.py": f"{name} = 1\n" * 9 for name in ("loss", "net")}
BASE |= {f"g/optim/{name}.py": f"{name} = 2\n" * 9 for name in ("rates", "swa")}
BASE |= {"g/optim/__init__.py": "", "train.py": "import g.optim.swa\n"}
EMA = {"g/optim/ema.py": "ema = 1\n"}


def move(directory, *pairs):
    for old, new in pairs:
        (directory / new).parent.mkdir(parents=True, exist_ok=True)
        git(directory, "mv", old, new)


class TestSmallProjects:
    """Projects of a few files, of which each version is written here."""

    @pytest.fixture
    def change(self, tmp_path):
        """Returns a function that brings a new version into a project; gives paths and lines."""

        def write(name, content):
            for path, text in {".copier-answers.yml": "", **content}.items():
                (tmp_path / name / path).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / name / path).write_text(text)
            return tmp_path / name

        def change(edit, new):
            base, directory = write("base", BASE), write("project", BASE)
            git(tmp_path, "init", "--quiet", str(directory))
            commit(directory)
            edit(directory)
            commit(directory)
            project = Project(directory)
            with scratch_for(project) as (scratch, _):
                plan = plan_update(project, scratch, base, write("new", new))
                lines = list(plan.lines())
                apply(project, plan)
            return {*files(directory)} - {".copier-answers.yml"}, lines

        return change

    @pytest.mark.parametrize(
        ("moves", "expected"),
        [
            ([("g", "src/g")], "src/g/optim/ema.py"),
            ([("g/optim", "g/opt")], "g/opt/ema.py"),
            ([("g", "src/g"), ("src/g/optim", "src/g/opt")], "src/g/opt/ema.py"),
            ([("g/optim/swa.py", "g/swa.py")], "g/optim/ema.py"),
            ([("g/optim/swa.py", "swa.py"), ("g/optim", "opt")], "opt/ema.py"),
            # Files of one folder that go to two follow neither.
            (
                [("g/optim/swa.py", "a/swa.py"), ("g/optim/rates.py", "b/rates.py")],
                "g/optim/ema.py",
            ),
        ],
        ids=str,
    )
    def test_new_files_follow(self, change, moves, expected):
        after, lines = change(lambda project: move(project, *moves), {**BASE, **EMA})
        assert expected in after
        assert [path for path in after if path.endswith("ema.py")] == [expected]
        assert any(line.startswith("followed ") for line in lines) == (
            expected not in EMA
        )

    def test_what_the_owner_wrote_anew_follows_too(self, change):
        def edit(project):
            move(project, ("g", "src/g"))
            (project / "src/g/optim/swa.py").write_text("mine = 1\n" * 50)

        new = {path: text for path, text in BASE.items() if "swa" not in path}
        after, lines = change(edit, new)
        assert "src/g/optim/swa.py" not in after
        assert "kept-aside/src/g/optim/swa.py.kept" in after
        assert "followed g -> src/g (you moved this folder)" in lines

    def test_two_files_of_the_template_never_meet(self, change):
        def edit(project):
            move(project, ("g/optim/swa.py", "g/swa.py"))
            move(project, ("g/optim/rates.py", "g/rates.py"))
            git(project, "rm", "--quiet", "g/optim/__init__.py")

        # g/optim is now g, where the template has a net.py already.
        after, _ = change(edit, {**BASE, "g/optim/net.py": "other = 1\n", **EMA})
        assert {"g/net.py", "g/optim/net.py", "g/ema.py"} <= after

    def test_own_files_stay_where_the_template_renames_a_folder(self, change):
        def edit(project):
            (project / "g/optim/mine.py").write_text("mine = 1\n")
            # The merge reads files of the size of a deleted one.
            git(project, "rm", "--quiet", "g/net.py")
            (project / "g/optim/other.py").write_text("other = 1\n" * 9)

        new = {path.replace("optim", "steps"): text for path, text in BASE.items()}
        after, _ = change(edit, new)
        assert {"g/optim/mine.py", "g/optim/other.py"} <= after
        assert {"g/steps/swa.py", "g/steps/__init__.py"} <= after

    def test_a_folder_that_both_renamed_gets_the_new_name_and_a_line(self, change):
        def edit(project):
            move(project, ("g/optim", "g/opt"))
            (project / "g/opt/mine.py").write_text("mine = 1\n")

        new = {path.replace("optim", "steps"): text for path, text in BASE.items()}
        after, lines = change(edit, new)
        assert {"g/opt/mine.py", "g/steps/swa.py"} <= after
        assert "renamed g/opt/swa.py -> g/steps/swa.py" in lines

    @pytest.mark.parametrize(
        ("moves", "missing"),
        [
            ([("g", "src/g")], []),
            (
                [("g/optim", "g/opt")],
                [
                    f"g/optim/{name}.py (you renamed its folder: it is g/opt/{name}.py; "
                    "train.py imports it)"
                    for name in ("ema", "swa")
                ],
            ),
            (
                [("g/optim/swa.py", "g/swa.py")],
                ["g/optim/swa.py (you renamed it to g/swa.py; train.py imports it)"],
            ),
        ],
        ids=str,
    )
    def test_only_what_cannot_be_imported_is_missing(self, change, moves, missing):
        new = {**BASE, **EMA, "train.py": f"{BASE['train.py']}import g.optim.ema\n"}
        _, lines = change(lambda project: move(project, *moves), new)
        assert [line for line in lines if line.startswith("missing ")] == [
            f"missing {line}" for line in missing
        ]

    def test_what_was_deleted_in_a_moved_folder_is_missing(self, change):
        def edit(project):
            move(project, ("g", "src/g"))
            git(project, "rm", "--quiet", "--force", "src/g/net.py")

        new = {**BASE, "g/loss.py": "from . import net\n"}
        _, lines = change(edit, new)
        why = "(you deleted it; src/g/loss.py imports it)"
        assert f"missing src/g/net.py {why}" in lines


class TestProjects:
    @pytest.mark.proof
    def test_what_is_added_works_and_goes_again(self, project):
        """In a package that was renamed and moved."""
        directory = project(**custom("swa"))
        move(directory, (PACKAGE, "src/leafnet"))
        for path in directory.rglob("*"):
            if path.suffix in (".py", ".toml", ".md"):
                path.write_text(path.read_text().replace(PACKAGE, "leafnet"))
        commit(directory)
        before = files(directory)
        assert json.loads(run("status", "--json"))["renamed"] == {
            PACKAGE: "src/leafnet"
        }
        output = run("add", "ema")
        assert "\nadded src/leafnet/optim/ema.py\n" in output
        assert "\npackage_name: leafnet, as you renamed its folder\n" in output
        code = "import sys; sys.path.append('src'); import train, leafnet.optim.ema"
        subprocess.run([sys.executable, "-c", code], cwd=directory, check=True)
        commit(directory)
        status = json.loads(run("status", "--json"))
        assert status["renamed"] == {"leafnet": "src/leafnet"}
        assert status["deleted"] == []
        assert "\nrenamed         leafnet -> src/leafnet\n" in run("status")
        run("remove", "ema")
        after = files(directory)
        assert b"package_name: leafnet\n" in after.pop(".copier-answers.yml")
        del before[".copier-answers.yml"]
        assert after == before
