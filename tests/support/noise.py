"""Trains on noisy labels in a project, and tells what averaging the weights is worth.

Run it in a project with `ema`, as `noise.py PACKAGE SEEDS`. The last line is a JSON list of the gains in
accuracy on images with the right labels, one for each seed.
"""

import importlib
import json
import sys
import tempfile
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

SCRIPT = str(Path(__file__))

RUN = {
    "image_size": 8,
    "epochs": 16,
    "batch_size": 16,
    "lr": 0.03,
    "num_workers": 0,
    "device": "cpu",
}


class NoisyImages(Dataset):
    """512 images with a faint colour of their class; to train on, with many wrong labels."""

    def __init__(self, train: bool, image_size: int) -> None:
        self.names = list("abcdef")
        size = (3, image_size, image_size)
        colours = torch.randn(6, 3, 1, 1, generator=torch.Generator().manual_seed(0))
        drawn = torch.Generator().manual_seed(1 + train)
        self.targets = torch.randint(6, (512,), generator=drawn)
        noise = torch.randn(512, *size, generator=drawn)
        images = 128 + 8 * colours[self.targets] + 40 * noise
        self.images = images.clip(0, 255).to(torch.uint8)
        if train:
            wrong = torch.rand(512, generator=drawn) < 0.3
            others = torch.randint(6, (512,), generator=drawn)
            self.targets = torch.where(wrong, others, self.targets)

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.images[index], int(self.targets[index])


def build(name: str, outputs: int, example: Tensor) -> nn.Module:
    linear = nn.Linear(example[0].numel(), outputs)
    return nn.Sequential(nn.BatchNorm2d(3), nn.Flatten(), linear)


def main(package: str, seeds: int) -> None:
    train = importlib.import_module("train")
    settings = importlib.import_module(f"{package}.settings").Settings
    importlib.import_module(f"{package}.data.datasets").Shapes = NoisyImages
    importlib.import_module(f"{package}.models.networks").build_model = build
    gains = []
    for seed in range(seeds):
        torch.manual_seed(seed)
        with tempfile.TemporaryDirectory() as directory:
            own = {"seed": seed} if hasattr(settings, "seed") else {}
            run = train.make_run(settings(**RUN, **own, run_dir=Path(directory, "run")))
            run.directory.mkdir()  # For its readings.
            gains.append(gain(train, run))
    print(json.dumps(gains))


def gain(train: Any, run: Any) -> float:
    """Returns how much more accurate the average is at the ends of the later epochs."""
    # Late in a run that goes on for long, the rate is as high as this.
    run.scheduler.lr_lambdas = [lambda step: 1.0]
    gains = []
    for epoch in range(run.settings.epochs):
        train.train_epoch(run)
        run.progress.epoch += 1
        if epoch >= run.settings.epochs // 2:
            models = run.model, train.evaluation_model(run)
            plain, averaged = (train.evaluate(run, model) for model in models)
            gains.append(averaged["accuracy"] - plain["accuracy"])
    return fmean(gains)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
