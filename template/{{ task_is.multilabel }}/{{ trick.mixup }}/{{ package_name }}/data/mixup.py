"""Mixup (arXiv:1710.09412) and CutMix (arXiv:1905.04899)."""

from collections.abc import Callable

from torch import Tensor, nn
from torchvision.transforms import v2

from ..settings import Settings

Mixup = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def make_mixup(settings: Settings, _outputs: int) -> Mixup:
    """Returns a function that mixes each image and its labels with another sample.

    It maps float images (N, C, H, W) and targets (N, labels) to those of the same shapes.
    Each batch gets Mixup or CutMix; an alpha of 0 turns one off.
    """
    choices: list[nn.Module] = []
    if settings.mixup_alpha > 0:
        choices.append(v2.MixUp(alpha=settings.mixup_alpha))
    if settings.cutmix_alpha > 0:
        choices.append(v2.CutMix(alpha=settings.cutmix_alpha))
    if not choices:
        return lambda images, targets: (images, targets)
    return v2.RandomChoice(choices)
