"""The rendered HDF5 data set against the two plain ways of reading images one by one."""

import importlib
import json
import multiprocessing
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from measure import Row, import_train, render
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

IMAGES = 20_000
BATCH = 256
SHAPE = (3, 32, 32)
CHUNKS = {
    "contiguous": None,
    "chunks of 1": 1,
    "chunks of 64": 64,
}
"""Images per chunk."""
LEAST = 100_000
"""Images per second."""
LEAST_RATIO = 5
MOST_GROWTH = 8
"""MB that reading a file ten times as large may take beyond reading the small one."""


class OpenPerItem(Dataset[tuple[Tensor, int]]):
    """The naive form."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with h5py.File(path, "r") as file:
            self.length = len(file["images"])

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        with h5py.File(self.path, "r") as file:
            return torch.from_numpy(file["images"][index]), int(file["targets"][index])


class HandlePerWorker(OpenPerItem):
    """The usual better form: the file stays open, and items are read one by one."""

    images: Any = None

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if self.images is None:
            file = h5py.File(self.path, "r")
            self.images, self.targets = file["images"], file["targets"]
        return torch.from_numpy(self.images[index]), int(self.targets[index])


def measure_hdf5() -> Iterator[Row]:
    """Reads in random order: in this process, with two workers, and for memory."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="bench-hdf5-") as directory:
        project = render(Path(directory), "hdf5_project", "everything")
        import_train(project)
        rendered = importlib.import_module("hdf5_project.data.hdf5").HDF5Images
        for name, chunk in CHUNKS.items():
            path = Path(directory, "images.h5")
            write_file(path, IMAGES, chunk)
            for workers in (0, 2):
                yield from compare(rendered, path, name, workers)
            path.unlink()
        yield measure_memory(project, Path(directory))


def write_file(path: Path, images: int, chunk: int | None) -> None:
    """Writes random images a thousand at a time."""
    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        stored = file.create_dataset(
            "images", (images, *SHAPE), np.uint8, chunks=chunk and (chunk, *SHAPE)
        )
        for start in range(0, images, 1000):
            stored[start : start + 1000] = rng.integers(256, size=(1000, *SHAPE))
        file["targets"] = np.arange(images) % 10
        file.attrs["names"] = json.dumps([str(label) for label in range(10)])
        file.attrs["source"] = "random"
        file.attrs["image_size"] = SHAPE[-1]


def compare(
    rendered: Callable[..., Dataset], path: Path, name: str, workers: int
) -> Iterator[Row]:
    """Reads with the three data sets in turn, the slow ones fewer images at a time."""
    # A pair of workers takes a while to start: more images, fewer repetitions.
    share, repetitions = (1, 3) if workers else (0.25, 15)
    readers = {
        "ours": (rendered([path]), int(share * IMAGES)),
        "handle": (HandlePerWorker(path), int(share * IMAGES)),
        "open": (OpenPerItem(path), int(share * IMAGES / 20)),
    }
    order = torch.randperm(IMAGES, generator=torch.Generator().manual_seed(0)).tolist()
    speeds: dict[str, list[float]] = {reader: [] for reader in readers}
    for _ in range(repetitions):
        for reader, (dataset, images) in readers.items():
            speeds[reader].append(read_speed(dataset, order[:images], workers))
    ours, handle, opened = (statistics.median(speeds[reader]) for reader in readers)
    where = f"{workers} workers" if workers else "in process"
    least = f", >= {LEAST:,}/s" if workers == 0 else ""
    yield Row(
        f"hdf5, {name}, {where} / open per item",
        f"{ours:,.0f}/s",
        f"{opened:,.0f}/s",
        f"{ours / opened:.1f}",
        bound=f">= {LEAST_RATIO}{least}",
        holds=ours >= LEAST_RATIO * opened and (workers > 0 or ours >= LEAST),
    )
    yield Row(
        f"hdf5, {name}, {where} / handle kept",
        f"{ours:,.0f}/s",
        f"{handle:,.0f}/s",
        f"{ours / handle:.1f}",
    )


def read_speed(dataset: Dataset, order: list[int], workers: int) -> float:
    """Returns images per second, read in batches as a loader reads them."""
    if workers:
        batches = iter(DataLoader(dataset, BATCH, sampler=order, num_workers=workers))
        next(batches)  # The workers have started.
        start = time.perf_counter()
        images = sum(len(targets) for _, targets in batches)
        return images / (time.perf_counter() - start)
    start = time.perf_counter()
    read_in_batches(dataset, order)
    return len(order) / (time.perf_counter() - start)


def read_in_batches(dataset: Any, order: list[int]) -> None:
    """Reads as the fetcher of a loader does, without making tensors of the batches."""
    for first in range(0, len(order), BATCH):
        indices = order[first : first + BATCH]
        if hasattr(dataset, "read"):
            [dataset[index] for index in indices]
        else:
            [dataset[index] for index in indices]


def measure_memory(project: Path, directory: Path) -> Row:
    """Reads as many images from a small file as from one ten times as large."""
    growth = []
    for images in (IMAGES // 2, IMAGES * 5):
        path = directory / "images.h5"
        write_file(path, images, None)
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            growth.append(pool.apply(memory_growth, (project, path, images)))
        path.unlink()
    small, large = growth
    return Row(
        "hdf5, memory taken, 10 times the file / the file",
        f"{large:.1f} MB",
        f"{small:.1f} MB",
        bound=f"<= {MOST_GROWTH} MB more",
        holds=large - small <= MOST_GROWTH,
    )


def memory_growth(project: Path, path: Path, images: int) -> float:
    """Returns the MB that opening and reading a file adds to this process."""
    sys.path.insert(0, str(project))
    dataset = importlib.import_module("hdf5_project.data.hdf5").HDF5Images([path])
    order = torch.randperm(images, generator=torch.Generator().manual_seed(0)).tolist()
    before = resident_memory()
    read_in_batches(dataset, order[: IMAGES // 2] * 3)
    return resident_memory() - before


def resident_memory() -> float:
    """Returns the MB of memory that this process holds."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 1e6
