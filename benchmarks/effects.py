"""What the tricks buy: accuracy with each of them, beside that without, over five seeds.

    OMP_NUM_THREADS=1 TORCH_TRICKS_MNIST=DIRECTORY python benchmarks/effects.py

The directory has MNIST's four files, packed. Each seed draws other training images, and
with a trick and without it a project begins with the same weights and sees the same
images in the same order, so that the differences are of pairs. They are in points, each
with the half of its interval of 95 %; a star marks those whose interval leaves out 0.
"""

import argparse
import contextlib
import gzip
import importlib
import io
import json
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, islice, product
from multiprocessing import get_context
from multiprocessing.pool import Pool
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

import numpy as np
import torch
from measure import ROOT, render
from PIL import Image
from run import describe_machine
from sklearn.datasets import load_digits

PRELOADED = (
    "torch._dynamo",  # Imported by the first step of an optimizer.
    "torch.optim.swa_utils",
    "torchvision.transforms.v2",
    "typeguard",  # Imported by tyro.cli().
    "tyro",
)
"""What would take each training seconds to import anew."""

STUDENT_T = {2: 12.706, 5: 2.776}
"""For an interval of 95 %, by the number of seeds."""

ALONE = (
    "label_smoothing",
    "augmentation",
    "augmentation --random-erasing 0.25",
    "mixup",
    "ema",
    "swa",
    "no_bias_decay",
    "grad_clipping",
    "l1",
    "lr_scaling",
    "schedule",
)
"""Tricks that may change the accuracy, and flags that are no defaults."""

TOGETHER = {"fine_tuning": "pretrained freeze layerwise_lr"}
"""Tricks that one project has, by the name of all."""

BATCH = 16
SHAPES_SIZE = 24

ROWS = """

def open_few(settings: Settings, _size: int) -> tuple[ArrayImages, ArrayImages]:
    train, val = (
        torch.load(settings.data_dir / f"{split}.pt") for split in ("train", "val")
    )
    return ArrayImages(**train), ArrayImages(**val)


DATASETS["few-shapes"] = DATASETS["shapes"]._replace(open_splits=open_few)
DATASETS["few-mnist"] = DATASETS["mnist"]._replace(open_splits=open_few)
DATASETS["digits"] = DATASETS["few-mnist"]
"""
"""Data sets that a project gets: few images, moved and mirrored as those of many."""


class Images(NamedTuple):
    """What the images of a split are drawn from."""

    pixels: np.ndarray
    """uint8, of shape (N, size, size) or (N, size, size, 3)."""
    targets: np.ndarray


class Source(NamedTuple):
    """A data set, how many images of each class are drawn, and how long is trained."""

    train: Images
    val: Images
    count: int
    val_count: int
    steps: int


class Task(NamedTuple):
    """A run of train.py."""

    project: Path
    flags: Sequence[object]
    run: Path


Metrics = dict[str, Any]
"""A line of metrics.jsonl."""


class Lab(NamedTuple):
    """Where and how often is measured."""

    pool: Pool
    directory: Path
    sources: dict[str, Source]
    projects: dict[str, Path]
    """By their trick, or an empty string."""
    seeds: range
    quick: bool


def measure_each_alone(lab: Lab, name: str) -> None:
    """Prints what each trick gains on a data set."""
    data = [write_data(lab, name, seed) for seed in lab.seeds]
    tasks = [
        make_task(lab, row, name, data[seed], seed)
        for row, seed in product(["", *ALONE], lab.seeds)
    ]
    results = lab.pool.imap(train, tasks, chunksize=1)
    base = list(islice(results, len(lab.seeds)))
    shares = percent([line["train_accuracy"] for line in base])
    show(name, "accuracy", "difference")
    show(f"no trick (in training {shares})", percent(accuracies(base)))
    for row in ALONE:
        ours = accuracies(list(islice(results, len(lab.seeds))))
        show(row, percent(ours), gain(ours, accuracies(base)))
    print()


def measure_wrong_labels(lab: Lab) -> None:
    """Prints what averaging gains late in a run with wrong labels at a constant rate."""
    project, seeds = lab.projects["ema"], len(lab.seeds)
    said = subprocess.check_output(
        [
            sys.executable,
            ROOT / "tests" / "support" / "noise.py",
            project.name,
            str(seeds),
        ],
        cwd=project,
        env=os.environ | {"PYTHONPATH": str(project)},
        stderr=subprocess.DEVNULL,
    )
    gains = json.loads(said.splitlines()[-1])
    show("30 % wrong labels, constant rate", "", "difference")
    show("ema", "", gain(gains, [0.0] * seeds))
    print()


