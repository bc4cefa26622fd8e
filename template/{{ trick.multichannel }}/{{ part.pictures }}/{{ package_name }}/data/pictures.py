"""Pictures of images with any number of channels."""

from collections.abc import Sequence

from torch import Tensor

LOW, HIGH = 0.02, 0.98
"""Quantiles of a channel that become black and white."""


def to_pictures(images: Tensor, shown: Sequence[int]) -> Tensor:
    """Converts images, normalized or not, to RGB, uint8 of shape (..., 3, H, W).

    Each channel of an image is stretched between its quantiles LOW and HIGH.

    Args:
        images: shape (..., channels, H, W).
        shown: numbers of the channels for red, green and blue, from 1, or one number for
            grey. Empty: the first three, or the first one if there are fewer.
    """
    count = images.shape[-3]
    numbers = [*shown] or ([1, 2, 3] if count >= 3 else [1])
    numbers = numbers * 3 if len(numbers) == 1 else numbers
    chosen = images[..., [number - 1 for number in numbers], :, :].float()
    ordered = chosen.flatten(-2).sort().values
    last = ordered.shape[-1] - 1
    low, high = (ordered[..., round(q * last), None, None] for q in (LOW, HIGH))
    return ((chosen - low) / (high - low).clamp(min=1e-12)).clamp(0, 1).mul(255).byte()
