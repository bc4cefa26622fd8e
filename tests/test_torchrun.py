"""Runs of several processes that are killed, hang, fail, are stopped, and go on."""

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
import ranks
import torch
import training
from machines import free_port, is_free, two_machines
from rendering import render

KINDS = ("ddp", "fsdp")
ANSWERS = {
    "preset": "custom",
    **dict.fromkeys(["seeding", "accumulation", "amp", "swa", "mixup", "resume"], True),
    **dict.fromkeys(["hdf5", "prefetcher"], False),
}
FLAGS = (
    *("--data", "folder", "--device", "cpu", "--image-size", training.IMAGE_SIZE),
    *("--num-workers", 0, "--batch-size", 4, "--accumulation-steps", 2),
    *("--epochs", 4, "--swa-start", 0.5, "--checkpoint-every", 5, "--log-every", 1),
    *("--keep-checkpoints", 99, "--resume", "auto"),
)
"""12 steps, with checkpoints after 3, 5, 6, 9, 10 and 12 of them."""

SOON_DEAD = "keep_alive_interval=1,keep_alive_max_attempt=5"
"""A rendezvous gives a silent agent up after 5 seconds, not after 15."""

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
    """Runs two ranks of a project, or more."""

    def launch(kind, directory, *flags, **options):
        flags = (*FLAGS, "--data-dir", folder, "--run-dir", directory, *flags)
        return training.run_ranks(zygote.run, projects[kind], *flags, **options)

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


@pytest.mark.parametrize("kind", KINDS)
def test_a_rank_that_hangs_is_named(kind, launch, tmp_path):
    result = launch(kind, tmp_path / "run", "--timeout", 5, events="hang:1:4")
    assert result.returncode == 1
    (line,) = errors(result.stderr)
    assert line.startswith("error: no answer from rank 1: it has died, or hangs")


def test_an_unreadable_image_is_named_with_the_rank(launch, folder, tmp_path):
    """The image is the second of the first batch: it is read by rank 1 alone."""
    copy = tmp_path / "folder"
    shutil.copytree(folder, copy)
    paths = sorted((copy / "train").glob("*/*"))
    seed = int(np.random.SeedSequence((0, 0)).generate_state(1)[0])
    generator = torch.Generator().manual_seed(seed)
    image = paths[torch.randperm(len(paths), generator=generator)[1]]
    image.write_bytes(b"")
    result = launch("ddp", tmp_path / "run", "--data-dir", copy)
    assert result.returncode == 1
    assert errors(result.stderr) == [
        f"error: rank 1: {image} is no readable image: mend or remove it"
    ]
    assert not (tmp_path / "run" / "model.pt").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_a_refusal_of_all_ranks_is_one_line(kind, launch, tmp_path):
    result = launch(kind, tmp_path / "run", "--batch-size", 1)
    assert result.returncode == 1
    assert errors(result.stderr) == [
        "error: --batch-size 1 is not an image for each of 2 processes: pass 2 or more"
    ]
    assert not (tmp_path / "run").exists()


def test_a_mistake_in_the_code_is_shown_with_the_rank(launch, tmp_path):
    result = launch("fsdp", tmp_path / "run", events="fail:1:4")
    assert result.returncode == 1
    assert errors(result.stderr) == []
    assert "ZeroDivisionError: a mistake\n" in result.stderr
    assert "This was rank 1 of 2.\n" in result.stderr


def errors(text):
    return [line for line in text.splitlines() if line.startswith("error: ")]


@pytest.mark.parametrize(
    ("kind", "event", "name"),
    [("ddp", "terminate", "SIGTERM"), ("fsdp", "interrupt", "SIGINT")],
)
def test_a_signal_to_torchrun_stops_all_ranks(
    kind, event, name, launch, unbroken, tmp_path
):
    run = tmp_path / "run"
    stopped = launch(kind, run, events=f"{event}:1:7")
    assert stopped.returncode != 0
    (step,) = re.findall(
        rf"stopped by {name} after step (\d+): to go on", stopped.stderr
    )
    assert errors(stopped.stderr) == []
    (newest,) = [
        path for path in (run / "checkpoints").iterdir() if f"{step:0>8}" in path.name
    ]
    assert newest == max((run / "checkpoints").iterdir())
    resumed = launch(kind, run)
    assert (resumed.returncode, resumed.stderr) == (0, "")
    assert f"resuming from {newest}, step {step}\n" in resumed.stdout
    training.check_same_run(unbroken(kind), run)


