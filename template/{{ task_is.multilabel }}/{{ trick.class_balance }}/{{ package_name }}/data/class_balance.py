"""Class balance: positive weights that compensate for the frequencies of the labels.

https://docs.pytorch.org/docs/stable/generated/torch.nn.BCEWithLogitsLoss.html
"""

from typing import NamedTuple

import torch
from torch import Tensor

from ..settings import Settings
from .datasets import Data


class ClassBalance(NamedTuple):
    """Weights that compensate for labels with few training images."""

    class_weights: Tensor | None = None
    """Weight of the images with each label, on the device: float32, shape (labels,)."""


def balance_classes(
    settings: Settings, data: Data, device: torch.device
) -> ClassBalance:
    """Returns the weights of the loss, by the settings."""
    if settings.class_balance == "none":
        return ClassBalance()
    weights = balanced_weights(torch.tensor([*data.train.dataset.targets]))
    return ClassBalance(weights.to(device, torch.float32))


def balanced_weights(targets: Tensor) -> Tensor:
    """Returns negative / positive images of each label, as float64.

    Both then count alike. The weight is 1 for a label that all images have.

    Args:
        targets: of shape (images, labels); each label has images.
    """
    there = targets.double().sum(dim=0)
    without = len(targets) - there
    return torch.where(without > 0, without / there, 1.0)