def measure_class_balance(lab: Lab) -> None:
    """Prints recalls where one class of the shapes has 10 of 1,010 images."""
    name, rare = "few-shapes", 4
    counts = [200] * 6
    counts[rare] = 10
    data = {seed: write_data(lab, name, seed, counts) for seed in lab.seeds}
    source = lab.sources[name]
    folder = lab.directory / "rare"
    folder.mkdir()
    counts_of_val = dict(enumerate([0] * rare + [source.val_count]))
    for index in take(source.val.targets, counts_of_val, 0).tolist():
        Image.fromarray(source.val.pixels[index]).save(folder / f"{index}.png")

    columns = ("mean recall", "difference", "of the rare", "difference")
    show("one class of six has 10 of 1,010", *columns)
    base: list[list[float]] = []
    for mode in ("none", "loss", "sampler"):
        row = f"class_balance --class-balance {mode}"
        tasks = [make_task(lab, row, name, data[seed], seed) for seed in lab.seeds]
        # As many images of each class are evaluated, so that this is the mean recall.
        means = accuracies(lab.pool.map(train, tasks, chunksize=1))
        jobs = [(task, folder, str(rare)) for task in tasks]
        recalls = [means, lab.pool.starmap(recall, jobs, chunksize=1)]
        base = base or recalls
        cells = ((percent(a), gain(a, b)) for a, b in zip(recalls, base))
        show(row, *chain.from_iterable(cells))
    print()


def measure_distillation(lab: Lab) -> None:
    """Prints what a teacher with many images is worth to a student with few."""
    name = "few-mnist"
    teachers, alone, taught = [], [], []
    for seed in lab.seeds:
        many = write_data(lab, name, seed, [500] * 10)
        few = write_data(lab, name, seed, [25] * 10)
        teachers.append(make_task(lab, "distillation", name, many, seed, factor=2))
        alone.append(make_task(lab, "distillation", name, few, seed))
        row = f"distillation --teacher {teachers[-1].run / 'model.pt'}"
        taught.append(make_task(lab, row, name, few, seed))
    show(f"distillation, {name}", "accuracy", "difference")
    names = ("teacher, 5,000 images", "student alone, 250", "student with the teacher")
    base: list[float] = []
    for row, tasks in zip(names, (teachers, alone, taught)):
        ours = accuracies(lab.pool.map(train, tasks, chunksize=1))
        show(row, percent(ours), *([gain(ours, base)] if tasks is taught else []))
        base = ours
    print()


def measure_fine_tuning(lab: Lab) -> None:
    """Prints what a network of five digits is worth to one of few images of the others."""
    name, trick = "few-mnist", "fine_tuning"
    first, few = [], []
    for seed in lab.seeds:
        many = write_data(lab, name, seed, [2000] * 5, range(5))
        few.append(write_data(lab, name, seed, [2] * 5, range(5, 10)))
        # With random weights below it, the head has no reason to be faster.
        row = f"{trick} --layer-decay 1"
        first.append(make_task(lab, row, name, many, seed, factor=5))
    known = accuracies(lab.pool.map(train, first, chunksize=1))
    begun = [f"{trick} --init-weights {without_head(task.run)}" for task in first]

    def run(rows: Sequence[str], factor: float = 1) -> tuple[list[Task], list[float]]:
        tasks = [
            make_task(lab, row, name, data, seed, factor)
            for row, data, seed in zip(rows, few, lab.seeds)
        ]
        return tasks, accuracies(lab.pool.map(train, tasks, chunksize=1))

    show("fine-tuning, 10 images of five digits", "accuracy", "difference")
    show("first, 10,000 images of the others", percent(known))
    _, base = run([f"{trick} --layer-decay 1"] * len(begun))
    show("random weights", percent(base))
    kept = "--freeze features.*"
    rows = {
        "a new head on frozen features": kept,
        "all at one rate": "--layer-decay 1",
        "all with layer decay": "",
    }
    for words, flags in rows.items():
        _, ours = run([f"{row} {flags}" for row in begun])
        show(words, percent(ours), gain(ours, base))
    heads, _ = run([f"{row} {kept}" for row in begun], factor=0.5)
    rows_after = [f"{trick} --init-weights {task.run / 'model.pt'}" for task in heads]
    _, ours = run(rows_after, factor=0.5)
    show("half the steps each: head, then all", percent(ours), gain(ours, base))
    print()


