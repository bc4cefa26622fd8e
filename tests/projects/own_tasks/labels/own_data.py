"""Images with a red, a green and a blue patch, or only some of them."""

import numpy as np
import torch

from ..settings import Settings
from .images import ArrayImages


def make_images(count: int, size: int) -> ArrayImages:
    rng = np.random.default_rng(count)
    pixels = rng.uniform(0, 120, (count, 3, size, size))
    there = rng.integers(2, size=(count, 3))
    for image, label in np.argwhere(there):
        top, left = rng.integers(size - 4, size=2)
        pixels[image, label, top : top + 4, left : left + 4] += 130
    targets = [tuple(map(float, row)) for row in there]
    return ArrayImages(
        torch.from_numpy(pixels).byte(), targets, ["red", "green", "blue"]
    )


def open_own(_settings: Settings, size: int) -> tuple[ArrayImages, ArrayImages]:
    return make_images(192, size), make_images(64, size)
