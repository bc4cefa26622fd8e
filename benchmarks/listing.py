"""A data set of a million files: listing, the first batch, and memory of a worker.

This file is also the process that is measured, as Python has one start method for each.
"""

import contextlib
import importlib
import io
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from measure import Row, interleave, render
from PIL import Image
from torch.utils.data import DataLoader, Dataset, RandomSampler
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

IMAGES, CLASSES = 1_280_000, 20
LINKS = 60_000
"""Hard links to one file, of which file systems allow some 65,000."""
FEW = 2_000
"""Images of the data set beside which a large one is measured."""
READ = 40_000
"""Images that are read before memory is measured: of lists, a fork copies pages at each."""
BATCH_SIZE, WORKERS, REPETITIONS = 64, 2, 3
FIRST_BOUND, MEMORY_BOUND = 2.0, 60.0
"""Seconds to the first batch and MB of a worker, beyond those with few images."""


def measure_listing() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="bench-listing-") as directory:
        project = render(Path(directory), "listing_project", "recommended")
        images = Path(directory, "images")
        link_images(images / "train", IMAGES)
        link_images(images / "val", max(IMAGES // 1000, 2 * CLASSES))
        for method in ("fork", "forkserver"):
            command = [sys.executable, __file__, str(project), str(images), method]
            command += map(str, (READ, REPETITIONS))
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
            found = json.loads(done.stdout)
            if method == "fork":
                yield compare_listing(*found["listing"])
            yield from compare_workers(method, *found["ours"], *found["reference"])


def link_images(directory: Path, count: int) -> None:
    """Writes links to a few small images, in a directory for each class."""
    encoded = io.BytesIO()
    Image.new("RGB", (32, 32), (90, 120, 30)).save(encoded, "JPEG")
    for number in range(CLASSES):
        place = directory / f"n{number:08}"
        place.mkdir(parents=True)
        for index in range(count // CLASSES):
            path = f"{place}/n{number:08}_{index}.JPEG"
            if index % LINKS == 0:
                original = path
                Path(path).write_bytes(encoded.getvalue())
            else:
                os.link(original, path)


def compare_listing(ours: float, reference: float, ratio: float, cpu: float) -> Row:
    return Row(
        f"{IMAGES:,} images, list / ImageFolder",
        f"{ours:.1f} s",
        f"{reference:.1f} s",
        f"{ratio:.2f}",
        f"{cpu:.2f}",
        bound="<= 1",
        holds=cpu <= 1,
    )


def compare_workers(
    method: str, first: float, memory: float, other_first: float, other_memory: float
) -> Iterator[Row]:
    """Compares what all images take beyond a few with the same of ImageFolder."""
    yield Row(
        f"{method}, first batch beyond few / ImageFolder",
        f"{first:.1f} s",
        f"{other_first:.1f} s",
        bound=f"<= {FIRST_BOUND:g} s",
        holds=first <= FIRST_BOUND,
    )
    yield Row(
        f"{method}, memory of a worker beyond / ImageFolder",
        f"{memory:.0f} MB",
        f"{other_memory:.0f} MB",
        bound=f"<= {MEMORY_BOUND:g} MB",
        holds=memory <= MEMORY_BOUND,
    )


def serve(project: Path, images: Path, method: str, read: int, rounds: int) -> None:
    """Lists and loads the images, and prints what they take as JSON."""
    torch.set_num_threads(1)
    torch.multiprocessing.set_start_method(method)
    sys.path.insert(0, str(project))
    data = f"{project.name}.data"
    datasets, own_images, settings = (
        importlib.import_module(name)
        for name in (
            f"{data}.datasets",
            f"{data}.own_images",
            f"{project.name}.settings",
        )
    )
    options = settings.Settings(data="folder", data_dir=images)
    to_tensor = v2.PILToTensor()

    def list_ours() -> Any:
        with contextlib.redirect_stdout(io.StringIO()):
            return datasets.load_data(options).train.dataset

    def list_reference() -> Any:
        train, _ = (ImageFolder(images / name, to_tensor) for name in ("train", "val"))
        return train

    (times,) = interleave([(list_ours, list_reference)], rounds)
    ours, reference, few = list_ours(), list_reference(), list_reference()
    few.samples = few.imgs = few.samples[:FEW]
    few.targets = few.targets[:FEW]
    found = {
        "listing": (times.ours, times.reference, times.ratio, times.cpu_ratio),
        "ours": beyond(ours, own_images.select(ours, range(FEW)), read, rounds),
        "reference": beyond(reference, few, read, rounds),
    }
    print(json.dumps(found))


def beyond(
    images: Dataset[Any], few: Dataset[Any], read: int, rounds: int
) -> tuple[float, float]:
    """Returns what loading takes beyond that of few images: seconds, and MB of a worker."""
    load(few, BATCH_SIZE)  # Starts the fork server.
    calls = [partial(load, each, BATCH_SIZE) for each in (images, few)]
    (times,) = interleave([calls], rounds)
    return times.difference, load(images, read) - load(few, read)


def load(images: Dataset[Any], read: int) -> float:
    """Reads some images, and returns the private MB of a worker."""
    sampler = RandomSampler(images, num_samples=read)
    loader = DataLoader(images, BATCH_SIZE, sampler=sampler, num_workers=WORKERS)
    batches = iter(loader)
    for _ in range(max(1, read // BATCH_SIZE - 2 * WORKERS)):  # The workers still run.
        next(batches)
    return statistics.mean(private_memory(worker.pid) for worker in batches._workers)


def private_memory(process: int) -> float:
    """Returns the MB of a process that no other process shares."""
    text = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="utf-8")
    return sum(map(int, re.findall(r"Private_(?:Clean|Dirty): +(\d+)", text))) * 1024e-6


if __name__ == "__main__":
    serve(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], *map(int, sys.argv[4:]))
