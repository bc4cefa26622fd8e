"""Measures what tricks buy in a project: trains it with and without them, in pairs of runs."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from torch_tricks.errors import Refusal
from torch_tricks.project import Project
from torch_tricks.questions import Questions
from torch_tricks.template import Rendering
from torch_tricks.updating import plan_update, render_base, scratch_for

if TYPE_CHECKING:
    from torch_tricks.comparing import Difference

SMALLEST_SHARE = 0.01
"""Smallest share of a time or of memory that counts as a difference."""
PLAIN = "as it is"
TOGETHER = "all together"
RECORDED = "measurement.json"
"""Says what the results in a directory are of."""
OWN_FLAGS = ("--run-dir", "--seed", "--resume")
"""What each run of a measurement gets for itself."""


@dataclass(frozen=True)
class Variant:
    """The project with other tricks, in a copy of its own."""

    name: str
    place: Path
    """Where the copies are."""
    tricks: tuple[str, ...]

    @property
    def label(self) -> str:
        """The name as that of a file."""
        return re.sub(r"\W+", "-", self.name)

    @property
    def directory(self) -> Path:
        """The copy."""
        return self.place / self.label


@dataclass(frozen=True)
class Measurement:
    """What is run, and where its results are."""

    directory: Path
    project: Project
    variants: list[Variant]
    """The first one is the project as it is."""
    questions: Questions
    launch: list[str]
    flags: list[str]
    repeats: int

    @property
    def seeded(self) -> bool:
        """Whether all runs take a seed, without which results cannot be compared."""
        return all("seeding" in variant.tricks for variant in self.variants)

    def runs(self) -> Iterator[tuple[int, Variant]]:
        """Yields the runs in the order A B B A, so that what drifts meets both alike."""
        for pair in range(self.repeats):
            for variant in self.variants if pair % 2 == 0 else self.variants[::-1]:
                yield pair, variant

    def path(self, pair: int, variant: Variant) -> Path:
        """Returns the run directory; `.json` and `.txt` beside it have numbers and log."""
        return self.directory / "runs" / f"{pair + 1:02}-{variant.label}"

    def command(self, pair: int, variant: Variant) -> list[str]:
        """Returns what trains a variant."""
        script = variant.directory / "train.py"
        words = [*self.launch, str(script), "--run-dir", str(self.path(pair, variant))]
        if self.seeded:
            words += ["--seed", str(pair)]
        return words + known_flags(self.flags, self.questions, variant.tricks)

    def numbers(self, variant: Variant) -> list[dict[str, float]]:
        """Returns what the runs of a variant have left, one pair after the other."""
        paths = (self.path(pair, variant) for pair in range(self.repeats))
        return [json.loads(path.with_suffix(".json").read_text()) for path in paths]


def measure(
    directory: Path,
    wanted: Sequence[str],
    flags: Sequence[str],
    repeats: int,
    launch: str,
    results: Path | None,
    resume: bool,
    as_json: bool,
) -> None:
    """Trains a project as it is and with other tricks, and prints how they differ.

    Args:
        directory: the project, or a folder in it.
        wanted: tricks: one that is in is left out, and one that is not is added.
        flags: of train.py.
        repeats: pairs of runs, each with a seed of its own.
        launch: what starts train.py. Empty: the Python of the project.
        results: where results are written. None: a folder of the project's `runs`.
        resume: whether to go on with a measurement that was stopped.
        as_json: whether to print for programs.

    Raises:
        Refusal: the project cannot be changed as it must be, or a run fails.
    """
    try:
        from torch_tricks.comparing import compare, verdict
    except ImportError as error:
        raise Refusal(
            'measure needs SciPy: pip install "torch-tricks[measure]"'
        ) from error
    for flag in flags:
        if flag.partition("=")[0] in OWN_FLAGS:
            raise Refusal(f"{flag} is given to each run: leave it out")
    project = Project.at(directory)
    project.check_unchanged()
    place = results or project.directory / "runs" / f"measure-{'-'.join(wanted)}"
    place = Path(os.path.abspath(place))
    recorded: dict[str, Any] = {
        "commit": project.git("rev-parse", "HEAD"),
        "tricks": list(wanted),
        "launch": shlex.split(launch) or [find_python(project)],
        "flags": list(flags),
    }
    check_free(place, recorded, resume)
    fresh = not place.exists()
    place.mkdir(parents=True, exist_ok=True)
    # First, so that what a kill leaves is known as a measurement.
    (place / RECORDED).write_text(json.dumps(recorded, indent=2) + "\n")
    try:
        variants, questions = write_variants(project, place / "copies", wanted)
    except Refusal:
        if fresh:
            shutil.rmtree(place, ignore_errors=True)
        raise
    words = recorded["launch"]
    task = Measurement(place, project, variants, questions, words, list(flags), repeats)
    if not task.seeded:
        print(
            "without seeding in all of them only times and memory are compared",
            file=sys.stderr,
        )
    print(f"results: {place}; after a stop, add --resume to go on", file=sys.stderr)
    train_all(task)
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
    directions = directions_of(task.variants[0])

    def said(name: str, one: "Difference") -> str:
        least = 0 if name.startswith("val_") else SMALLEST_SHARE * one.before
        return verdict(one, directions.get(name, ""), least)

    if as_json:
        values = {
            variant: {
                name: one.as_dict() | {"verdict": said(name, one)}
                for name, one in differences.items()
            }
            for variant, differences in found.items()
        }
        print(json.dumps({"repeats": repeats, **recorded, "differences": values}))
        return
    for variant, differences in found.items():
        print(f"\n{variant}, against {PLAIN}, {repeats} pairs of runs:")
        for name, one in differences.items():
            print(f"  {in_words(name, one)}: {said(name, one)}")
    if len(found) > 1:
        print(
            "\nall are compared with the same runs of the project as it is: if those are by "
            "chance good or bad, several verdicts are wrong together"
        )


def check_free(place: Path, recorded: Mapping[str, Any], resume: bool) -> None:
    """Refuses a directory that has something, unless it is runs of the same that go on."""
    path = place / RECORDED
    if not path.exists():
        if place.exists() and any(place.iterdir()):
            raise Refusal(f"{place} is not empty: pass another --results")
        return
    if not any(place.glob("runs/*.json")):
        shutil.rmtree(place)  # No run of it has ended.
        return
    if not resume:
        raise Refusal(f"{place} has results: pass --resume, or another --results")
    if json.loads(path.read_text()) != recorded:
        raise Refusal(
            f"{place} is of another commit, or has other tricks, flags or another --launch: "
            "pass another --results"
        )


def write_variants(
    project: Project, place: Path, wanted: Sequence[str]
) -> tuple[list[Variant], Questions]:
    """Writes copies of a project, as it is and with each change of its tricks."""
    shutil.rmtree(place, ignore_errors=True)
    variants, changes = [], [[word] for word in wanted]
    if len(wanted) > 1:
        changes.append(list(wanted))
    for words in changes:
        with scratch_for(project) as (scratch, aside):
            project, base = render_base(project, scratch, aside)
            name = TOGETHER
            if len(words) == 1:
                name = f"{'without' if words[0] in base.tricks else 'with'} {words[0]}"
            try:
                answers = changed_answers(base, words)
            except Refusal as error:
                raise Refusal(f"{name}: {error}") from error
            new = project.render(aside, answers)
            plan = plan_update(project, scratch, base.directory, new.directory)
            if plan.needs_a_look:
                trouble = sorted({*plan.conflicts, *plan.kept, *plan.missing})
                raise Refusal(
                    f"{name}, the project would have to be mended by hand in "
                    f"{', '.join(trouble)}: run torch-tricks add or remove, resolve it and "
                    "commit, and measure that"
                )
            if not variants:
                variants.append(Variant(PLAIN, place, tuple(base.tricks)))
                scratch.write_out(plan.before, variants[0].directory)
            variants.append(Variant(name, place, tuple(new.tricks)))
            scratch.write_out(plan.after, variants[-1].directory)
    return variants, base.questions


def changed_answers(base: Rendering, names: Sequence[str]) -> dict[str, Any]:
    """Returns the answers with which some tricks are in that were not, or the other way round."""
    for name in base.questions.find(names):
        if base.questions.tricks[name].choices:
            raise Refusal(
                f"{name} is not measured, as its forms are started in different ways: measure "
                "other tricks in a project with each"
            )
    leave = [name for name in names if name in base.tricks]
    take = [name for name in names if name not in base.tricks]
    return {"preset": "custom"} | base.questions.changed(base.answers, take, leave)


def known_flags(
    flags: Sequence[str], questions: Questions, tricks: Sequence[str]
) -> list[str]:
    """Returns the flags without those of tricks that are not in, and without their values."""
    of_tricks = {
        flag: {n for n, t in questions.tricks.items() if flag in t.flags}
        for trick in questions.tricks.values()
        for flag in trick.flags
    }
    kept, leave_out = [], False
    for word in flags:
        if word.startswith("--"):
            flag = word.partition("=")[0].replace("_", "-")
            flag = re.sub("^--no-", "--", flag)
            leave_out = flag in of_tricks and of_tricks[flag].isdisjoint(tricks)
        if not leave_out:
            kept.append(word)
    return kept


def find_python(project: Project) -> str:
    """Returns the Python of the project's environment, or the one that is active."""
    for place in (project.directory / ".venv", os.environ.get("VIRTUAL_ENV")):
        if place and (python := Path(place, "bin", "python")).exists():
            return str(python)
    if python := shutil.which("python"):
        return python
    raise Refusal("there is no python: activate the project's environment")


