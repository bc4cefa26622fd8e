"""Trains rendered projects for a few steps and judges what they leave behind."""

import json
import math
import re
import zlib
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest
import ranks
import torch
from PIL import Image
from rendering import PACKAGE
from subsets import AVERAGES, TASKS, Subset
from torch.distributed import run as torchrun

Run = Callable[..., "CompletedProcess[str]"]
"""Runs a script of a project: `run(project, script, *arguments)`."""

TRAIN_IMAGES, VAL_IMAGES = 22, 7
EPOCHS, BATCH_SIZE, ACCUMULATION_STEPS, IMAGE_SIZE = 2, 6, 2, 8
EPOCH_STEPS = 3

COMMON = (
    *("--image-size", IMAGE_SIZE, "--num-workers", 0, "--log-every", 2),
    *("--epochs", EPOCHS, "--batch-size", BATCH_SIZE),
)
"""The last batch holds 4 images; where that is dropped, the last window has 1 batch."""

UNTRACKED = {"mlflow": ("--mlflow-uri", "none"), "wandb": ("--wandb-mode", "disabled")}
WITHOUT_TRACKERS = tuple(chain(*UNTRACKED.values()))
"""Flags of a run that sends nothing, and writes to no database."""

OF_TRICK = {
    "amp": ("--amp-dtype", "bfloat16"),
    "accumulation": ("--accumulation-steps", ACCUMULATION_STEPS),
    "freeze": ("--freeze", "*s.0.*"),  # features.0. or blocks.0.
    "muon": ("--optimizer", "muon"),
    "schedule": ("--schedule", "plateau", "--plateau-patience", 0),
    "early_stopping": ("--patience", 1),
    "swa": ("--swa-start", 0.5),
    "sync_bn": ("--no-sync-bn",),
    "profiler": ("--profile-steps", 1),
    "wandb": ("--wandb-mode", "offline"),
    "video": ("--segments", 3),
}


def make_folder(directory: Path) -> Path:
    """Writes an image folder, clips in it, and files as MNIST's, all of noise.

    Training and validation images of three classes have 8 x 8 pixels, and clips one to five frames.
    """
    images, clips = np.random.default_rng(0), np.random.default_rng(2)
    for split, count in {"train": TRAIN_IMAGES, "val": VAL_IMAGES}.items():
        for index in range(count):
            place = Path(split, "abc"[index % 3], str(index))
            write_noise(directory / f"{place}.png", images)
            for frame in range(1 + index % 5):
                path = directory / "clips" / place / f"{frame}.png"
                write_noise(path, clips, IMAGE_SIZE + index % 3)
    return make_digits(directory)


