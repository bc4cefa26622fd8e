"""Mixup (arXiv:1710.09412)."""

from collections.abc import Callable

import torch
from torch import Tensor

from ..settings import Settings

Mixup = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def make_mixup(settings: Settings, _outputs: int) -> Mixup:
    """Returns a function that mixes each image and its targets with another sample.

    It maps float images (N, C, H, W) and float targets (N, numbers) to tensors of the same
    shapes. An alpha of 0 turns it off.
    """
    alpha = settings.mixup_alpha
    if alpha == 0:
        return lambda images, targets: (images, targets)
    shares = torch.distributions.Beta(alpha, alpha)

    def mix(images: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        share = float(shares.sample())  # One share for the batch, as in the paper.
        return blend(images, share), blend(targets, share)

    return mix


def blend(values: Tensor, share: float) -> Tensor:
    """Mixes values with their neighbours in the batch."""
    return torch.lerp(values, values.roll(1, 0), share)
