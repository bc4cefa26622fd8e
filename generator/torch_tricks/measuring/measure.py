"""Measures tricks in a project, by pairs of runs with and without them."""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch_tricks.errors import Refusal
from torch_tricks.measuring.training import Measurement, find_python, train_all
from torch_tricks.measuring.variants import PLAIN, directions_of, write_variants
from torch_tricks.project import Project

if TYPE_CHECKING:
    from torch_tricks.measuring.comparing import Difference

SMALLEST_SHARE = 0.01
"""Smallest relevant difference of times and memory, as a fraction."""
RECORDED = "measurement.json"
"""File with the commit, tricks and flags of the results."""
OWN_FLAGS = ("--run-dir", "--seed", "--resume")
"""Flags that the measurement sets for each run."""

Differences = Mapping[str, Mapping[str, "Difference"]]
"""Differences of the metrics of each variant."""


@dataclass(frozen=True)
class Request:
    """Options of the command line for a measurement."""

    directory: Path
    """Folder of the project, or a folder in it."""
    tricks: Sequence[str]
    """Tricks to measure: a trick of the project is left out, others are added."""
    flags: Sequence[str]
    """Flags of train.py."""
    repeats: int
    """Pairs of runs, with a seed per pair."""
    launch: str
    """Command that starts train.py. Empty: the Python of the project."""
    results: Path | None
    """Folder of the results. None: a folder in the project's `runs`."""


def measure(request: Request, resume: bool, as_json: bool) -> None:
    """Trains a project as it is and with other tricks, and prints the differences.

    Args:
        request: the measurement.
        resume: whether to continue a stopped measurement.
        as_json: whether to print JSON.

    Raises:
        Refusal: the project cannot be changed, or a run fails.
    """
    check_has_scipy()
    for flag in request.flags:
        if flag.partition("=")[0] in OWN_FLAGS:
            raise Refusal(f"{flag} is given to each run: leave it out")
    project = Project.at(request.directory)
    project.check_unchanged()
    recorded = {
        "commit": project.git("rev-parse", "HEAD"),
        "tricks": list(request.tricks),
        "launch": shlex.split(request.launch) or [find_python(project)],
        "flags": list(request.flags),
    }
    task = prepare(project, request, recorded, resume)
    if not task.seeded:
        print(
            "without seeding in all of them only times and memory are compared",
            file=sys.stderr,
        )
    print(
        f"results: {task.directory}; after a stop, add --resume to continue",
        file=sys.stderr,
    )
    train_all(task)
    found = differences(task)
    if as_json:
        print_json(task, recorded, found)
    else:
        print_lines(task, found)


def check_has_scipy() -> None:
    """Refuses an environment without SciPy."""
    try:
        import torch_tricks.measuring.comparing  # noqa: F401
    except ImportError as error:
        raise Refusal(
            'measure needs SciPy: pip install "torch-tricks[measure]"'
        ) from error


def prepare(
    project: Project, request: Request, recorded: Mapping[str, Any], resume: bool
) -> Measurement:
    """Writes the copies of the project, and the record of the measurement."""
    default = project.directory / "runs" / f"measure-{'-'.join(request.tricks)}"
    place = Path(os.path.abspath(request.results or default))
    check_free(place, recorded, resume)
    fresh = not place.exists()
    place.mkdir(parents=True, exist_ok=True)
    # First, so that a killed measurement is recognized.
    (place / RECORDED).write_text(json.dumps(recorded, indent=2) + "\n")
    try:
        copies = place / "copies"
        variants = write_variants(project, copies, request.tricks)
    except Refusal:
        if fresh:
            shutil.rmtree(place, ignore_errors=True)
        raise
    launch, flags = recorded["launch"], recorded["flags"]
    return Measurement(place, project, variants, launch, flags, request.repeats)


def check_free(place: Path, recorded: Mapping[str, Any], resume: bool) -> None:
    """Refuses a directory with files, except for resuming the same measurement."""
    path = place / RECORDED
    if not path.exists():
        if place.exists() and any(place.iterdir()):
            raise Refusal(f"{place} is not empty: pass another --results")
        return
    if not any(place.glob("runs/*.json")):
        shutil.rmtree(place)  # No run has ended.
        return
    if not resume:
        raise Refusal(f"{place} has results: pass --resume, or another --results")
    if json.loads(path.read_text()) != recorded:
        raise Refusal(
            f"{place} is of another commit, or has other tricks, flags or another --launch: "
            "pass another --results"
        )


def differences(task: Measurement) -> Differences:
    """Compares the metrics of each variant with the project as it is."""
    from torch_tricks.measuring.comparing import compare

    before = task.numbers(task.variants[0])
    found = {}
    for variant in task.variants[1:]:
        after = task.numbers(variant)
        names = [name for name in before[0] if all(name in run for run in after)]
        found[variant.name] = {
            name: compare([run[name] for run in before], [run[name] for run in after])
            for name in names
            if task.seeded or not name.startswith("val_")
        }
    return found


def verdict_of(task: Measurement, name: str, found: "Difference") -> str:
    """Returns the verdict on the difference of a metric."""
    from torch_tricks.measuring.comparing import verdict

    least = 0 if name.startswith("val_") else SMALLEST_SHARE * found.before
    better = directions_of(task.variants[0]).get(name, "")
    return verdict(found, better, least)


def print_json(
    task: Measurement, recorded: Mapping[str, Any], found: Differences
) -> None:
    """Prints differences as JSON."""
    values = {
        variant: {
            name: one.as_dict() | {"verdict": verdict_of(task, name, one)}
            for name, one in differences.items()
        }
        for variant, differences in found.items()
    }
    print(json.dumps({"repeats": task.repeats, **recorded, "differences": values}))


def print_lines(task: Measurement, found: Differences) -> None:
    """Prints a line for each difference."""
    for variant, differences in found.items():
        print(f"\n{variant}, against {PLAIN}, {task.repeats} pairs of runs:")
        for name, one in differences.items():
            print(f"  {in_words(name, one)}: {verdict_of(task, name, one)}")
    if len(found) > 1:
        print(
            "\nall are compared with the same runs of the project as it is: if those are by "
            "chance good or bad, several verdicts are wrong together"
        )


def in_words(name: str, found: "Difference") -> str:
    """Formats a difference: both means, the mean difference and its interval."""
    scale = 1
    if name.endswith("_bytes"):
        name, scale = name.replace("_bytes", "_mib"), 2**20
    before, after, mean, low, high = (number / scale for number in found[:5])
    return (
        f"{name}: {before:.4g} to {after:.4g}, {mean:+.4g} ({low:+.4g} to {high:+.4g})"
    )
