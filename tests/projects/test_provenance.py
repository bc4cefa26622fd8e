"""A run is had again in a clone: equal weights, and what differs is the first line."""

import sys

import numpy as np
import pytest
from commands import git
from PIL import Image
from processes import call, call_any
from rendering import render_subset
from subsets import Subset

SHORT = [
    "--image-size",
    "8",
    "--batch-size",
    "4",
    "--epochs",
    "2",
    "--num-workers",
    "0",
    "--device",
    "cpu",
]


@pytest.mark.proof
def test_a_run_of_edited_code_is_repeated(tmp_path):
    photos = tmp_path / "photos"
    rng = np.random.default_rng(0)
    for number in range(16):
        folder = photos / ("train" if number < 12 else "val") / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(256, size=(8, 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.bmp")
    tricks = "provenance", "seeding", "folders"
    project = render_subset(tmp_path / "project", Subset.of(*tricks))
    git(project, "init", "--quiet")
    git(project, "add", ".")
    git(project, "commit", "--quiet", "--message", "first")
    names = project / "leaf_diseases/models/networks.py"
    text = names.read_text(encoding="utf-8")
    names.write_text(
        text.replace("width: int = 16", "width: int = 3"), encoding="utf-8"
    )
    (project / "new.py").write_text("NEW = True\n", encoding="utf-8")
    run = tmp_path / "run"
    flags = "--data", "folder", "--data-dir", photos, "--run-dir", run, *SHORT
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
    assert not any(line.startswith(("data", "version", "machine")) for line in others)
    weights = [tmp_path / name / "model.pt" for name in ("run", "run-repeated")]
    assert weights[0].read_bytes() == weights[1].read_bytes()

    git(clone, "apply", run / "changes-1.patch")
    assert repeat() == ["nothing differs"]
    git(clone, "add", ".")
    git(clone, "commit", "--quiet", "--message", "second")
    assert repeat() == ["nothing differs"]
    Image.new("RGB", (9, 9)).save(photos / "train/a/0.bmp")
    assert repeat() == ["data: other names, sizes or targets of images in train"]