def without_head(run: Path) -> Path:
    """Returns weights of which the last layer is left out, beside their config.json."""
    weights = torch.load(run / "model.pt", weights_only=True)
    path = run / "headless.pt"
    kept = {n: w for n, w in weights.items() if not n.startswith("classifier.")}
    torch.save(kept, path)
    return path


def make_project(directory: Path, trick: str) -> Path:
    """Renders a project with a trick or none, and gives it the data sets."""
    tricks = ",".join(["seeding", *TOGETHER.get(trick, trick).split()])
    package = f"with_{trick or 'none'}"
    project = render(directory, package, "custom", tricks=f"[{tricks}]")
    with (project / package / "data" / "datasets.py").open("a") as file:
        file.write(ROWS)
    return project


def make_task(
    lab: Lab, row: str, name: str, data: Path, seed: int, factor: float = 1
) -> Task:
    """Returns a training for a row of the table.

    Args:
        factor: how many times as long as usual it takes.
    """
    trick, *flags = row.split() or [""]
    source = lab.sources[name]
    images = len(torch.load(data / "train.pt")["targets"])
    steps = BATCH if lab.quick else factor * source.steps
    epochs = max(1, round(steps * BATCH / images))
    run = Path(tempfile.mkdtemp(prefix="run-", dir=lab.directory), "run")
    common = {
        "--data": name,
        "--data-dir": data,
        "--image-size": source.val.pixels.shape[1],
        "--batch-size": BATCH,
        "--lr": 0.003,  # With weights to begin with, too.
        "--epochs": epochs,
        "--eval-every": epochs,
        "--seed": seed,
        "--device": "cpu",
        "--num-workers": 0,
        "--run-dir": run,
    }
    flags += [part for flag in common.items() for part in flag]
    return Task(lab.projects[trick], flags, run)


def train(task: Task) -> Metrics:
    """Trains, and returns the last line of the metrics."""
    run_script(task.project, "train.py", *task.flags)
    return json.loads((task.run / "metrics.jsonl").read_text().splitlines()[-1])


def recall(task: Task, folder: Path, name: str) -> float:
    """Returns for what share of the images a trained model names the class first."""
    weights = ("--weights", task.run / "model.pt", "--device", "cpu")
    said = run_script(
        task.project, "predict.py", folder, *weights, "--top", 1, "--format", "json"
    )
    lines = [json.loads(line) for line in said.splitlines()]
    return fmean(line["predictions"][0]["class"] == name for line in lines)


def run_script(project: Path, script: str, *flags: object) -> str:
    """Does what `python SCRIPT FLAGS` would, and returns what it prints."""
    os.chdir(project)
    sys.path.insert(0, str(project))
    sys.argv = [script, *map(str, flags)]
    said, errors = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(errors):
            runpy.run_path(script, run_name="__main__")
    except SystemExit as stop:  # Of a fork, which would leave the pool waiting.
        raise RuntimeError(errors.getvalue()) from stop
    return said.getvalue()


def write_data(
    lab: Lab,
    name: str,
    seed: int,
    counts: Sequence[int] | None = None,
    classes: Sequence[int] | None = None,
) -> Path:
    """Draws training images, and returns the directory with both splits.

    Args:
        counts: images of each class.
        classes: those that are drawn. None: all.
    """
    source = lab.sources[name]
    classes = classes or sorted(set(source.train.targets.tolist()))
    drawn = {
        "train": (source.train, counts or [source.count] * len(classes), seed),
        "val": (source.val, [source.val_count] * len(classes), 0),
    }
    directory = Path(tempfile.mkdtemp(prefix="data-", dir=lab.directory))
    for split, (images, wanted, key) in drawn.items():
        indices = take(images.targets, dict(zip(classes, wanted)), key)
        pixels = torch.from_numpy(images.pixels[indices])
        saved = {
            "images": pixels.permute(0, 3, 1, 2),
            "targets": [classes.index(t) for t in images.targets[indices].tolist()],
            "classes": list(map(str, classes)),
        }
        torch.save(saved, directory / f"{split}.pt")
    return directory


def take(targets: np.ndarray, counts: dict[int, int], seed: int) -> np.ndarray:
    """Draws the indices of so many images of each class."""
    rng = np.random.default_rng(seed)
    drawn = []
    for target, count in counts.items():
        found = rng.permutation(np.flatnonzero(targets == target))
        assert len(found) >= count, f"class {target} has {len(found)} images"
        drawn.append(found[:count])
    return np.concatenate(drawn)


