"""Several processes on gloo: speed of two against one, what travels, and memory.

This file is also the rank that is measured: it reads commands from standard input, does
the same as the other ranks, and answers each command with a line.
"""

import importlib
import json
import math
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from loop import make_run
from measure import Row, import_train, interleave, render
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

KINDS = ("ddp", "fsdp")
STEPS = 4
"""Optimizer steps of an epoch that is timed, on batches of 128 images for all ranks."""
REPETITIONS = 10
WINDOW = 4
"""Micro-batches of a window in which what travels is counted."""
LARGE = {"model": "vit_b_16", "batch_size": 4}
"""86 million weights, and of each image only four patches: the weights dominate."""
MEMORY_BOUND = 0.75


def measure_scaling() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="bench-scaling-") as directory:
        projects = {
            kind: render(
                Path(directory),
                f"{kind}_project",
                "custom",
                parallel=kind,
                tricks="[accumulation]",
            )
            for kind in KINDS
        }
        for kind, project in projects.items():
            yield compare_speed(kind, project)
        for kind, project in projects.items():
            yield count_reductions(kind, project)
        yield compare_memory(projects)


def compare_speed(kind: str, project: Path) -> Row:
    """Times two ranks and one on the same global batches.

    Ideally the ratio is 0.5, and that of the processor time of all ranks 1.
    """
    cpu: dict[int, list[float]] = {1: [], 2: []}

    def train(ranks: list[subprocess.Popen[str]]) -> None:
        cpu[len(ranks)].append(sum(ask(ranks, "train")))

    with world(project, 2) as two, world(project, 1) as one:
        for ranks in (two, one):
            ask(ranks, "start", batch_size=128, steps=STEPS)
            ask(ranks, "train")
        calls = (partial(train, two), partial(train, one))
        (times,) = interleave([calls], REPETITIONS)
    cpu_ratio = statistics.median(a / b for a, b in zip(cpu[2], cpu[1], strict=True))
    return Row(
        f"{kind}, step on 2 ranks / 1, efficiency {1 / (2 * times.ratio):.0%}",
        f"{times.ours / STEPS * 1e3:.1f} ms",
        f"{times.reference / STEPS * 1e3:.1f} ms",
        f"{times.ratio:.2f}",
        f"{cpu_ratio:.2f}",
    )


def count_reductions(kind: str, project: Path) -> Row:
    """Counts what gradients travel in a window, and with a reduction for each part."""
    counts = []
    for command in ("count", "count unsynchronised"):
        with world(project, 2) as ranks:
            options = {"accumulation_steps": WINDOW, "steps": 2 * WINDOW}
            ask(ranks, "start", batch_size=8, **options)
            counts.append(ask(ranks, command)[0])
    ours, reference = (
        (count["calls"] / count["steps"], count["bytes"] / count["steps"])
        for count in counts
    )
    return Row(
        f"{kind}, reductions in a window of {WINDOW} / one each",
        f"{ours[0]:g}, {ours[1] / 1e3:.0f} kB",
        f"{reference[0]:g}, {reference[1] / 1e3:.0f} kB",
        f"{ours[1] / reference[1]:.2f}",
        bound="1",
        holds=ours[0] == 1,
    )


def compare_memory(projects: dict[str, Path]) -> Row:
    """Compares the most memory that a rank takes for a model and its training."""
    peaks = []
    # What is freed is given back at once, so that memory is that of tensors.
    at_once = {"MALLOC_MMAP_THRESHOLD_": 2**20}
    for kind in ("fsdp", "ddp"):
        with world(projects[kind], 2, **at_once) as ranks:
            before = ask(ranks, "peak")
            ask(ranks, "start", steps=3, **LARGE)
            ask(ranks, "train")
            after = ask(ranks, "peak")
            peaks.append(max(b - a for a, b in zip(before, after, strict=True)))
    ratio = peaks[0] / peaks[1]
    return Row(
        f"peak memory of a rank, {LARGE['model']}, fsdp / ddp",
        f"{peaks[0] / 1e9:.2f} GB",
        f"{peaks[1] / 1e9:.2f} GB",
        f"{ratio:.2f}",
        bound=f"<= {MEMORY_BOUND}",
        holds=ratio <= MEMORY_BOUND,
    )


