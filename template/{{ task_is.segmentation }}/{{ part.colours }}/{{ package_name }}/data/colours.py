"""Colour palette of classes, and overlays of masks on images."""

import torch
from torch import Tensor


def palette(classes: int) -> Tensor:
    """Returns the colours of PASCAL VOC, uint8 of shape (classes, 3), from black on.

    The low bits of a class number are the high bits of red, green and blue in turn.
    """
    numbers = torch.arange(classes)
    colours = torch.zeros(classes, 3, dtype=torch.int64)
    for place in range(8):
        channel, shift = place % 3, 7 - place // 3
        colours[:, channel] |= (numbers >> place & 1) << shift
    return colours.byte()


def overlay(images: Tensor, masks: Tensor, colours: Tensor) -> Tensor:
    """Blends images, uint8 of shape (..., 3, H, W), with the colours of their classes.

    Pixels of class 0 (usually the background) and ignored pixels do not change.

    Args:
        images: uint8 of shape (..., 3, H, W).
        masks: class numbers of shape (..., H, W).
        colours: colour of each class, of shape (classes, 3).
    """
    coloured = (masks > 0) & (masks < len(colours))
    chosen = colours[masks.where(coloured, 0).long()].movedim(-1, -3)
    return torch.where(coloured.unsqueeze(-3), images // 2 + chosen // 2, images)
