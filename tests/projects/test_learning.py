"""Rendered projects learn. These runs take a minute or more each, and are done once."""

import gzip
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import training
from PIL import Image
from processes import call
from rendering import render, render_subset
from subsets import Subset

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
        pytest.param("multilabel", "map", 0.97, marks=pytest.mark.share),
        pytest.param("segmentation", "mean_iou", 0.85, marks=pytest.mark.share),
        pytest.param("detection", "map", 0.7, marks=pytest.mark.share),
    ],
)
def test_the_built_in_shapes_are_learned(tmp_path, task, metric, least):
    assert last_of(metric, tmp_path, preset="recommended", task=task) >= least


@pytest.mark.proof
def test_classes_that_differ_are_told_apart_however_rare_one_is(tmp_path, zygote):
    """At the defaults of both tricks, which torch's own form of the loss would not."""
    tricks = ("seeding", "class_balance", "label_smoothing")
    project = render_subset(tmp_path / "project", Subset.of("folders", *tricks))
    rng = np.random.default_rng(0)
    for name, bright, train in (("dark", 64, 400), ("light", 192, 10)):
        for split, images in (("train", train), ("val", 50)):
            directory = tmp_path / "data" / split / name
            directory.mkdir(parents=True)
            for index in range(images):
                pixels = rng.integers(bright - 50, bright + 50, (8, 8, 3))
                path = directory / f"{index}.png"
                Image.fromarray(pixels.astype(np.uint8)).save(path)
    flags = ("--data", "folder", "--data-dir", tmp_path / "data", "--epochs", 5)
    flags += ("--batch-size", 32, "--image-size", 8, "--num-workers", 0)
    training.train(zygote.run, project, "--run-dir", tmp_path / "run", *flags)
    assert training.read_metrics(tmp_path / "run")[-1]["val_accuracy"] == 1
