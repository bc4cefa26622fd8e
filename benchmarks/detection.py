"""Detection beside a loop as in torchvision's references: the table of docs/tasks/detection.md.

    TORCH_TRICKS_MNIST=DIRECTORY python benchmarks/detection.py [--seeds 2] [--large]

In that loop, images come from CocoDetection with all their pixels, as float32 and in a list, and
the model resizes and normalizes them. Model, data, mirroring, optimizer, learning rates and steps
are the same. Each run is a process of its own. With --large, it only measures how many photos of
12 megapixels are trained on in a second.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from effects import mnist
from measure import import_train, render
from PIL import Image, ImageDraw
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from torch.utils.data import DataLoader
from torchvision.datasets import CocoDetection, wrap_dataset_for_transforms_v2
from torchvision.models.detection.transform import GeneralizedRCNNTransform
from torchvision.transforms import v2

PACKAGE = "detection_project"
INPUT = (120, 160)
"""Height and width of inputs: photos are 4:3."""
BATCH, WORKERS, RATE, DECAY = 16, 2, 0.003, 0.01
CLASSES = {"shapes": ("circle", "square", "triangle"), "digits": tuple("0123456789")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--run", nargs=5, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        which, project, data, seed, epochs = arguments.run
        run = {"ours": train_ours, "reference": train_reference}[which]
        print(json.dumps(run(Path(project), Path(data), int(seed), int(epochs))))
        return
    with tempfile.TemporaryDirectory(prefix="bench-detection-") as directory:
        project = render(
            Path(directory),
            PACKAGE,
            "custom",
            task="detection",
            tricks="[folders,seeding]",
        )
        names, size, counts, epochs = [*CLASSES], (640, 480), (400, 200), 20
        if arguments.large:
            names, size, counts, epochs = ["shapes"], (4032, 3024), (64, 16), 2
        for name in names:
            data = Path(directory, name)
            write_photos(data, name, size, counts)
            for seed in range(arguments.seeds):
                for which in ("ours", "reference"):  # A slow minute meets both.
                    results = run_process(which, project, data, seed, epochs)
                    print(f"{name:<7} {which:<10} {results}", flush=True)


def run_process(which: str, project: Path, data: Path, *numbers: int) -> str:
    """Trains in a new process; returns its results and the memory of its largest process."""
    command = [sys.executable, __file__, "--run", which, project, data, *numbers]
    with subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE) as process:
        results = json.loads(process.stdout.read().splitlines()[-1])
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    losses = " ".join(f"{loss:.3f}" for loss in results["losses"][::5])
    return (
        f"{results['map']:6.2%} mAP, {results['speed']:5.1f} images/s, "
        f"{usage.ru_maxrss / 2**10:,.0f} MiB, losses {losses}"
    )


def train_ours(project: Path, data: Path, seed: int, epochs: int) -> dict[str, Any]:
    """Trains by the functions of the project's train.py."""
    train = import_train(project)
    datasets = importlib.import_module(f"{PACKAGE}.data.datasets")
    datasets.DATASETS["folder"] = datasets.DATASETS["folder"]._replace(
        augmentation=lambda preprocessing: v2.Compose(
            [preprocessing.transform(), v2.RandomHorizontalFlip()]
        )
    )
    settings = train.Settings(
        data="folder",
        data_dir=data,
        image_size=INPUT,
        epochs=epochs,
        batch_size=BATCH,
        num_workers=WORKERS,
        lr=RATE,
        weight_decay=DECAY,
        seed=seed,
        eval_every=epochs,
        run_dir=data.parent / f"{data.name}-run-{seed}",
        device="cpu",
    )
    run = train.make_run(settings)
    train.write_config(run)
    began = time.perf_counter()
    while not train.is_over(run):
        record = train.train_epoch(run)
    seconds = time.perf_counter() - began
    train.evaluate_and_save(run, record)
    history = run.progress.history
    return {
        "map": history[-1]["val_map"],
        "speed": epochs * len(run.data.train) / seconds,
        "losses": [record["train_loss"] for record in history],
    }


def train_reference(
    project: Path, data: Path, seed: int, epochs: int
) -> dict[str, Any]:
    """Trains by a loop as in torchvision's references."""
    torch.manual_seed(seed)
    train = open_split(data, "train", [v2.RandomHorizontalFlip()])
    val = open_split(data, "val", [])
    loader = DataLoader(
        train,
        BATCH,
        shuffle=True,
        num_workers=WORKERS,
        collate_fn=collate,
        drop_last=True,
    )
    model = make_same_model(project, len(CLASSES[data.name]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY)
    steps = epochs * len(loader)
    warmup_cosine = importlib.import_module(f"{PACKAGE}.optim.schedule").warmup_cosine
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, partial(warmup_cosine, total_steps=steps)
    )
    history = []
    began = time.perf_counter()
    model.train()
    for _ in range(epochs):
        losses = []
        for images, targets in loader:
            loss = sum(model(images, targets).values())
            losses.append(loss.item())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        history.append(sum(losses) / len(losses))
    seconds = time.perf_counter() - began
    return {
        "map": evaluate_reference(model, val, data),
        "speed": epochs * len(train) / seconds,
        "losses": history,
    }


