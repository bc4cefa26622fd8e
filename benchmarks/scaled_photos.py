"""Accuracy with large photos decoded at a smaller scale, beside all pixels: a line of docs/data.md.

    TORCH_TRICKS_MNIST=DIRECTORY python benchmarks/scaled_photos.py

Five pairs of runs on 500 handwritten digits, drawn into photos of 1600 x 1200 pixels with the
noise of a camera: 20 minutes on one core.
"""

import io
import tempfile
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType

import numpy as np
import torch
from effects import mnist
from measure import import_train, render
from PIL import Image
from torch_tricks.measuring.comparing import compare

SEEDS = range(5)
SIZE = (1600, 1200)
COUNTS = {"train": 500, "t10k": 500}
NOISE = 25
"""Standard deviation, as at a high sensitivity of the camera."""


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="bench-scaled-") as directory:
        tricks = "[folders,seeding]"
        project = render(Path(directory), "scaled_photos", "custom", tricks=tricks)
        train = import_train(project)
        photos = Path(directory, "photos")
        write_digits(photos)
        pairs = []
        for seed in SEEDS:
            pairs.append([learn(train, photos, seed, whole) for whole in (True, False)])
            print("seed {}: {:.1%} and {:.1%}".format(seed, *pairs[-1]), flush=True)
    found = compare(*zip(*pairs))
    print(
        f"all pixels {found.before:.1%}, smaller scale {found.after:.1%}, difference "
        f"{found.mean:+.1%} (95 % interval {found.low:+.1%} to {found.high:+.1%})"
    )


def learn(train: ModuleType, photos: Path, seed: int, whole: bool) -> float:
    """Trains once, with all pixels or at a smaller scale; returns the accuracy."""
    settings = train.Settings(
        data="folder",
        data_dir=photos,
        image_size=64,
        batch_size=32,
        epochs=16,
        eval_every=16,
        num_workers=0,
        seed=seed,
        device="cpu",
        run_dir=photos.with_name(f"run-{seed}-{whole}"),
    )
    with redirect_stdout(io.StringIO()):
        run = train.make_run(settings)
        train.write_config(run)
        for split in (run.data.train, run.data.val):
            assert split.dataset.decode_size < min(SIZE)
            if whole:
                split.dataset.decode_size = None
        while not train.is_over(run):
            train.evaluate_and_save(run, train.train_epoch(run))
    return run.progress.history[-1]["val_accuracy"]


def write_digits(directory: Path) -> None:
    """Writes digits of any colour, size and place on smooth grounds, a folder for each class."""
    rng = np.random.default_rng(0)
    for split, folder in {"train": "train", "t10k": "val"}.items():
        images, targets = mnist(split)
        for index in rng.permutation(len(images))[: COUNTS[split]]:
            coarse = rng.integers(60, 196, size=(4, 5, 3), dtype=np.uint8)
            photo = Image.fromarray(coarse).resize(SIZE, Image.Resampling.BICUBIC)
            side = int(rng.integers(600, 1000))
            digit = Image.fromarray(images[index]).resize((side, side))
            place = tuple(int(rng.integers(0, most - side)) for most in SIZE)
            photo.paste(tuple(map(int, rng.integers(256, size=3))), place, digit)
            noisy = np.asarray(photo) + rng.normal(0, NOISE, (SIZE[1], SIZE[0], 3))
            path = directory / folder / str(targets[index]) / f"{index}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(path, quality=90)


if __name__ == "__main__":
    main()