@contextmanager
def world(
    project: Path, size: int, **others: int
) -> Iterator[list[subprocess.Popen[str]]]:
    """Starts ranks that wait for commands, with the variables that torchrun sets."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = others | {
        "KINETO_LOG_LEVEL": 9,  # The profiler would report each of its starts.
        "LOCAL_WORLD_SIZE": size,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "OMP_NUM_THREADS": 1,
        "TORCHELASTIC_RUN_ID": "bench",
        "TORCHELASTIC_USE_AGENT_STORE": False,
        "WORLD_SIZE": size,
    }
    with ExitStack() as stack:
        ranks = []
        for rank in range(size):
            variables = common | {"RANK": rank, "LOCAL_RANK": rank}
            process = subprocess.Popen(
                [sys.executable, __file__, str(project)],
                encoding="utf-8",
                env=os.environ | {k: str(v) for k, v in variables.items()},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            ranks.append(stack.enter_context(process))
            stack.callback(process.stdin.close)
        yield ranks


def ask(ranks: list[subprocess.Popen[str]], command: str, **options: Any) -> list[Any]:
    """Lets all ranks do something, and returns their answers when they have done it."""
    for rank in ranks:
        print(json.dumps([command, options]), file=rank.stdin, flush=True)
    return [json.loads(rank.stdout.readline()) for rank in ranks]


def serve(project: Path) -> None:
    """Is one rank: does what each line of standard input says."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # What the project prints is no answer.
    torch.set_num_threads(1)
    train = import_train(project)
    distributed = importlib.import_module(f"{project.name}.processes.distributed")
    run: Any = None
    with (
        tempfile.TemporaryDirectory(prefix="bench-run-") as directory,
        distributed.process_group("cpu", timeout=60),
    ):
        for line in sys.stdin:
            command, options = json.loads(line)
            answer = None
            if command == "start":
                run = make_run(train, Path(directory), image_size=32, **options)
            elif command == "train":
                before = time.process_time()
                train.train_epoch(run)
                answer = time.process_time() - before
            elif command == "peak":
                # In kilobytes, on Linux.
                answer = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            else:
                answer = count_in_epoch(train, run, command == "count")
            print(json.dumps(answer), file=answers, flush=True)


def count_in_epoch(train: ModuleType, run: Any, synchronised: bool) -> dict[str, int]:
    """Counts the reductions of gradients, with their bytes.

    Args:
        synchronised: whether only the last micro-batch of a window lets them travel.
    """
    travelled: list[int] = []
    with ExitStack() as stack:
        if not synchronised:
            always = mock.patch.object(train, "gradient_sync", always_synchronise)
            stack.enter_context(always)
        if isinstance(run.train_model, DistributedDataParallel):

            def hook(
                group: None, bucket: dist.GradBucket
            ) -> torch.futures.Future[torch.Tensor]:
                travelled.append(bucket.buffer().nbytes)
                return allreduce_hook(group, bucket)

            run.train_model.register_comm_hook(None, hook)
            train.train_epoch(run)
        else:
            with torch.profiler.profile(record_shapes=True) as profile:
                train.train_epoch(run)
            travelled += [
                max(map(math.prod, event.input_shapes)) * torch.float32.itemsize
                for event in profile.events()
                if event.name.startswith("c10d::") and "reduce_scatter" in event.name
            ]
    return {
        "calls": len(travelled),
        "bytes": sum(travelled),
        "steps": run.progress.step,
    }


def always_synchronise(*_: Any, **__: Any) -> AbstractContextManager[None]:
    return nullcontext()


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
