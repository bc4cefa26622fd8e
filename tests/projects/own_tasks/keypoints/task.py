"""The task, which is to find two points on an image.

A model returns a map for each point, whose softmax over the pixels is the probability that the
point is there. The target is a map as well: a disc at the point, or zeros if it is not visible.
"""

from typing import Any, NamedTuple

import torch
from pydantic import BaseModel
from torch import Tensor, nn

from .settings import Settings

METRICS = {"loss": ".4f", "error": ".2f", "found": ".2%"}
RESULT = "found"
BEST = max
PREDICTION = {"point": "", "x": ".1f", "y": ".1f"}

OUTPUT = "points"

NEAR = 2
"""Pixels of the prepared image within which a point counts as found."""


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

    def interpret(
        self, logits: Tensor, options: object
    ) -> list[tuple[str, float, float]]:
        """Returns the points with their places in the prepared image, in pixels."""
        [places] = Places()(logits[None]).tolist()
        return [(name, x, y) for name, (x, y) in zip(self.names, places)]

    def make_activation(self) -> nn.Module:
        return Places()


class Places(nn.Module):
    """Maps logits of shape (N, points, H, W) to places of shape (N, points, 2)."""

    def forward(self, logits: Tensor) -> Tensor:
        return centres(logits.flatten(2).softmax(dim=2).view_as(logits))


def centres(maps: Tensor) -> Tensor:
    """Returns x and y of the mean pixel of each map, whose pixels sum to 1."""
    x = torch.arange(maps.shape[3], device=maps.device, dtype=maps.dtype)
    y = torch.arange(maps.shape[2], device=maps.device, dtype=maps.dtype)
    # No matrix products, which mixed precision would compute in 16 bits.
    columns, rows = maps.sum(dim=2), maps.sum(dim=3)
    return torch.stack([(columns * x).sum(dim=2), (rows * y).sum(dim=2)], dim=2)


def csv_cells(prediction: list[tuple[str, float, float]]) -> dict[str, Any]:
    cells: dict[str, Any] = {}
    for name, x, y in prediction:
        cells |= {f"{name}_x": x, f"{name}_y": y}
    return cells


def as_json(prediction: list[tuple[str, float, float]]) -> Any:
    return {name: [x, y] for name, x, y in prediction}


def derive(sums: dict[str, Tensor], samples: int) -> dict[str, float]:
    points = sums["points"].clamp(min=1)
    return {
        "loss": sums["loss"].item() / samples,
        "error": (sums["distances"] / points).item(),
        "found": (sums["near"] / points).item(),
    }


class Criterion(nn.Module):
    def forward(
        self, logits: Tensor, targets: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Returns the cross-entropy, as the mean over the visible points of a sample."""
        mass = targets.sum(dim=(2, 3))
        visible = mass > 0  # A crop may leave a point outside.
        shares = targets / mass.clamp(min=1)[:, :, None, None]
        logs = logits.flatten(2).log_softmax(dim=2)
        losses = -(shares.flatten(2) * logs).sum(dim=2)
        loss = (losses.sum(dim=1) / visible.sum(dim=1).clamp(min=1)).sum()
        found = centres(logs.exp().view_as(logits))
        distances = (found - centres(shares)).norm(dim=2)
        return loss, {
            "points": visible.sum(),
            "distances": (distances * visible).sum(),
            "near": ((distances < NEAR) & visible).sum(),
        }


def compute_loss(
    model: nn.Module, criterion: nn.Module, inputs: Tensor, targets: Tensor
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    outputs = model(inputs).float()
    return outputs, *criterion(outputs, targets)
