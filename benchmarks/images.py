"""How fast images come: by whole batches and one by one, and photos from their files."""

import contextlib
import importlib
import io
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np
import torch
import torchvision
from loop import train_epoch
from measure import Row, import_train, interleave, render
from PIL import Image
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

IMAGES = 10_240
BATCH = 128
LEAST_RATIO = 8
"""Images per second of whole batches, beside one by one."""
MOST_SHARE = 0.05
"""The largest share of a training step that its images may take."""
PHOTOS = 256
PHOTO_SIZE = (500, 375)
LARGE_PHOTOS = 16
LARGE_PHOTO_SIZE = (4032, 3024)
"""As from phones."""
REPETITIONS = 7


def measure_images() -> Iterator[Row]:
    """Reads small images from memory, and photos from a folder and from HDF5."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="bench-images-") as directory:
        project = render(
            Path(directory),
            "whole_batches",
            "custom",
            tricks="[folders,device_augment,hdf5]",
        )
        single = render(Path(directory), "one_by_one", "minimal")
        train = import_train(project)
        yield from compare_small(train, import_train(single), Path(directory))
        photos = Path(directory, "photos")
        write_photos(photos, PHOTO_SIZE, {"train": PHOTOS, "val": 2})
        yield from compare_photos(train, project, photos)
        photos = Path(directory, "large_photos")
        counts = {"train": LARGE_PHOTOS, "val": LARGE_PHOTOS}
        write_photos(photos, LARGE_PHOTO_SIZE, counts)
        yield from compare_large_photos(train, photos)


def compare_small(
    whole: ModuleType, single: ModuleType, directory: Path
) -> Iterator[Row]:
    """Crops and mirrors images that lie in memory."""
    generator = torch.Generator().manual_seed(0)
    shape = (IMAGES, 3, 32, 32)
    pixels = torch.randint(256, shape, generator=generator, dtype=torch.uint8)
    targets = [index % 10 for index in range(IMAGES)]
    runs = {}
    for train in (whole, single):
        package = train.Settings.__module__.partition(".")[0]
        images = importlib.import_module(f"{package}.data.images").ArrayImages
        datasets = importlib.import_module(f"{package}.data.datasets")
        held = images(pixels, targets, list("0123456789"))
        opened = mock.Mock(return_value=(held, held))
        row = datasets.DATASETS["cifar10"]._replace(open_splits=opened)
        with mock.patch.dict(datasets.DATASETS, {"cifar10": row}):
            runs[package] = begin(train, directory / f"{package}_run", data="cifar10")
    run, plain = runs.values()

    def augment_all() -> None:
        for images, _ in run.train_loader:
            run.data.augment(images, run.data.augment.draw(len(images)))

    (times,) = interleave(
        [[augment_all, partial(read_all, plain.train_loader)]], REPETITIONS
    )
    yield Row(
        "images of 32 x 32, whole batches / one by one",
        f"{IMAGES / times.ours:,.0f}/s",
        f"{IMAGES / times.reference:,.0f}/s",
        f"{1 / times.ratio:.1f}",
        f"{1 / times.cpu_ratio:.1f}",
        f">= {LEAST_RATIO}",
        1 / times.cpu_ratio >= LEAST_RATIO,
    )

    def prepare_all() -> None:
        for _ in whole.train_batches(run):
            pass

    (times,) = interleave([[prepare_all, partial(train_epoch, whole, run)]], 3)
    yield Row(
        "images of 32 x 32 / training cnn on them",
        f"{times.ours / IMAGES * BATCH * 1e3:.2f} ms",
        f"{times.reference / IMAGES * BATCH * 1e3:.2f} ms",
        f"{times.ratio:.3f}",
        f"{times.cpu_ratio:.3f}",
        f"<= {MOST_SHARE}",
        times.cpu_ratio <= MOST_SHARE,
    )


def compare_photos(train: ModuleType, project: Path, photos: Path) -> Iterator[Row]:
    """Decodes photos, alone and with a random crop, and reads them from HDF5."""
    files = sorted(photos.rglob("*.jpg"))
    read_image = importlib.import_module("whole_batches.data.image_files").read_image

    def read_files() -> None:
        for file in files:
            read_image(file)

    yield photo_row("photos, decoded", read_files, with_pillow(read_files))
    folder = begin(train, photos.parent / "folder", data="folder", data_dir=photos)
    read = partial(read_all, folder.train_loader)
    yield photo_row("photos, decoded and cropped", read, with_pillow(read))
    stored = photos.parent / "stored"
    command = [sys.executable, "convert.py", stored, "--data", "folder", "--data-dir"]
    subprocess.run([*command, photos], cwd=project, check=True, capture_output=True)
    hdf5 = begin(train, photos.parent / "hdf5", data="hdf5", data_dir=stored)
    yield photo_row(
        "photos, hdf5", partial(read_all, hdf5.train_loader), read, "folder"
    )
    sizes = [size_of(directory) for directory in (stored, photos)]
    yield Row(
        "photos on the disk, hdf5 / folder",
        *(f"{size / 2**20:.1f} MiB" for size in sizes),
        f"{sizes[0] / sizes[1]:.3f}",
    )


def compare_large_photos(train: ModuleType, photos: Path) -> Iterator[Row]:
    """Decodes photos of phones at a smaller scale, and with all pixels."""
    options = {"data": "folder", "data_dir": photos}
    scaled = begin(train, photos.parent / "scaled", **options)
    whole = begin(train, photos.parent / "whole", **options)
    for prepared in (whole.data.train, whole.data.val):
        prepared.dataset.decode_size = None
    size, _ = whole.data.preprocessing.crop_size  # A pair would stretch the photos.
    transforms = {
        "train": v2.RandomResizedCrop(size, scale=(0.35, 1.0)),
        "val": v2.Compose([v2.Resize(size), v2.CenterCrop(size)]),
    }
    for split, transform in transforms.items():
        ours, reference = (getattr(run, f"{split}_loader") for run in (scaled, whole))
        plain = ImageFolder(photos / split, v2.Compose([v2.ToImage(), transform]))
        for name, loader in {
            "all pixels": reference,
            "ImageFolder": DataLoader(plain, BATCH),
        }.items():
            yield photo_row(
                f"photos of 12 megapixels, {split}",
                partial(read_all, ours),
                partial(read_all, loader),
                name,
                LARGE_PHOTOS,
            )


def photo_row(
    name: str,
    ours: Callable[[], None],
    reference: Callable[[], None],
    of_reference: str = "Pillow",
    photos: int = PHOTOS,
) -> Row:
    """Returns how many photos come in a second."""
    (times,) = interleave([[ours, reference]], REPETITIONS)
    return Row(
        f"{name} / {of_reference}",
        f"{photos / times.ours:,.0f}/s",
        f"{photos / times.reference:,.0f}/s",
        f"{1 / times.ratio:.2f}",
        f"{1 / times.cpu_ratio:.2f}",
    )


def with_pillow(call: Callable[[], None]) -> Callable[[], None]:
    """Returns the call in a world in which torchvision decodes nothing."""

    def called() -> None:
        with mock.patch.object(
            torchvision.io, "decode_image", side_effect=RuntimeError
        ):
            call()

    return called


def begin(train: ModuleType, directory: Path, **options: Any) -> Any:
    """Starts a run of `cnn` that loads its images in this process."""
    settings = train.Settings(
        batch_size=BATCH,
        num_workers=0,
        run_dir=directory,
        device="cpu",
        log_every=10**6,
        **{"epochs": 1000} | options,
    )
    with contextlib.redirect_stdout(io.StringIO()):
        return train.make_run(settings)


def read_all(loader: Iterable[Any]) -> None:
    """Reads all images of an epoch, uint8 as they come."""
    for _ in loader:
        pass


def write_photos(
    directory: Path, size: tuple[int, int], counts: Mapping[str, int]
) -> None:
    """Writes JPEG files that take about as long to decode as photos: smooth, with noise.

    Args:
        counts: photos of each split.
    """
    rng = np.random.default_rng(0)
    for index, split in enumerate(Counter(counts).elements()):
        folder = directory / split / str(index % 2)
        folder.mkdir(parents=True, exist_ok=True)
        coarse = Image.fromarray(rng.integers(256, size=(12, 16, 3), dtype=np.uint8))
        smooth = np.asarray(coarse.resize(size, Image.Resampling.BICUBIC))
        noisy = smooth + rng.normal(0, 8, smooth.shape)
        photo = Image.fromarray(noisy.clip(0, 255).astype(np.uint8))
        photo.save(folder / f"{index}.jpg", quality=90)


def size_of(directory: Path) -> int:
    """Returns the bytes of all files below a directory."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
