"""Images with a red square, and their masks."""

import numpy as np
import torch
from torchvision import tv_tensors

from ..settings import Settings
from .images import ArrayImages


def make_images(count: int, size: int) -> ArrayImages:
    rng = np.random.default_rng(count)
    pixels = rng.uniform(0, 150, (count, 3, size, size))
    masks = np.zeros((count, size, size), np.int64)
    for image, mask in zip(pixels, masks):
        top, left = rng.integers(size // 2, size=2)
        place = slice(top, top + size // 2), slice(left, left + size // 2)
        image[0][place] += 100
        mask[place] = 1
    # As masks, they are cropped and mirrored with their images.
    targets = [tv_tensors.Mask(mask) for mask in torch.from_numpy(masks)]
    return ArrayImages(
        torch.from_numpy(pixels).byte(), targets, ["background", "square"]
    )


def open_own(_settings: Settings, size: int) -> tuple[ArrayImages, ArrayImages]:
    return make_images(192, size), make_images(64, size)
