"""Effects of tricks in settings that they are made for, by `torch-tricks measure`.

    TORCH_TRICKS_MNIST=DIRECTORY python benchmarks/effects.py [NAME ...]

The directory has MNIST's four files, packed. Each measurement trains projects as they are and with a
trick, in pairs of runs with one seed each, and becomes a line of docs/effects.jsonl with the numbers
of all runs. What is there is not measured again: delete its line for that. Stopped, it goes on where
it was. `make docs` writes the tables of docs/recommended.md.
"""

import argparse
import gzip
import json
import os
import runpy
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import islice
from multiprocessing.pool import ThreadPool
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import torch
from measure import ROOT, copy_command
from PIL import Image
from run import describe_machine

KEPT = ROOT / "docs" / "effects.jsonl"
WORK = ROOT / "build" / "effects"
"""Data, projects and results."""

Split = tuple[np.ndarray, np.ndarray]
"""Images, uint8 of shape (N, H, W) or (N, H, W, 3), and their classes."""


MEASUREMENTS: dict[str, dict[str, Any]] = tomllib.loads(
    KEPT.with_suffix(".toml").read_text(encoding="utf-8")
)
"""Measurements, by the names that docs/recommended.md uses."""


@cache
def mnist(split: str) -> Split:
    """Reads a split of MNIST, `train` or `t10k`."""
    place = os.environ.get("TORCH_TRICKS_MNIST")
    if not place:
        raise LookupError("set TORCH_TRICKS_MNIST to the directory with MNIST's files")

    def read(name: str, header: int) -> np.ndarray:
        packed = Path(place, f"{split}-{name}-ubyte.gz").read_bytes()
        return np.frombuffer(gzip.decompress(packed), np.uint8, offset=header)

    return read("images-idx3", 16).reshape(-1, 28, 28), read("labels-idx1", 8)


def digits(
    count: int, classes: Sequence[int] = range(10), fewer: dict[int, int] | None = None
) -> tuple[Split, Split]:
    """Draws `count` digits of each class to train on, or `fewer` of some; and 200 others."""
    fewer = fewer or {}

    def draw(split: str, counts: dict[int, int]) -> Split:
        images, targets = mnist(split)
        rng = np.random.default_rng(0)
        chosen = np.concatenate(
            [
                rng.permutation(np.flatnonzero(targets == target))[:wanted]
                for target, wanted in counts.items()
            ]
        )
        return images[chosen], targets[chosen]

    return (
        draw("train", {target: fewer.get(target, count) for target in classes}),
        draw("t10k", dict.fromkeys(classes, 200)),
    )


def wrong_labels() -> tuple[Split, Split]:
    """2,000 digits, of which 30 % have any label; those of validation are right."""
    (images, targets), val = digits(200)
    rng = np.random.default_rng(1)
    wrong = rng.random(len(targets)) < 0.3
    anything = rng.integers(10, size=len(targets)).astype(targets.dtype)
    return (images, np.where(wrong, anything, targets)), val


def textures() -> tuple[Split, Split]:
    """Gratings of four directions, each in half of the places of all images.

    The class is which two are in the same places. So each channel that sees one direction has
    the same mean in all classes, and only the products of two tell them apart.
    """
    rng = np.random.default_rng(2)
    y, x = np.mgrid[:8, :8]
    waves = [np.sin(np.pi / 2 * (x * a + y * b)) for a, b in DIRECTIONS]

    def draw(count: int) -> Split:
        targets = rng.integers(len(PAIRS), size=count)
        images = rng.normal(128, 30, (count, 32, 32))
        for image, target in zip(images, targets):
            shared = rng.permutation(16)[:8]
            first, *others = rng.permutation(16).reshape(2, 8)
            apart = iter((first, *others))
            for number, wave in enumerate(waves):
                places = shared if number in PAIRS[target] else next(apart)
                for place in places:
                    top, left = 8 * (place // 4), 8 * (place % 4)
                    image[top : top + 8, left : left + 8] += 25 * wave
        return images.clip(0, 255).astype(np.uint8), targets

    return draw(1200), draw(1200)


DIRECTIONS = ((1, 0), (0, 1), (1, 1), (1, -1))
PAIRS = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))


def shapes() -> tuple[Split, Split]:
    """30 images of each of the shapes that projects draw, and 50 others."""
    path = next(WORK.glob("*/project/*/data/shapes.py"))
    module = runpy.run_path(str(path))

    def draw(train: bool, count: int) -> Split:
        images, targets = zip(*islice(module["Shapes"](train), 12 * count))
        arrays, labels = (
            torch.stack(images).permute(0, 2, 3, 1).numpy(),
            np.array(targets),
        )
        chosen = [np.flatnonzero(labels == label)[:count] for label in range(6)]
        return arrays[np.concatenate(chosen)], labels[np.concatenate(chosen)]

    return draw(True, 30), draw(False, 50)


def photos() -> tuple[Split, Split]:
    """Noise of the size of small photos, for times only."""
    rng = np.random.default_rng(3)

    def draw(count: int) -> Split:
        pixels = rng.integers(256, size=(count, 6, 8, 3), dtype=np.uint8)
        return pixels.repeat(32, axis=1).repeat(32, axis=2), np.arange(count) % 2

    return draw(640), draw(32)


