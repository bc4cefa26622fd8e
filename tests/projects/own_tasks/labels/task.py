"""The task, which is multi-label classification: any number of labels for an image."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from pydantic import BaseModel
from torch import Tensor, nn
from torch.nn import functional as F

from .settings import Settings

METRICS = {"loss": ".4f", "f1": ".2%"}
RESULT = "f1"
BEST = max
PREDICTION = {"label": "", "probability": ".1%"}
LABELS = ("red", "green", "blue")
OUTPUT = "probabilities"

TARGET_DTYPE = torch.float32
LABEL_FLAGS = "--label-column"


Numbers = tuple[float, ...]


class PredictionOptions(BaseModel, frozen=True):
    """There are none."""


class Task(NamedTuple):
    names: list[str]

    @classmethod
    def of(cls, train: Any, val: Any) -> "Task":
        return cls(train.names)

    @property
    def outputs(self) -> int:
        return len(self.names)

    def make_criterion(self, _settings: Settings) -> "Criterion":
        return Criterion()

    def interpret(self, logits: Tensor, options: object) -> list[tuple[str, float]]:
        return list(zip(self.names, logits.sigmoid().tolist()))

    def make_activation(self) -> nn.Module:
        return nn.Sigmoid()


def target_cells(target: Any, _names: list[str]) -> dict[str, Any]:
    """Returns the cells of a target in a row of CSV, by the columns."""
    return {"target": target}


def csv_cells(prediction: list[tuple[str, float]]) -> dict[str, Any]:
    return dict(prediction)


def as_json(prediction: list[tuple[str, float]]) -> Any:
    return dict(prediction)


def label_columns(settings: Settings) -> list[str]:
    return [settings.label_column]


def parse_label(cells: list[str], settings: Settings) -> Numbers:
    """Reads `red;blue`, or `none`."""
    names = [] if cells == ["none"] else cells[0].split(";")
    if unknown := {*names} - {*LABELS}:
        raise ValueError(f"unknown labels: {', '.join(unknown)}")
    return tuple(float(name in names) for name in LABELS)


def number_labels(labels: list[Numbers]) -> tuple[list[Numbers], list[str]]:
    return labels, list(LABELS)


def translation(own: list[str], names: list[str]) -> Callable[[Numbers], Numbers]:
    return lambda target: target


def group_of(target: Numbers) -> object:
    return None


def describe_targets(
    train: Sequence[Numbers], val: Sequence[Numbers], names: list[str]
) -> list[str]:
    return [f"targets: {', '.join(names)}"]


def derive(sums: dict[str, Tensor], samples: int) -> dict[str, float]:
    right, wrong, missed = sums["counts"]
    f1 = 2 * right / (2 * right + wrong + missed).clamp(min=1)
    return {"loss": sums["loss"].item() / samples, "f1": f1.mean().item()}


def distance(logits: Tensor, taught: Tensor, temperature: float) -> Tensor:
    logits, soft = logits / temperature, (taught / temperature).sigmoid()
    loss = F.binary_cross_entropy_with_logits(logits, soft, reduction="sum")
    return loss * temperature**2 / len(LABELS)


class Criterion(nn.Module):
    def forward(
        self, logits: Tensor, targets: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        loss = F.binary_cross_entropy_with_logits(logits, targets, reduction="sum")
        found, there = logits > 0, targets > 0.5
        counts = (found & there, found & ~there, ~found & there)
        sums = torch.stack([count.sum(dim=0) for count in counts])
        return loss / len(LABELS), {"counts": sums}
