"""A run is had again in a clone: equal weights, and what differs is the first line."""

import re
import shutil
import sys

import pytest
import training
from commands import commit, edit, git
from PIL import Image
from processes import call, call_any
from rendering import render_subset
from subsets import Subset


@pytest.mark.proof
def test_a_run_of_edited_code_is_repeated(folder, tmp_path):
    photos = shutil.copytree(folder, tmp_path / "photos")
    tricks = "provenance", "seeding", "folders"
    project = render_subset(tmp_path / "project", Subset.of(*tricks))
    git(project, "init", "--quiet")
    commit(project)
    edit(
        project / "leaf_diseases/models/networks.py",
        "width: int = 16",
        "width: int = 3",
    )
    (project / "new.py").write_text("NEW = True\n", encoding="utf-8")
    run = tmp_path / "run"
    flags = ("--data", "folder", "--data-dir", photos, "--run-dir", run)
    flags += (*training.COMMON, "--device", "cpu")
    call(sys.executable, "train.py", *flags, cwd=project)

    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", project, clone)

    def repeat(*arguments):
        result = call_any(sys.executable, "repeat.py", run, *arguments, cwd=clone)
        assert result.returncode == 0, result.stderr
        return result.stdout.splitlines()

    first, second, *others = repeat("--go")
    assert first == "code: leaf_diseases/models/networks.py differs"
    assert second == "code: new.py differs"
    assert not any(
        line.startswith(("data:", "version:", "machine:")) for line in others
    )
    weights = [tmp_path / name / "model.pt" for name in ("run", "run-repeated")]
    assert weights[0].read_bytes() == weights[1].read_bytes()

    git(clone, "config", "core.abbrev", "12")
    git(clone, "apply", *run.glob("changes-*.patch"))
    assert repeat() == ["nothing differs"]
    git(clone, "add", ".")
    git(clone, "commit", "--quiet", "--message", "second")
    assert repeat() == ["nothing differs"]
    Image.new("RGB", (9, 9)).save(photos / "train/a/0.png")
    [line] = repeat()
    pattern = r"data: train (\d+ images with digest) \w{16}, here \1 \w{16}"
    assert re.fullmatch(pattern, line)
