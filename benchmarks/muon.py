"""Muon beside AdamW, each at its best rate: the table of docs/tricks/muon.md.

    TORCH_TRICKS_MNIST=DIRECTORY python benchmarks/muon.py [--rates]

Each line has five pairs of runs with one seed each, on 5,000 digits of MNIST: 40 minutes on one
core. With --rates, it trains once at each rate of both optimizers instead.
"""

import argparse
import importlib
import io
import json
import math
import tempfile
import time
from contextlib import redirect_stdout
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch
from effects import write_data
from measure import import_train, render
from torch import nn
from torch_tricks.measuring.comparing import compare
from torchvision.models import VisionTransformer

SEEDS = range(5)
BATCH, STEPS_PER_EPOCH = 64, 79
STEPS = {"cnn": 316, "transformer": 632}
RATES = (0.001, 0.003, 0.01, 0.03)
BEST = {
    "cnn": {"adamw": 0.01, "muon": 0.01},
    "transformer": {"adamw": 0.001, "muon": 0.01},
}
LONGER = {"cnn": (316, 340, 395), "transformer": (632, 752)}
"""Steps of AdamW: as many as of Muon, in as much processor time as of Muon, and more."""


class Result(NamedTuple):
    """Validation accuracy of a run, and its processor seconds."""

    accuracy: float
    seconds: float


def load_project(directory: Path) -> ModuleType:
    """Imports train.py of a project with Muon, whose models include `transformer`."""
    tricks = "[folders,seeding,muon,device_augment]"
    train = import_train(render(directory, "muon_project", "custom", tricks=tricks))
    networks = importlib.import_module("muon_project.models.networks")
    build = networks.build_model

    def build_model(name: str, outputs: int, preprocessing: Any) -> nn.Module:
        if name != "transformer":
            return build(name, outputs, preprocessing)
        return VisionTransformer(28, 7, 4, 4, 64, 256, num_classes=outputs)

    networks.build_model = build_model
    return train


def learn(
    train: ModuleType, model: str, optimizer: str, rate: float, steps: int, seed: int
) -> Result:
    """Trains once."""
    epochs = math.ceil(steps / STEPS_PER_EPOCH)
    with tempfile.TemporaryDirectory(prefix="bench-muon-") as name:
        run = Path(name, "run")
        settings = train.Settings(
            data="folder",
            data_dir=write_data("5000-digits"),
            data_on_device=True,
            image_size=28,
            batch_size=BATCH,
            epochs=epochs,
            max_steps=steps,
            eval_every=epochs,
            num_workers=0,
            model=model,
            optimizer=optimizer,
            lr=rate,
            seed=seed,
            device="cpu",
            run_dir=run,
        )
        began = time.process_time()
        with redirect_stdout(io.StringIO()):
            train.main(settings)
        seconds = time.process_time() - began
        last = (run / "metrics.jsonl").read_text().splitlines()[-1]
    return Result(json.loads(last)["val_accuracy"], seconds)


def print_rates(train: ModuleType) -> None:
    for (model, steps), optimizer, rate in product(
        STEPS.items(), ("adamw", "muon"), RATES
    ):
        result = learn(train, model, optimizer, rate, steps, seed=0)
        print(f"{model} {optimizer} {rate}: {result.accuracy:.2%}", flush=True)


def print_table(train: ModuleType) -> None:
    for model, rates in BEST.items():
        muon = [
            learn(train, model, "muon", rates["muon"], STEPS[model], s) for s in SEEDS
        ]
        for steps in LONGER[model]:
            adamw = [
                learn(train, model, "adamw", rates["adamw"], steps, s) for s in SEEDS
            ]
            found = compare([r.accuracy for r in adamw], [r.accuracy for r in muon])
            time_ratio = sum(r.seconds for r in muon) / sum(r.seconds for r in adamw)
            print(
                f"| {model} | {steps} steps of AdamW | {found.before:.1%} | {found.after:.1%} "
                f"| {found.mean:+.1%} ± {(found.high - found.low) / 2:.1%} "
                f"| {time_ratio:.2f} of its time |",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rates", action="store_true", help="train at each rate")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="bench-muon-") as directory:
        train = load_project(Path(directory))
        print_rates(train) if arguments.rates else print_table(train)


if __name__ == "__main__":
    main()
