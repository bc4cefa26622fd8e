"""Helpers of the benchmarks: interleaved timing, rendered projects and table rows."""

import importlib.util
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
RENDERED = ROOT / "build" / "projects" / "benchmarks"
"""Where `make gpu.tar.gz` has rendered projects for a machine that has no Copier."""


class Row(NamedTuple):
    """One line of the table."""

    name: str
    ours: str = ""
    reference: str = ""
    ratio: str = ""
    cpu_ratio: str = ""
    """The same of processor time, which other processes on the machine move less."""
    bound: str = ""
    holds: bool = True


class Seconds(NamedTuple):
    """How long a call took."""

    wall: float
    cpu: float


class Times(NamedTuple):
    """Medians over the repetitions, of a call's seconds beside the reference's."""

    ours: float
    reference: float
    ratio: float
    cpu_ratio: float
    difference: float
    cpu_difference: float


def cpu_time() -> float:
    """Returns the processor seconds of this process and of those it has waited for."""
    usages = [
        resource.getrusage(who)
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    ]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def interleave(
    groups: Iterable[Sequence[Callable[[], Any]]], repetitions: int
) -> list[Times]:
    """Times calls and their reference in turn, so that a busy machine slows all.

    Ratios are of neighbours, so that a slow minute does not move their median.

    Args:
        groups: the calls, the reference last, more than once if chance sets how fast
            each is, as the place of its tensors in memory does.
        repetitions: how often each group is called.

    Returns:
        The times of each call but the reference.
    """
    rounds: list[list[Seconds]] = []
    for calls in groups:
        for repetition in range(repetitions):
            # Each goes first in its share of the repetitions.
            first = repetition % len(calls)
            order = [*range(first, len(calls)), *range(first)]
            timed = {which: time_call(calls[which]) for which in order}
            rounds.append([timed[which] for which in range(len(calls))])
    *contestants, reference = zip(*rounds)
    return [summarise(ours, reference) for ours in contestants]


def summarise(ours: Sequence[Seconds], reference: Sequence[Seconds]) -> Times:
    """Compares the repetitions of a call with those of the reference beside them."""
    pairs = list(zip(ours, reference, strict=True))
    return Times(
        ours=statistics.median(a.wall for a in ours),
        reference=statistics.median(b.wall for b in reference),
        ratio=statistics.median(a.wall / b.wall for a, b in pairs),
        cpu_ratio=statistics.median(a.cpu / b.cpu for a, b in pairs),
        difference=statistics.median(a.wall - b.wall for a, b in pairs),
        cpu_difference=statistics.median(a.cpu - b.cpu for a, b in pairs),
    )


def time_call(call: Callable[[], Any]) -> Seconds:
    """Returns how long a call takes."""
    wall_start, cpu_start = time.perf_counter(), cpu_time()
    call()
    return Seconds(time.perf_counter() - wall_start, cpu_time() - cpu_start)


def copy_command(template: str, destination: Path, *options: str) -> list[str]:
    """Returns the command that renders a template without asking anything."""
    copier = Path(sys.executable).with_name("copier")
    return [
        str(copier),
        "copy",
        "-q",
        "--defaults",
        *options,
        template,
        str(destination),
    ]


def render(directory: Path, package: str, preset: str, **tricks: Any) -> Path:
    """Renders a preset, or with `custom` some tricks, with the real command.

    Without Copier it returns where that was done before.
    """
    if importlib.util.find_spec("copier") is None:
        return RENDERED / package
    answers = {"project_name": "Bench", "package_name": package, "preset": preset}
    answers |= tricks
    options = [f"--data={name}={value}" for name, value in answers.items()]
    destination = directory / package
    # The working tree, even if there are released versions.
    command = copy_command(str(ROOT), destination, "--vcs-ref=HEAD", *options)
    subprocess.run(command, check=True, capture_output=True)
    return destination


def import_train(project: Path) -> ModuleType:
    """Imports train.py of a rendered project, whose package has the project's name."""
    sys.path.insert(0, str(project))
    spec = importlib.util.spec_from_file_location(
        f"{project.name}_train", project / "train.py"
    )
    train = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(train)
    return train
