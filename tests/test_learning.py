"""Rendered projects learn. These runs take a minute or more each, and are done once."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
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


def last_accuracy(tmp_path, preset, *flags):
    """Trains a project in a fresh process and returns its last validation accuracy."""
    project = tmp_path / "project"
    render(project, {"project_name": "Learner", "preset": preset})
    subprocess.run(
        [sys.executable, "train.py", "--device", "cpu", "--run-dir", "run", *flags],
        check=True,
        cwd=project,
    )
    lines = (project / "run" / "metrics.jsonl").read_text().splitlines()
    return json.loads(lines[-1])["val_accuracy"]


@pytest.mark.learns
@pytest.mark.parametrize(("preset", "epochs"), [("everything", 5), ("recommended", 2)])
def test_mnist_is_learned(tmp_path, mnist, preset, epochs):
    flags = ["--data", "mnist", "--data-dir", str(mnist), "--epochs", str(epochs)]
    assert last_accuracy(tmp_path, preset, *flags) >= 0.99


@pytest.mark.learns
def test_the_built_in_shapes_are_learned(tmp_path):
    assert last_accuracy(tmp_path, "recommended") >= 0.95
