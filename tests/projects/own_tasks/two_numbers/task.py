"""The task, which is a regression of two numbers: how red and how green an image is."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from pydantic import BaseModel
from torch import Tensor, nn
from torch.nn import functional as F

from .settings import Settings

METRICS = {"loss": ".4f", "error": ".3f", "r2": ".3f"}
RESULT = "r2"
BEST = max
PREDICTION = {"name": "", "value": ".3f"}
OUTPUT = "numbers"

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

    def interpret(self, outputs: Tensor, options: object) -> list[tuple[str, float]]:
        return list(zip(self.names, outputs.tolist()))

    def make_activation(self) -> nn.Module:
        return nn.Identity()


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
    """Reads `0.25 -0.5`."""
    numbers = tuple(map(float, cells[0].split()))
    if len(numbers) != 2:
        raise ValueError(f"{len(numbers)} numbers")
    return numbers


def number_labels(labels: list[Numbers]) -> tuple[list[Numbers], list[str]]:
    return labels, ["red", "green"]


def translation(own: list[str], names: list[str]) -> Callable[[Numbers], Numbers]:
    return lambda target: target


def group_of(target: Numbers) -> object:
    return None


def describe_targets(
    train: Sequence[Numbers], val: Sequence[Numbers], names: list[str]
) -> list[str]:
    return [f"targets: {', '.join(names)}"]


def derive(sums: dict[str, Tensor], samples: int) -> dict[str, float]:
    metrics = {name: sums[name].item() / samples for name in ("loss", "error")}
    # The share of the variance that is explained, as the mean over both numbers.
    variance = sums["squares"] / samples - (sums["targets"] / samples) ** 2
    unexplained = sums["squared_errors"] / samples
    metrics["r2"] = (1 - unexplained / variance.clamp(min=1e-6)).mean().item()
    return metrics


def distance(outputs: Tensor, taught: Tensor, _temperature: float) -> Tensor:
    return F.mse_loss(outputs, taught, reduction="sum") / outputs.shape[1]


class Criterion(nn.Module):
    def forward(
        self, outputs: Tensor, targets: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        errors, exact = (outputs - targets).double(), targets.double()
        loss = F.mse_loss(outputs, targets, reduction="sum") / outputs.shape[1]
        return loss, {
            "error": errors.abs().mean(dim=1).sum(),
            "targets": exact.sum(dim=0),
            "squares": exact.square().sum(dim=0),
            "squared_errors": errors.square().sum(dim=0),
        }