DATA: dict[str, Callable[[], tuple[Split, Split]]] = {
    "500-digits": partial(digits, 50),
    "250-digits": partial(digits, 25),
    "2000-digits": partial(digits, 200),
    "5000-digits": partial(digits, 500),
    "0-to-5": partial(digits, 2000, range(6)),
    "8-digits": partial(digits, 2, range(6, 10)),
    "rare-class": partial(digits, 100, fewer={9: 5}),
    "wrong-labels": wrong_labels,
    "textures": textures,
    "shapes": shapes,
    "photos": photos,
}


def write_data(name: str) -> Path:
    """Writes a data set as image folders, unless it is there."""
    place = WORK / "data" / name
    aside = place.with_suffix(".part")
    with WRITING:
        if place.exists():
            return place
        for split, (images, targets) in zip(("train", "val"), DATA[name]()):
            for number, (image, target) in enumerate(zip(images, targets)):
                path = (
                    aside / split / str(target) / f"{number}{SUFFIX.get(name, '.png')}"
                )
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(image).save(path)
        return aside.rename(place)


WRITING = Lock()
SUFFIX = {"photos": ".jpg"}


def make_project(place: Path, base: str) -> None:
    """Renders the template as it is committed, and commits the project."""
    tricks = ",".join(["seeding", "folders", *base.split()])
    answers = {"project_name": "Effects", "preset": "custom", "tricks": f"[{tricks}]"}
    options = [f"--data={name}={value}" for name, value in answers.items()]
    run(*copy_command(str(WORK / "template"), place, "--vcs-ref=HEAD", *options))
    run("git", "init", "--quiet", cwd=place)
    run("git", "add", "--all", cwd=place)
    who = ("-c", "user.name=effects", "-c", "user.email=effects@localhost")
    run("git", *who, "commit", "--quiet", "--message=Start", cwd=place)


def run(*command: object, cwd: Path = ROOT) -> None:
    # measure trains with the Python of the active environment.
    environment = os.environ | {"OMP_NUM_THREADS": "1", "VIRTUAL_ENV": sys.prefix}
    words = list(map(str, command))
    subprocess.run(words, check=True, cwd=cwd, env=environment, stdout=subprocess.PIPE)


def train_before(name: str, project: Path) -> Path:
    """Trains what a measurement begins with or learns from, unless it is there."""
    words = MEASUREMENTS[name]["weights"].split()
    where = words.index("--data-dir") + 1
    words[where] = str(write_data(words[where]))
    directory = WORK / name / "before"
    weights = directory / "model.pt"
    if not weights.exists():
        words += ["--data", "folder", "--run-dir", str(directory), "--seed", "0"]
        run(sys.executable, "train.py", *words, cwd=project)
    return weights


def measure(name: str) -> None:
    """Measures, and keeps the numbers of all runs."""
    asked = MEASUREMENTS[name]
    project, results = WORK / name / "project", WORK / name / "results"
    if not project.exists():
        make_project(project, asked.get("base", ""))
    words = ["--data", "folder", "--data-dir", str(write_data(asked["data"]))]
    words += ["--num-workers", "0", *asked["flags"].split()]
    if "weights" in asked:
        weights = train_before(name, project)
        words = [word.format(weights=weights) for word in words]
    command = ["-m", "torch_tricks", "measure", asked["tricks"], "--json"]
    command += ["--repeats", asked.get("repeats", 5), "--results", results]
    if (results / "measurement.json").exists():
        command.append("--resume")
    began = time.monotonic()
    run(sys.executable, *command, "--", *words, cwd=project)
    runs: dict[str, list[dict[str, float]]] = {}
    for path in sorted((results / "runs").glob("*.json")):
        _, _, variant = path.stem.partition("-")
        runs.setdefault(variant, []).append(json.loads(path.read_text()))
    line = {"name": name, "machine": describe_machine(), "runs": runs}
    with KEPT.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    print(f"{name}: {(time.monotonic() - began) / 60:.0f} min", flush=True)


def kept() -> set[str]:
    """Returns the names of what is measured already on a machine like this."""
    if not KEPT.exists():
        return set()
    lines = map(json.loads, KEPT.read_text(encoding="utf-8").splitlines())
    return {line["name"] for line in lines if line["machine"] == describe_machine()}


def be_quick(work: Path) -> None:
    """Makes all measurements short, and keeps them elsewhere."""
    global KEPT, WORK
    WORK, KEPT = work, work / "effects.jsonl"
    for asked in MEASUREMENTS.values():
        for of in {"flags", "weights"} & asked.keys():
            asked[of] += " --max-steps 2"
        asked["repeats"] = 2


def measure_all(names: Sequence[str], at_once: int) -> None:
    """Measures: `at_once` at a time, and alone what depends on how busy the machine is."""
    if not (WORK / "template").exists():  # What is not committed cannot be had again.
        run("git", "clone", "--quiet", ROOT, WORK / "template")
    timed = [name for name in names if "seconds" in str(MEASUREMENTS[name]["shows"])]
    with ThreadPool(at_once) as pool:
        pool.map(measure, [name for name in names if name not in timed], chunksize=1)
    for name in timed:
        measure(name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--at-once", type=int, default=2, help="measurements at a time")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="only try whether it runs, and keep nothing",
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # As in each run.
    here = [n for n in MEASUREMENTS if torch.cuda.is_available() or "gpu-" not in n]
    names = arguments.names or here
    if unknown := [name for name in names if name not in MEASUREMENTS]:
        parser.error(f"{', '.join(unknown)}: there are {', '.join(MEASUREMENTS)}")
    if arguments.quick:
        be_quick(Path(tempfile.mkdtemp(prefix="effects-")))
    measure_all([name for name in names if name not in kept()], arguments.at_once)


if __name__ == "__main__":
    main()
