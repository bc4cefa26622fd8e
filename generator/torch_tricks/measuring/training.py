"""Paired training runs of a project's variants, and their metrics."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from torch_tricks.errors import Refusal
from torch_tricks.measuring.variants import Variant, fields_of
from torch_tricks.project import Project


@dataclass(frozen=True)
class Measurement:
    """The runs of a measurement, and their results."""

    directory: Path
    project: Project
    variants: list[Variant]
    """The first variant is the project as it is."""
    launch: list[str]
    flags: list[str]
    repeats: int

    @property
    def seeded(self) -> bool:
        """Whether all variants have --seed, which comparisons of results need."""
        return all("seeding" in variant.tricks for variant in self.variants)

    def runs(self) -> Iterator[tuple[int, Variant]]:
        """Yields the runs in the order A B B A, so that drift affects both equally."""
        for pair in range(self.repeats):
            for variant in self.variants if pair % 2 == 0 else self.variants[::-1]:
                yield pair, variant

    def path(self, pair: int, variant: Variant) -> Path:
        """Returns the run directory; `.json` and `.txt` beside it have metrics and log."""
        return self.directory / "runs" / f"{pair + 1:02}-{variant.label}"

    def command(self, pair: int, variant: Variant) -> list[str]:
        """Returns the command that trains a variant."""
        script = variant.directory / "train.py"
        words = [*self.launch, str(script), "--run-dir", str(self.path(pair, variant))]
        if self.seeded:
            words += ["--seed", str(pair)]
        others = [fields_of(other) for other in self.variants]
        return words + known_flags(self.flags, fields_of(variant), set().union(*others))

    def numbers(self, variant: Variant) -> list[dict[str, float]]:
        """Returns the metrics of the finished runs of a variant, by pair."""
        paths = (self.path(pair, variant) for pair in range(self.repeats))
        return [json.loads(path.with_suffix(".json").read_text()) for path in paths]


def known_flags(flags: Sequence[str], fields: set[str], others: set[str]) -> list[str]:
    """Removes flags of other variants, with their values.

    Args:
        flags: flags of train.py.
        fields: settings of the variant.
        others: settings of all variants.
    """
    kept, leave_out = [], False
    for word in flags:
        if word.startswith("--"):
            flag = word.removeprefix("--").partition("=")[0].replace("-", "_")
            leave_out = flag.removeprefix("no_") in others - fields
        if not leave_out:
            kept.append(word)
    return kept


def find_python(project: Project) -> str:
    """Returns the Python of the project's environment, or the active Python."""
    for place in (project.directory / ".venv", os.environ.get("VIRTUAL_ENV")):
        if place and (python := Path(place, "bin", "python")).exists():
            return str(python)
    if python := shutil.which("python"):
        return python
    raise Refusal("there is no python: activate the project's environment")


def train_all(task: Measurement) -> None:
    """Trains the remaining runs, with a progress bar."""
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
    """Trains a variant once, and stores its metrics.

    Raises:
        Refusal: train.py fails.
    """
    path = task.path(pair, variant)
    path.parent.mkdir(exist_ok=True)
    log = path.with_suffix(".txt")
    # The compile cache of an earlier run would shorten the start.
    compiled = path.with_suffix(".compiled")
    shutil.rmtree(compiled, ignore_errors=True)
    environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(compiled)}
    for name in ("MLFLOW_RUN_ID", "WANDB_RUN_ID"):
        environment.pop(name, None)  # Of a single run.
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
        raise Refusal(f"train.py fails {variant.name}: {reason} (full log: {log})")
    best = re.search(r", best .* in epoch (\d+) \(.*best\.pt\)$", said, re.MULTILINE)
    # Early stopping ends long after the best epoch: all variants are read at theirs.
    stops = any("early_stopping" in each.tricks for each in task.variants)
    numbers = read_numbers(path, int(best[1]) if best and stops else None)
    numbers["seconds_in_all"] = seconds
    # Linux counts in KiB. Without a GPU, memory is that of the process.
    memory = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    numbers["peak_memory_bytes"] = numbers["peak_memory_bytes"] or memory
    for weights in path.glob("*.pt"):
        weights.unlink()
    for place in (path / "checkpoints", compiled):
        shutil.rmtree(place, ignore_errors=True)
    path.with_suffix(".json").write_text(json.dumps(numbers))


def last_words(said: str) -> str:
    """Returns the last line with a word, or the content of a last box."""
    lines = [line for line in said.splitlines() if re.search(r"\w", line)]
    last = lines[-1:]
    if last and last[0].startswith("│"):
        last = [line.strip("│ ") for line in lines if line.startswith("│")]
    return " ".join(last)


def read_numbers(run: Path, epoch: int | None) -> dict[str, float]:
    """Reads the metrics of a run.

    Args:
        epoch: epoch of the validation metrics. None: the last epoch.
    """
    text = (run / "metrics.jsonl").read_text()
    records = [json.loads(line) for line in text.splitlines()]
    evaluated = [record for record in records if "val_loss" in record]
    chosen = next((r for r in evaluated if r["epoch"] == epoch), evaluated[-1])
    numbers = {
        name: value
        for name, value in chosen.items()
        if name.startswith("val_") and isinstance(value, int | float)
    }
    first, last = records[0], records[-1]
    if steps := last["step"] - first["step"]:
        # The first epoch includes start-up, such as workers and compilation.
        per_step = sum(record["seconds"] for record in records[1:]) / steps
        numbers["startup_seconds"] = first["seconds"] - per_step * first["step"]
    else:
        per_step = first["seconds"] / first["step"]
    numbers["seconds_per_step"] = per_step
    numbers["peak_memory_bytes"] = records[-1].get("peak_memory_bytes", 0)
    return numbers