def test_a_machine_dies_and_comes_back(projects, folder, unbroken, tmp_path):
    """The other one keeps the rendezvous, which would die with its own machine."""
    run = tmp_path / "run"
    with two_machines() as machines, ExitStack() as stack:
        endpoint = f"{machines[0].address}:{free_port()}"

        def start(number, events):
            machine = machines[number]
            command = machine.command(
                *(sys.executable, "-m", "torch.distributed.run", "--nnodes", 2),
                *("--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint),
                *("--rdzv-id", "test", "--local-addr", machine.address),
                *("--rdzv-conf", f"is_host={number == 0},{SOON_DEAD}"),
                *("--max-restarts", 3, ranks.SCRIPT, events),
                *(*FLAGS, "--data-dir", folder, "--run-dir", run),
            )
            own = {
                "OMP_NUM_THREADS": "1",
                "GLOO_SOCKET_IFNAME": machine.interface,
                "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
            }
            agent = subprocess.Popen(
                command,
                cwd=projects["ddp"],
                env=os.environ | own,
                stdout=stack.enter_context((tmp_path / f"{number}-{events}").open("w")),
                stderr=subprocess.STDOUT,
            )
            # Its ranks die with it.
            stack.callback(agent.wait)
            stack.callback(agent.kill)
            return agent

        staying, dying = start(0, "none"), start(1, "kill-machine::5")
        assert dying.wait(120) == -signal.SIGKILL
        returned = start(1, "none")
        assert (returned.wait(120), staying.wait(120)) == (0, 0)
    training.check_same_run(unbroken("ddp"), run)
    if machines[0].namespace is None:
        pytest.skip("on loopback only: network namespaces cannot be made here")


SLURM = {
    "scontrol": "printf 'localhost\\nanother\\n'",
    "srun": """
        test "$1 $2" = "--cpus-per-task $SLURM_CPUS_PER_TASK"
        "${@:3}" & first=$!
        "${@:3}" & wait $!
        wait $first
    """,
}
"""What slurm.sh calls, for two machines that both are this one."""


def test_slurm_script_starts_a_process_for_each_gpu(
    projects, folder, unbroken, tmp_path
):
    for name, script in SLURM.items():
        (tmp_path / name).write_text(f"#!/bin/bash\nset -e\n{script}")
        (tmp_path / name).chmod(0o755)
    job = next(job for job in range(7000, 8000) if is_free(29500 + job % 1000))
    project = shutil.copytree(projects["ddp"], tmp_path / "project")
    result = subprocess.run(
        ["bash", "slurm.sh", *map(str, FLAGS), "--data-dir", folder],
        capture_output=True,
        check=False,
        cwd=project,
        encoding="utf-8",
        env=os.environ
        | {
            "OMP_NUM_THREADS": "1",
            "PATH": f"{tmp_path}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "SLURM_CPUS_PER_TASK": "1",
            "SLURM_GPUS_ON_NODE": "1",
            "SLURM_JOB_ID": str(job),
            "SLURM_JOB_NODELIST": "localhost,another",
            "SLURM_JOB_NUM_NODES": "2",
        },
    )
    assert result.returncode == 0, result.stderr
    training.check_same_run(unbroken("ddp"), project / "runs" / str(job))


def test_sharded_checkpoints_continue_on_more_ranks(launch, tmp_path):
    """From 2 ranks to 4; what the project tests itself goes between 1 and 2."""
    whole, moved = tmp_path / "whole", tmp_path / "moved"
    flags = (*WITHOUT_CHANCE, "--batch-size", 8, "--checkpoint-every", 3)

    def train(run, processes, *more):
        result = launch(
            *("fsdp", run, *flags, *more), events="comparable", processes=processes
        )
        assert (result.returncode, result.stderr) == (0, "")

    train(whole, 2)
    train(moved, 2, "--max-steps", 3)
    train(moved, 4)
    training.check_close_runs(whole, moved)


def test_checkpoints_move_between_projects(launch, zygote, projects, folder, tmp_path):
    """Of none, ddp and dp; batches of all images but one batch, for dp drops that."""
    whole, moved = tmp_path / "whole", tmp_path / "moved"
    flags = (*WITHOUT_CHANCE, "--batch-size", 11, "--accumulation-steps", 1)

    def alone(kind, run, *part):
        settings = (*FLAGS, *flags, "--data-dir", folder, "--run-dir", run)
        return zygote.run(projects[kind], ranks.SCRIPT, "comparable", *settings, *part)

    results = [
        launch("ddp", whole, *flags, events="comparable"),
        alone("none", moved, "--max-steps", 1),
        launch("ddp", moved, *flags, "--max-steps", 3, events="comparable"),
        alone("dp", moved, "--max-steps", 5),
        launch("ddp", moved, *flags, events="comparable"),
    ]
    for result in results:
        assert (result.returncode, result.stderr) == (0, "")
    training.check_close_runs(whole, moved)


def test_weights_of_ranks_serve_without_them(unbroken, zygote, projects, folder):
    """Sharded and replicated training end close, and any project reads the weights."""
    images = sorted((folder / "val").glob("*/*.png"))
    said = []
    for kind in KINDS:
        for reader in ("none", kind):
            weights = unbroken(kind) / "model.pt"
            command = ("predict.py", *images, "--weights", weights, "--device", "cpu")
            result = zygote.run(projects[reader], *command)
            assert (result.returncode, result.stderr) == (0, "")
            said.append(re.sub(r"(\d+)\.\d%", r"\1", result.stdout))
    assert len(set(said)) == 1
    ddp, fsdp = (torch.load(unbroken(kind) / "model.pt") for kind in KINDS)
    torch.testing.assert_close(ddp, fsdp, rtol=1e-3, atol=1e-4)