def write_noise(path: Path, rng: np.random.Generator, width: int = IMAGE_SIZE) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = rng.integers(256, size=(IMAGE_SIZE, width, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


def make_digits(directory: Path) -> Path:
    """Writes files as MNIST's, for projects that read no images of one's own."""
    rng = np.random.default_rng(1)
    for split, count in {"train": TRAIN_IMAGES, "t10k": VAL_IMAGES}.items():
        pixels = rng.integers(256, size=(count, 28, 28), dtype=np.uint8)
        targets = np.arange(count, dtype=np.uint8) % 10
        for name, values in {"images-idx3": pixels, "labels-idx1": targets}.items():
            path = directory / "MNIST" / "raw" / f"{split}-{name}-ubyte"
            path.parent.mkdir(parents=True, exist_ok=True)
            sizes = np.array(values.shape, dtype=">u4").tobytes()
            path.write_bytes(bytes([0, 0, 8, values.ndim]) + sizes + values.tobytes())
    return directory


def flags(subset: Subset, folder: Path, hdf5: Path, device: str = "cpu") -> list[str]:
    """The flags of a short run that reaches every phase of the tricks.

    Projects of other tasks train on the built-in shapes: see `make_shapes_few`.
    """
    values = ["--data", *source_of(subset, folder, hdf5), "--device", device, *COMMON]
    for trick in subset.tricks:
        values += OF_TRICK.get(trick, ())
        # To make the database of a run takes longer than to train: a fourth of them is tracked.
        if trick in UNTRACKED and zlib.crc32(f"{trick} {subset}".encode()) % 4:
            values += UNTRACKED[trick]
    if counts_steps(subset):
        values += ["--epoch-steps", EPOCH_STEPS]
    if "resume" in subset.tricks:
        every = stopping_step(subset)
        values += ["--checkpoint-every", every, "--keep-checkpoints", 99]
    return [str(value) for value in values]


def source_of(subset: Subset, folder: Path, hdf5: Path) -> list[object]:
    """The values of `--data` and, where the data are files, of `--data-dir`."""
    own = "folders" in subset.tricks
    if subset.task != TASKS[0]:
        return ["shapes"]
    if "video" in subset.tricks:
        return ["frames", "--data-dir", folder / "clips"]
    if "hdf5" in subset.tricks:
        return ["hdf5", "--data-dir", hdf5 if own else hdf5 / "digits"]
    return ["folder" if own else "mnist", "--data-dir", folder]


def make_shapes_few(project: Path) -> None:
    """Lets a project have as many built-in shapes as there are images in the folder."""
    path = project / PACKAGE / "data" / "shapes.py"
    text = path.read_text(encoding="utf-8")
    counts = f"{TRAIN_IMAGES} if train else {VAL_IMAGES}"
    few = re.sub(r"\d+ if train else \d+", counts, text)
    assert few != text
    path.write_text(few, encoding="utf-8")


def counts_steps(subset: Subset) -> bool:
    """Whether the epochs of a run are no passes over the images: in a fourth of them."""
    return not zlib.crc32(f"epochs of {subset}".encode()) % 4


def steps_per_epoch(subset: Subset) -> int:
    if counts_steps(subset):
        return EPOCH_STEPS
    batches = TRAIN_IMAGES / BATCH_SIZE
    batches = math.floor(batches) if "dp" in subset.chosen else math.ceil(batches)
    window = ACCUMULATION_STEPS if "accumulation" in subset.tricks else 1
    return math.ceil(batches / window)


def stopping_step(subset: Subset) -> int:
    """The step to resume after: it differs, so that every phase of a run is met."""
    total = EPOCHS * steps_per_epoch(subset)
    return 1 + zlib.crc32(str(subset).encode()) % (total - 1)


OF_TORCHS_PROFILER = re.compile(r".* collection\.cpp:\d+\] .*\n?")
"""A warning of torch in about one of a thousand traces: a thread of gloo is still at work when a
trace with shapes ends. No shape that a project shows comes from there."""


def train(run: Run, project: Path, *arguments: object) -> None:
    """Runs train.py, and fails with what it said if it fails."""
    result = run(project, "train.py", *arguments)
    assert result.returncode == 0, result.stderr
    said = result.stderr
    if "--profile-steps" in arguments:
        said = OF_TORCHS_PROFILER.sub("", said)
    assert said == "", said


def run_ranks(
    run: Run,
    project: Path,
    *arguments: object,
    events: str = "none",
    processes: int = 2,
    options: tuple[object, ...] = (),
) -> "CompletedProcess[str]":
    """Runs train.py under torchrun, with an agent and ranks that are forks of a zygote.

    Args:
        events: what happens to the ranks, for ranks.py.
        options: more of torchrun's.
    """
    return run(
        *(project, torchrun.__file__, "--standalone"),
        *("--run-path", "--start-method", "fork", "--shutdown-timeout", 1),
        *("--nproc-per-node", processes, *options, ranks.SCRIPT, events, *arguments),
    )


def evaluate(run: Run, project: Path, directory: Path) -> None:
    """Checks that evaluate.py finds the numbers of an epoch, to the last digit.

    Where a project has it. Precisions of boxes are exact there, and near those of an epoch, which
    come from bins of the score.
    """
    if not (project / "evaluate.py").exists():
        return
    arguments = (directory / "model.pt", "--device", "cpu", "--json")
    result = run(project, "evaluate.py", *arguments)
    assert result.returncode == 0, result.stderr
    # What lies in the folder beside the splits is printed.
    assert all(line.startswith("left out in ") for line in result.stderr.splitlines())
    found = json.loads(result.stdout)
    assert (found.pop("split"), found.pop("images")) == ("val", VAL_IMAGES)
    # Not of a record, if they are there.
    for name in ("data", "classes", "confusion", "labels", "numbers"):
        found.pop(name, None)
    exact = {}
    if "map50" in found:
        names = [name for name in found if name.startswith("map")]
        exact = {name: found.pop(name) for name in names}
    validations = [
        {name.removeprefix("val_"): value for name, value in line.items()}
        for line in read_metrics(directory)
    ]
    assert any(
        found.items() <= line.items()
        and all(abs(exact[name] - line[name]) < 0.02 for name in exact.keys() & line)
        for line in validations
    )


def check_run(subset: Subset, directory: Path) -> None:
    """Checks that a run took all its steps with finite losses and left its weights."""
    lines = read_metrics(directory)
    steps = steps_per_epoch(subset)
    assert [line["step"] for line in lines] == [steps, 2 * steps]
    for line in lines:
        values = [*line.pop("learning_rates"), *line.values()]
        assert all(math.isfinite(value) for value in values), line
        if subset.task == TASKS[0]:
            assert 0 <= line["val_accuracy"] <= 1
            assert 0 <= line["train_accuracy"] <= 1
    weights = {path.name for path in directory.glob("*.pt")}
    averages = AVERAGES & set(subset.tricks)
    expected = {"model.pt", "best.pt"}
    if averages:
        expected.add("model_plain.pt")
    if len(averages) == 2:
        expected.add("model_ema.pt")
    assert weights == expected


def check_same_run(first: Path, second: Path) -> None:
    """Checks that two runs ended with equal bits and went the same way."""
    check_same_files(first, second)
    assert reproducible(first) == reproducible(second)


def check_same_files(first: Path, second: Path) -> None:
    """Checks that two runs have equal weights, readings and reports of classes."""
    # Not images.png, which shows the first images after the checkpoint.
    reports = (*first.glob("metrics.json"), *first.glob("[!i]*.png"))
    for file in (*first.glob("*.pt"), *reports, first / "steps.jsonl"):
        assert file.read_bytes() == (second / file.name).read_bytes(), file


def check_close_runs(first: Path, second: Path) -> None:
    """Compares runs of a model in float64 whose sums were made in another order."""
    weights = [
        torch.load(run / "model.pt", weights_only=True) for run in (first, second)
    ]
    torch.testing.assert_close(*weights, rtol=1e-9, atol=1e-12)
    for line, other in zip(*map(reproducible, (first, second)), strict=True):
        assert line.pop("learning_rates") == pytest.approx(other.pop("learning_rates"))
        assert line == pytest.approx(other, rel=1e-6)


def reproducible(directory: Path) -> list[dict[str, object]]:
    """The lines of a run's metrics, less what depends on the clock and on a GPU's memory."""
    timings = {"seconds", "samples_per_second", "peak_memory_bytes"}
    return [
        {name: value for name, value in line.items() if name not in timings}
        for line in read_metrics(directory)
    ]


def read_metrics(directory: Path) -> list[dict[str, object]]:
    text = (directory / "metrics.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def train_and_resume(
    run: Run,
    subset: Subset,
    project: Path,
    directory: Path,
    arguments: list[str],
    workers: tuple[int, ...] = (0, 2),
) -> None:
    """Trains a project, goes on from a checkpoint if it has any, and judges both.

    Args:
        workers: with how many data loading processes to go on, each time anew.
    """
    if subset.task != TASKS[0]:
        make_shapes_few(project)
    train(run, project, *arguments, "--run-dir", directory)
    check_run(subset, directory)
    if "resume" in subset.tricks:
        stop_and_resume(run, subset, project, directory, arguments, workers)


def stop_and_resume(
    run: Run,
    subset: Subset,
    project: Path,
    directory: Path,
    arguments: list[str],
    workers: tuple[int, ...] = (0, 2),
) -> None:
    """Goes on from a run's first checkpoint, and compares with the run itself.

    Data loading processes must make no difference. Nor must it that these runs save no
    more than at the ends of epochs.
    """
    suffix = "" if "fsdp" in subset.chosen else ".pt"
    checkpoint = directory / "checkpoints" / f"step-{stopping_step(subset):08d}{suffix}"
    for number in workers:
        resumed = directory.with_name(f"{directory.name}-resumed-{number}")
        more = ("--num-workers", number, "--run-dir", resumed, "--resume", checkpoint)
        train(run, project, *arguments, *more, "--checkpoint-every", 99)
        check_same_run(directory, resumed)
