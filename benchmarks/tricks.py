"""A step of a project with one trick, beside a step of the plain project: time and memory.

On a CUDA device if there is one. No bound holds for these: what a trick gains depends on
the device, the network and the size of its images. As a command it renders the projects,
for a machine that has no Copier:

    python benchmarks/tricks.py --render DIRECTORY
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from loop import make_run, train_epoch
from measure import Row, import_train, interleave, render
from torch.profiler import ProfilerActivity, profile

TRICKS: dict[str, dict[str, Any]] = {
    "activation_checkpointing": {},
    "amp": {},
    "channels_last": {},
    "compile": {"compile_mode": "default"},
    "ema": {},
    "fused_optimizer": {},
    "grad_clipping": {},
}
"""Those that change what a step does, with the settings that turn them on. Of autotuned
convolutions the choice is kept for the whole process: there is no other side to compare."""

CUDA = torch.cuda.is_available()
SIZE: dict[str, Any] = {"model": "resnet18", "device": "cpu"} | (
    {"image_size": 224, "batch_size": 128, "device": "cuda"}
    if CUDA
    else {"image_size": 64, "batch_size": 32}
)
STEPS = 20 if CUDA else 2
REPETITIONS = 10


def measure_tricks() -> Iterator[Row]:
    """Compares each trick with the plain project, from the same weights."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="bench-tricks-") as directory:
        plain, *others = map(import_train, render_all(Path(directory)))
        for (trick, flags), train in zip(TRICKS.items(), others, strict=True):
            yield from compare(trick, train, flags, plain)


def render_all(directory: Path) -> Iterator[Path]:
    """Renders the plain project, and one with each trick."""
    yield render(directory, "plain_project", "minimal")
    for trick in TRICKS:
        yield render(directory, f"with_{trick}", "custom", tricks=f"[{trick}]")


def compare(
    trick: str, train: ModuleType, flags: dict[str, Any], plain: ModuleType
) -> Iterator[Row]:
    """Times a step of both in turn, and measures the memory of each alone."""
    with tempfile.TemporaryDirectory(prefix="bench-run-") as directory:
        runs = [
            make_run(train, Path(directory, "ours"), STEPS, **SIZE, **flags),
            make_run(plain, Path(directory, "plain"), STEPS, **SIZE),
        ]
        if getattr(runs[0], "amp_dtype", torch.bfloat16) is None:
            yield Row(f"{trick}: left out, {SIZE['device']} has no bfloat16")
            return
        calls = [
            partial(train_epoch, module, run)
            for module, run in zip((train, plain), runs, strict=True)
        ]
        first = [seconds(call) for call in calls]
        memory = [peak_memory(call) for call in calls]
        (times,) = interleave([calls], REPETITIONS)
    name = f"{SIZE['model']}, {trick} / without"
    yield Row(
        f"first {STEPS} steps, which compile, {name}",
        *(f"{taken:.1f} s" for taken in first),
        f"{first[0] / first[1]:.3f}",
    )
    yield Row(
        f"step, {name}",
        f"{times.ours / STEPS * 1e3:.1f} ms",
        f"{times.reference / STEPS * 1e3:.1f} ms",
        f"{times.ratio:.3f}",
        f"{times.cpu_ratio:.3f}",
    )
    yield Row(
        f"memory, {name}",
        *(f"{size / 2**20:.0f} MiB" for size in memory),
        f"{memory[0] / memory[1]:.3f}",
    )


def seconds(call: Callable[[], Any]) -> float:
    """Returns how long a call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def peak_memory(call: Callable[[], Any]) -> int:
    """Returns the bytes that tensors take at the peak of a call, beyond those before.

    It is called once before, so that what it keeps is there: state of the optimizer, and
    what is imported or compiled only when it is needed.
    """
    call()
    if CUDA:
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call()
        return torch.cuda.max_memory_allocated() - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        call()
    events = profiler.profiler.kineto_results.events()
    changes = [event for event in events if event.name() == "[memory]"]
    changes.sort(key=lambda event: event.start_ns())
    return max(accumulate(event.nbytes() for event in changes))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--render", type=Path, required=True, metavar="DIRECTORY")
    print(*render_all(parser.parse_args().render), sep="\n")
