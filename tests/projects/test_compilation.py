"""The real compiler: that of C++, as on a machine without a GPU."""

import shutil
import sys

import pytest
import training
from processes import call
from rendering import render_subset
from subsets import Subset

# Of 22 images 8, 8 and 6: the shape of the last batch is another.
FLAGS = ("--image-size", 8, "--batch-size", 8, "--epochs", 2, "--device", "cpu")
FLAGS += ("--num-workers", 0, "--checkpoint-every", 2, "--data", "folder")


@pytest.mark.proof
@pytest.mark.skipif(not shutil.which("g++"), reason="needs a C++ compiler")
def test_a_compiled_run_goes_on_to_equal_bits(folder, tmp_path):
    """In a process that meets the short batch first, and near a run without."""
    subset = Subset.of("folders", "seeding", "resume", "compile")
    project = render_subset(tmp_path / "project", subset)
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    compiled = ("--compile-mode", "default", "--keep-checkpoints", 99)
    second = tmp_path / "whole/checkpoints/step-00000002.pt"
    for name, *parts in (
        ("whole", compiled),
        ("parts", (*compiled, "--resume", second)),
        ("plain", ()),
    ):
        for part in parts:
            flags = (*FLAGS, "--data-dir", folder, "--run-dir", tmp_path / name, *part)
            command = (sys.executable, "train.py", *flags)
            call(*command, cwd=project, OMP_NUM_THREADS="1", **cache)
    runs = [tmp_path / name for name in ("whole", "parts", "plain")]
    weights = [(run / "model.pt").read_bytes() for run in runs]
    assert weights[0] == weights[1] != weights[2]
    losses = [training.read_metrics(run)[0]["train_loss"] for run in runs]
    assert losses[0] == pytest.approx(losses[2], rel=0.01)