def train_all(task: Measurement) -> None:
    """Trains what has not been trained yet, with a bar that shows the time that is left."""
    runs = list(task.runs())
    bar = typer.progressbar(length=len(runs), label="runs", file=sys.stderr)
    with bar:
        for pair, variant in runs:
            path = task.path(pair, variant)
            if not path.with_suffix(".json").exists():
                shutil.rmtree(path, ignore_errors=True)
                train(task, pair, variant)
            bar.update(1)


def train(task: Measurement, pair: int, variant: Variant) -> None:
    """Trains a variant once, and keeps its numbers.

    Raises:
        Refusal: train.py fails.
    """
    path = task.path(pair, variant)
    path.parent.mkdir(exist_ok=True)
    log = path.with_suffix(".txt")
    # What an earlier run has compiled would make this one start sooner.
    compiled = path.with_suffix(".compiled")
    shutil.rmtree(compiled, ignore_errors=True)
    environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(compiled)}
    began = time.perf_counter()
    with (
        log.open("wb") as file,
        subprocess.Popen(
            task.command(pair, variant),
            cwd=task.project.directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = code = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - began
    said = log.read_text(errors="replace")
    if code != 0:
        reason = last_words(said) or f"exit {code}"
        raise Refusal(
            f"train.py fails {variant.name}: {reason} (all of it is in {log})"
        )
    kept = re.search(r"^kept epoch (\d+): ", said, re.MULTILINE)
    # One that stops early keeps its best epoch: the others are read at theirs as well.
    stops = any("early_stopping" in each.tricks for each in task.variants)
    numbers = read_numbers(path, int(kept[1]) if kept else None, best=stops)
    numbers["seconds_in_all"] = seconds
    # Linux counts in KiB. Where there is no GPU, memory is that of the process.
    memory = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    numbers["peak_memory_bytes"] = numbers["peak_memory_bytes"] or memory
    for weights in path.glob("*.pt"):
        weights.unlink()
    for place in (path / "checkpoints", compiled):
        shutil.rmtree(place, ignore_errors=True)
    path.with_suffix(".json").write_text(json.dumps(numbers))


def last_words(said: str) -> str:
    """Returns the last line with a word, or what is in the box that ends the text."""
    lines = [line for line in said.splitlines() if re.search(r"\w", line)]
    last = lines[-1:]
    if last and last[0].startswith("│"):
        last = [line.strip("│ ") for line in lines if line.startswith("│")]
    return " ".join(last)


def read_numbers(run: Path, epoch: int | None, best: bool = False) -> dict[str, float]:
    """Returns what a run has measured.

    Args:
        epoch: the one whose weights it kept. None: the last.
        best: whether it is the one of the lowest validation loss in place of the last.
    """
    text = (run / "metrics.jsonl").read_text()
    records = [json.loads(line) for line in text.splitlines()]
    evaluated = [record for record in records if "val_loss" in record]
    last_word = min(evaluated, key=lambda r: r["val_loss"]) if best else evaluated[-1]
    kept = next((r for r in evaluated if r["epoch"] == epoch), last_word)
    numbers = {
        name: value
        for name, value in kept.items()
        if name.startswith("val_") and isinstance(value, int | float)
    }
    first, last = records[0], records[-1]
    if steps := last["step"] - first["step"]:
        # The first epoch has what happens once, such as starting workers and compiling.
        per_step = sum(record["seconds"] for record in records[1:]) / steps
        numbers["startup_seconds"] = first["seconds"] - per_step * first["step"]
    else:
        per_step = first["seconds"] / first["step"]
    numbers["seconds_per_step"] = per_step
    numbers["peak_memory_bytes"] = records[-1].get("peak_memory_bytes", 0)
    return numbers


def in_words(name: str, found: "Difference") -> str:
    """Returns the numbers of a difference: both means, and the interval between them."""
    scale = 1
    if name.endswith("_bytes"):
        name, scale = name.replace("_bytes", "_mib"), 2**20
    before, after, mean, low, high = (number / scale for number in found[:5])
    return (
        f"{name}: {before:.4g} to {after:.4g}, {mean:+.4g} ({low:+.4g} to {high:+.4g})"
    )


def directions_of(variant: Variant) -> dict[str, str]:
    """Returns what is better of each number, `higher` or `lower`, where the project says so."""
    known = ("val_loss", "seconds_per_step", "startup_seconds", "seconds_in_all")
    directions = dict.fromkeys((*known, "peak_memory_bytes"), "lower")
    for path in variant.directory.glob("*/task.py"):
        text = path.read_text(encoding="utf-8")
        result = re.search(r'^RESULT = "(\w+)"', text, re.MULTILINE)
        best = re.search(r"^BEST = (max|min)$", text, re.MULTILINE)
        if result and best:
            directions[f"val_{result[1]}"] = {"max": "higher", "min": "lower"}[best[1]]
    return directions
