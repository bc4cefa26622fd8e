"""Rendered projects learn. These runs take a minute or more each, and are done once."""

import gzip
import os
import sys
from pathlib import Path

import pytest
import training
from processes import call
from rendering import render

MNIST = os.environ.get("TORCH_TRICKS_MNIST")


@pytest.fixture
def mnist(tmp_path):
    """The real data set, unpacked to where torchvision looks for it."""
    if not MNIST:
        pytest.skip("TORCH_TRICKS_MNIST names no directory with MNIST's four files")
    raw = tmp_path / "data" / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for packed in Path(MNIST).glob("*.gz"):
        (raw / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
    return raw.parents[1]


QUICK = ("--augment", "none", "--data-on-device", "--no-activation-checkpointing")
"""Images that move in whole batches, not one by one, and are computed once."""


def last_of(metric, tmp_path, *flags, **answers):
    """Trains a project in a fresh process and returns its last validation metric."""
    project = render(tmp_path / "project", answers)
    options = ("--device", "cpu", "--run-dir", "run")
    call(sys.executable, "train.py", *options, *flags, cwd=project)
    return training.read_metrics(project / "run")[-1][f"val_{metric}"]


@pytest.mark.proof
@pytest.mark.long
@pytest.mark.parametrize(
    ("preset", "flags", "accuracy"),
    [
        ("everything", ("--epochs", "3", "--eval-every", "3", *QUICK), 0.98),
        pytest.param(
            *("recommended", ("--epochs", "2", "--eval-every", "2"), 0.99),
            marks=pytest.mark.share,
        ),
        pytest.param(
            *("everything", ("--epochs", "7", "--eval-every", "7", *QUICK), 0.99),
            marks=pytest.mark.share,
        ),
    ],
    ids=["everything", "recommended", "everything for longer"],
)
def test_mnist_is_learned(tmp_path, mnist, preset, flags, accuracy):
    flags = ("--data", "mnist", "--data-dir", str(mnist), *flags)
    assert last_of("accuracy", tmp_path, *flags, preset=preset) >= accuracy


@pytest.mark.proof
@pytest.mark.long
@pytest.mark.parametrize(
    ("task", "metric", "least"),
    [
        ("classification", "accuracy", 0.95),
        ("regression", "r2", 0.97),
        pytest.param("multilabel", "map", 0.97, marks=pytest.mark.share),
        pytest.param("segmentation", "mean_iou", 0.85, marks=pytest.mark.share),
        pytest.param("detection", "map", 0.7, marks=pytest.mark.share),
    ],
)
def test_the_built_in_shapes_are_learned(tmp_path, task, metric, least):
    assert last_of(metric, tmp_path, preset="recommended", task=task) >= least
