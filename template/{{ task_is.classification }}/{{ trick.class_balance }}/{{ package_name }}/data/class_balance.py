"""Class balance: weights that compensate for the frequencies of the classes.

https://scikit-learn.org/stable/modules/generated/sklearn.utils.class_weight.compute_class_weight.html
"""

from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import UserError
from ..settings import Settings
from .datasets import Data


class ClassBalance(NamedTuple):
    """Weights that compensate for classes with few training images."""

    class_weights: Tensor | None = None
    """Weight of each class in the loss, on the device: float32 of shape (classes,)."""
    sampling_weights: Tensor | None = None
    """Weight of each image in sampling, on the CPU: float64 of shape (images,)."""


def balance_classes(
    settings: Settings, data: Data, device: torch.device
) -> ClassBalance:
    """Returns the weights of the loss or of the sampler, by the settings."""
    if settings.class_balance == "none":
        return ClassBalance()
    targets = torch.tensor([*data.train.dataset.targets])
    weights = balanced_weights(targets, data.task.names)
    if settings.class_balance == "sampler":
        return ClassBalance(sampling_weights=weights[targets])
    return ClassBalance(class_weights=weights.to(device, torch.float32))


def balanced_weights(targets: Tensor, classes: list[str]) -> Tensor:
    """Returns images / (classes * images of the class) for each class, as float64.

    Their mean over all images is one, so that the loss keeps its scale. It is divided
    by the number of images, not by their weights: otherwise a step without rare classes
    would count as much as a step with them.
    """
    counts = targets.bincount(minlength=len(classes))
    missing = [name for name, count in zip(classes, counts.tolist()) if not count]
    if missing:
        raise UserError(
            f"there are no training images of {', '.join(missing)} to balance: "
            "add some, or pass --class-balance none"
        )
    return len(targets) / (len(classes) * counts.double())
