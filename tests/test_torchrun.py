"""Runs of several processes that are killed, hang, fail, are stopped, and go on."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import ranks
import torch
import training
from rendering import render
from torch.distributed import run as torchrun

KINDS = ("ddp", "fsdp")
ANSWERS = {
    **{"preset": "custom", "seeding": True, "accumulation": True, "amp": True},
    **{"swa": True, "mixup": True, "prefetcher": False, "hdf5": False, "resume": True},
}
FLAGS = (
    *("--data", "folder", "--device", "cpu", "--image-size", training.IMAGE_SIZE),
    *("--num-workers", 0, "--batch-size", 4, "--accumulation-steps", 2),
    *("--epochs", 4, "--swa-start", 0.5, "--checkpoint-every", 5, "--log-every", 1),
    *("--keep-checkpoints", 99, "--resume", "auto"),
)
"""12 steps, with checkpoints after 3, 5, 6, 9, 10 and 12 of them."""

WITHOUT_CHANCE = ("--mixup-alpha", 0, "--cutmix-alpha", 0)


@pytest.fixture(scope="session")
def projects(tmp_path_factory):
    """A project for each way to use several GPUs."""
    directory = tmp_path_factory.mktemp("torchrun")
    return {
        kind: render(directory / kind, ANSWERS | {"parallel": kind})
        for kind in ("none", "dp", *KINDS)
    }


@pytest.fixture
def launch(zygote, projects, folder):
    """Runs ranks under torchrun, with an agent and ranks that are forks of the zygote."""

    def launch(kind, directory, *flags, events="none", processes=2, options=()):
        return zygote.run(
            *(projects[kind], torchrun.__file__, "--standalone"),
            *("--run-path", "--start-method", "fork", "--shutdown-timeout", 1),
            *("--nproc-per-node", processes, *options, ranks.SCRIPT, events),
            *(*FLAGS, "--data-dir", folder, "--run-dir", directory, *flags),
        )

    return launch


@pytest.fixture(scope="session")
def unbroken_runs():
    return {}


@pytest.fixture
def unbroken(launch, unbroken_runs, tmp_path_factory):
    """Returns the directory of a run of two ranks that nothing happened to."""

    def unbroken(kind):
        if kind not in unbroken_runs:
            directory = tmp_path_factory.mktemp("unbroken") / kind
            result = launch(kind, directory)
            assert (result.returncode, result.stderr) == (0, "")
            unbroken_runs[kind] = directory
        return unbroken_runs[kind]

    return unbroken


@pytest.mark.parametrize("kind", KINDS)
def test_killed_ranks_start_again(kind, launch, unbroken, tmp_path):
    events = "kill:1:5,kill-saving:0:6"
    run = tmp_path / "run"
    result = launch(kind, run, events=events, options=("--max-restarts", 3))
    assert result.returncode == 0, result.stderr
    resumed = re.findall(r"resuming from .*, step (\d+)\n", result.stdout)
    assert resumed == ["3", "5"]
    training.check_same_run(unbroken(kind), run)