def open_split(data: Path, split: str, changes: Sequence[Callable[..., Any]]) -> Any:
    """Opens images and boxes as torchvision's documentation shows it."""
    transforms = v2.Compose(
        [v2.ToImage(), *changes, v2.ToDtype(torch.float32, scale=True)]
    )
    dataset = CocoDetection(
        data / split, data / split / "boxes.json", transforms=transforms
    )
    keys = ("image_id", "boxes", "labels")
    return wrap_dataset_for_transforms_v2(dataset, target_keys=keys)


def collate(samples: list[Any]) -> tuple[Any, ...]:
    return tuple(zip(*samples))


def make_same_model(project: Path, classes: int) -> torch.nn.Module:
    """Returns the detector of `small_fcos` with torchvision's own transform."""
    sys.path.insert(0, str(project))
    detectors = importlib.import_module(f"{PACKAGE}.models.detectors")
    model = detectors.SmallFCOS(classes + 1).detector
    # COCO's numbers begin at 1: class 0 stays unused.
    model.transform = GeneralizedRCNNTransform(
        min(INPUT), max(INPUT), [0.5] * 3, [0.5] * 3
    )
    return model


@torch.inference_mode()
def evaluate_reference(model: torch.nn.Module, val: Any, data: Path) -> float:
    """Returns pycocotools' mAP."""
    model.eval()
    found = []
    for images, targets in DataLoader(val, BATCH, collate_fn=collate):
        for target, output in zip(targets, model(images)):
            x1, y1, x2, y2 = output["boxes"].unbind(1)
            boxes = torch.stack([x1, y1, x2 - x1, y2 - y1], 1).tolist()
            for box, label, score in zip(boxes, output["labels"], output["scores"]):
                found.append(
                    {
                        "image_id": target["image_id"],
                        "category_id": int(label),
                        "bbox": box,
                        "score": float(score),
                    }
                )
    truth = COCO(data / "val" / "boxes.json")
    evaluation = COCOeval(truth, truth.loadRes(found), "bbox")
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    return float(evaluation.stats[0])


def write_photos(
    directory: Path, name: str, size: tuple[int, int], counts: tuple[int, int]
) -> None:
    """Writes objects on smooth grounds, with the noise of a camera, in COCO's layout."""
    rng = np.random.default_rng(0)
    digits = read_digits() if name == "digits" else None
    categories = [{"id": i, "name": n} for i, n in enumerate(CLASSES[name], start=1)]
    for split, count in zip(("train", "val"), counts):
        folder = directory / split
        folder.mkdir(parents=True)
        images, annotations = [], []
        for number in range(count):
            coarse = rng.integers(40, 216, size=(6, 8, 3), dtype=np.uint8)
            photo = Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC)
            for _ in range(rng.integers(1, 5)):
                label = int(rng.integers(len(categories)))
                side = int(size[1] * rng.uniform(0.1, 0.4))
                if digits is None:
                    mask = draw_shape(CLASSES[name][label], side)
                else:
                    glyphs = digits[split][label]
                    mask = Image.fromarray(glyphs[rng.integers(len(glyphs))])
                    mask = mask.crop(mask.getbbox()).resize((side, side))
                left, top = (int(rng.integers(0, most - side)) for most in size)
                photo.paste(
                    tuple(map(int, rng.integers(256, size=3))), (left, top), mask
                )
                annotations.append(
                    {
                        "id": len(annotations) + 1,
                        "image_id": number,
                        "category_id": label + 1,
                        "bbox": [left, top, side, side],
                        "area": side**2,
                        "iscrowd": 0,
                    }
                )
            noisy = np.asarray(photo) + rng.normal(0, 12, (size[1], size[0], 3))
            Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(
                folder / f"{number}.jpg", quality=90
            )
            images.append(
                {
                    "id": number,
                    "file_name": f"{number}.jpg",
                    "width": size[0],
                    "height": size[1],
                }
            )
        content = {
            "images": images,
            "annotations": annotations,
            "categories": categories,
        }
        (folder / "boxes.json").write_text(json.dumps(content))


def draw_shape(name: str, side: int) -> Image.Image:
    """Draws a filled shape that touches all sides of its box."""
    mask = Image.new("L", (side, side))
    draw, last = ImageDraw.Draw(mask), side - 1
    if name == "circle":
        draw.ellipse((0, 0, last, last), 255)
    elif name == "square":
        draw.rectangle((0, 0, last, last), 255)
    else:
        draw.polygon([(0, last), (last, last), (last // 2, 0)], 255)
    return mask


def read_digits() -> dict[str, list[Any]]:
    """Returns MNIST's images of each class, of its own two splits."""
    splits = {"train": mnist("train"), "val": mnist("t10k")}
    return {
        split: [images[targets == digit] for digit in range(10)]
        for split, (images, targets) in splits.items()
    }


if __name__ == "__main__":
    main()
