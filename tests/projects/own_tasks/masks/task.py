"""The task, which is segmentation: a class for each pixel of an image."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from pydantic import BaseModel
from torch import Tensor, nn
from torch.nn import functional as F
from torchvision import tv_tensors

from .settings import Settings

METRICS = {"loss": ".4f", "accuracy": ".2%", "iou": ".2%"}
RESULT = "iou"
BEST = max
PREDICTION = {"class": "", "area": ".1%"}
NAMES = ("background", "square")

OUTPUT = "probabilities"
TARGET_DTYPE = torch.int64
LABEL_FLAGS = "--label-column"


class PredictionOptions(BaseModel, frozen=True):
    """There are none."""


class Task(NamedTuple):
    names: list[str]

    @classmethod
    def of(cls, train: Any, val: Any) -> "Task":
        return cls(train.names)

    @property
    def outputs(self) -> int:
        return len(NAMES)

    def make_criterion(self, _settings: Settings) -> "Criterion":
        return Criterion()

    def interpret(self, logits: Tensor, options: object) -> list[tuple[str, float]]:
        """Returns the share of the pixels of each class."""
        areas = logits.argmax(dim=0).flatten().bincount(minlength=len(NAMES))
        return list(zip(NAMES, (areas / areas.sum()).tolist()))

    def make_activation(self) -> nn.Module:
        return nn.Softmax(dim=1)


def target_cells(target: Any, _names: list[str]) -> dict[str, Any]:
    """Returns the cells of a target in a row of CSV, by the columns."""
    return {"target": target}


def csv_cells(prediction: list[tuple[str, float]]) -> dict[str, Any]:
    return dict(prediction)


def as_json(prediction: list[tuple[str, float]]) -> Any:
    return dict(prediction)


def label_columns(settings: Settings) -> list[str]:
    return [settings.label_column]


def parse_label(cells: list[str], settings: Settings) -> Tensor:
    """Reads how much of an image is a square, for the tests alone."""
    return tv_tensors.Mask((torch.arange(64).view(8, 8) < 64 * float(cells[0])).long())


def number_labels(labels: list[Tensor]) -> tuple[list[Tensor], list[str]]:
    return labels, list(NAMES)


def translation(own: list[str], names: list[str]) -> Callable[[Tensor], Tensor]:
    return lambda target: target


def group_of(target: Tensor) -> object:
    return None


def describe_targets(
    train: Sequence[Tensor], val: Sequence[Tensor], names: list[str]
) -> list[str]:
    return [f"targets: {', '.join(names)}"]


def derive(sums: dict[str, Tensor], samples: int) -> dict[str, float]:
    pixels = sums["pixels"]
    right = pixels.diagonal()
    union = (pixels.sum(dim=0) + pixels.sum(dim=1) - right).clamp(min=1)
    return {
        "loss": sums["loss"].item() / samples,
        "accuracy": (right.sum() / pixels.sum()).item(),
        "iou": (right / union).mean().item(),
    }


class Criterion(nn.Module):
    def forward(
        self, logits: Tensor, targets: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        loss = F.cross_entropy(logits, targets, reduction="none").mean(dim=(1, 2)).sum()
        pairs = targets * len(NAMES) + logits.argmax(dim=1)
        counts = pairs.flatten().bincount(minlength=len(NAMES) ** 2)
        return loss, {"pixels": counts.view(len(NAMES), len(NAMES))}
