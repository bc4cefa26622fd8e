"""The real compiler: that of C++, as on a machine without a GPU."""

import json
import shutil
import sys

import pytest
from processes import call
from rendering import render_subset
from subsets import Subset

# Of 22 images 8, 8 and 6: the shape of the last batch is another.
FLAGS = ("--image-size", "8", "--batch-size", "8", "--epochs", "2")
FLAGS += ("--device", "cpu", "--num-workers", "0", "--checkpoint-every", "2")


@pytest.fixture
def flags(folder):
    return ("--data", "folder", "--data-dir", folder, *FLAGS)


def train(project, run, *flags, **variables):
    command = (sys.executable, "train.py", "--run-dir", run, *flags)
    call(*command, cwd=project, OMP_NUM_THREADS="1", **variables)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    subset = Subset.of("folders", "seeding", "resume", "compile")
    return render_subset(tmp_path_factory.mktemp("compiled") / "project", subset)


SECOND = "step-00000002.pt"


@pytest.mark.proof
@pytest.mark.skipif(not shutil.which("g++"), reason="needs a C++ compiler")
def test_a_compiled_run_goes_on_to_equal_bits(project, flags, tmp_path):
    """In a process that meets the short batch first, and near a run without."""
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    compiled = ("--compile-mode", "default", "--keep-checkpoints", 99)
    for name, *parts in (
        ("whole", compiled),
        ("parts", (*compiled, "--resume", tmp_path / "whole/checkpoints" / SECOND)),
        ("plain", ()),
    ):
        for part in parts:
            train(project, tmp_path / name, *flags, *part, **cache)
    files = [tmp_path / name / "model.pt" for name in ("whole", "parts", "plain")]
    assert files[0].read_bytes() == files[1].read_bytes()
    texts = [file.with_name("metrics.jsonl").read_text() for file in files]
    losses = [json.loads(text.splitlines()[0])["train_loss"] for text in texts]
    assert losses[0] == pytest.approx(losses[2], rel=0.01)
    assert files[0].read_bytes() != files[2].read_bytes()
