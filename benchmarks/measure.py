"""What the benchmarks share: interleaved timing, rendered projects and table rows."""

import contextlib
import importlib.util
import io
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent


class Row(NamedTuple):
    """One line of the table."""

    name: str
    ours: str
    reference: str
    ratio: str = ""
    cpu_ratio: str = ""
    """The same of processor time, which other processes on the machine move less."""
    bound: str = ""
    holds: bool = True


class Times(NamedTuple):
    """Medians over the repetitions, in seconds, and of the ratios of their pairs."""

    ours: float
    reference: float
    ratio: float
    cpu_ratio: float


def cpu_time() -> float:
    """Returns the processor seconds of this process and of those it has waited for."""
    usages = [
        resource.getrusage(who)
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    ]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def interleave(
    pairs: Iterable[tuple[Callable[[], Any], Callable[[], Any]]], repetitions: int
) -> Times:
    """Times our call and the reference in turn, so that a busy machine slows both.

    The ratio is the median over neighbours, which a slow minute does not move.

    Args:
        pairs: both calls, more than once if chance sets how fast each is, as the place
            of its tensors in memory does.
        repetitions: how often each pair is called.
    """
    wall: list[tuple[float, float]] = []
    cpu: list[tuple[float, float]] = []
    for pair in pairs:
        for repetition in range(repetitions):
            # Each goes first in half of the repetitions.
            order = (0, 1) if repetition % 2 else (1, 0)
            timed = {which: time_call(pair[which]) for which in order}
            wall.append((timed[0][0], timed[1][0]))
            cpu.append((timed[0][1], timed[1][1]))
    medians = (statistics.median(seconds) for seconds in zip(*wall))
    ratios = (statistics.median(a / b for a, b in seconds) for seconds in (wall, cpu))
    return Times(*medians, *ratios)


def time_call(call: Callable[[], Any]) -> tuple[float, float]:
    """Returns the seconds that a call takes, and those of the processor."""
    wall_start, cpu_start = time.perf_counter(), cpu_time()
    call()
    return time.perf_counter() - wall_start, cpu_time() - cpu_start


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
    """Renders a preset, or with `custom` some tricks, with the real command."""
    answers = {"project_name": "Bench", "package_name": package, "preset": preset}
    answers |= tricks
    options = [f"--data={name}={value}" for name, value in answers.items()]
    destination = directory / package
    subprocess.run(
        copy_command(str(ROOT), destination, *options), check=True, capture_output=True
    )
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


class StartedError(Exception):
    """Carries a run out of train.py's main."""


def start_run(train: ModuleType, settings: Any, replaced: Mapping[str, Any]) -> Any:
    """Returns the run that main builds, before its first step."""

    def leave_main(run: Any) -> None:
        raise StartedError(run)

    replaced = {**replaced, "train_epoch": leave_main}
    try:
        with (
            mock.patch.multiple(train, **replaced),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            train.main(settings)
    except StartedError as started:
        return started.args[0]
    raise AssertionError("main trained without train_epoch")