def open_shapes(project: Path) -> tuple[Images, Images]:
    """Draws the shapes of a project."""
    sys.path.insert(0, str(project))
    shapes = importlib.import_module(f"{project.name}.data.shapes").Shapes

    def draw(train: bool) -> Images:
        drawn = shapes(train, SHAPES_SIZE)
        images, targets = zip(*(drawn[index] for index in range(len(drawn))))
        pixels = torch.stack(images).permute(0, 2, 3, 1).numpy()
        return Images(pixels, np.array(targets))

    return draw(True), draw(False)


def open_mnist() -> tuple[Images, Images]:
    """Reads MNIST at half its size: each pixel is the mean of four."""
    directory = os.environ.get("TORCH_TRICKS_MNIST")
    if not directory:
        sys.exit("set TORCH_TRICKS_MNIST to the directory with MNIST's four files")

    def read(name: str, header: int) -> np.ndarray:
        packed = Path(directory, f"{name}-ubyte.gz").read_bytes()
        return np.frombuffer(gzip.decompress(packed), np.uint8, offset=header)

    def read_split(name: str) -> Images:
        quarters = read(f"{name}-images-idx3", 16).reshape(-1, 14, 2, 14, 2)
        grey = quarters.mean((2, 4)).astype(np.uint8)
        return Images(as_rgb(grey), read(f"{name}-labels-idx1", 8))

    return read_split("train"), read_split("t10k")


def open_digits() -> tuple[Images, Images]:
    """Reads scikit-learn's digits, and keeps 120 of each class for validation."""
    digits = load_digits()
    pixels = as_rgb((digits.images * 255 / 16).astype(np.uint8))
    val = take(digits.target, dict.fromkeys(range(10), 120), 0)
    train = np.setdiff1d(np.arange(len(pixels)), val)
    return (
        Images(pixels[train], digits.target[train]),
        Images(pixels[val], digits.target[val]),
    )


def as_rgb(grey: np.ndarray) -> np.ndarray:
    return np.repeat(grey[..., None], 3, axis=-1)


def trick_of(row: str) -> str:
    return row.split()[0]


def accuracies(runs: Sequence[Metrics]) -> list[float]:
    return [run["val_accuracy"] for run in runs]


def percent(shares: Sequence[float]) -> str:
    return f"{fmean(shares):.1%}"


def gain(ours: Sequence[float], others: Sequence[float]) -> str:
    """Returns the mean difference in points with its interval, and a star beyond chance."""
    differences = [100 * (a - b) for a, b in zip(ours, others, strict=True)]
    mean, seeds = fmean(differences), len(differences)
    half = STUDENT_T[seeds] * stdev(differences) / seeds**0.5
    return f"{mean:+.1f} ± {half:.1f} {'*' if abs(mean) > half else ' '}"


def show(*cells: str) -> None:
    """Prints a row of the table."""
    name, *columns = cells
    line = f"{name:<38}" + "".join(f"{cell:>15}" for cell in columns)
    print(line.rstrip(), flush=True)


PARTS: dict[str, Callable[[Lab], None]] = {
    "digits": partial(measure_each_alone, name="digits"),
    "few-mnist": partial(measure_each_alone, name="few-mnist"),
    "few-shapes": partial(measure_each_alone, name="few-shapes"),
    "wrong-labels": measure_wrong_labels,
    "class-balance": measure_class_balance,
    "distillation": measure_distillation,
    "fine-tuning": measure_fine_tuning,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=PARTS, metavar="|".join(PARTS))
    parser.add_argument(
        "--quick", action="store_true", help="only try whether all of it runs"
    )
    arguments = parser.parse_args()
    mnist = open_mnist()
    torch.set_num_threads(1)
    for name in PRELOADED:
        importlib.import_module(name)
    with (
        tempfile.TemporaryDirectory(prefix="bench-effects-") as directory,
        # A fork for each training, so that nothing is left of another one.
        get_context("fork").Pool(maxtasksperchild=1) as pool,
    ):
        alone = map(trick_of, ALONE)
        tricks = sorted({"", "class_balance", "distillation", *TOGETHER, *alone})
        make = partial(make_project, Path(directory))
        projects = dict(zip(tricks, pool.map(make, tricks, chunksize=1)))
        sources = {
            "digits": Source(*open_digits(), 30, 120, 400),
            "few-mnist": Source(*mnist, 30, 200, 400),
            "few-shapes": Source(*open_shapes(projects[""]), 40, 300, 600),
        }
        seeds = range(2 if arguments.quick else 5)
        lab = Lab(pool, Path(directory), sources, projects, seeds, arguments.quick)
        for name, measure in PARTS.items():
            if arguments.only in (None, name):
                measure(lab)
    print(describe_machine())


if __name__ == "__main__":
    main()
