"""Images of one colour, with how red and how green it is as two numbers from -1 to 1."""

import numpy as np
import torch

from ..settings import Settings
from .images import ArrayImages


def make_images(count: int, size: int) -> ArrayImages:
    rng = np.random.default_rng(count)
    colours = rng.uniform(-1, 1, (count, 3, 1, 1))
    pixels = 128 + 100 * colours + rng.normal(0, 5, (count, 3, size, size))
    targets = [(float(red), float(green)) for red, green, _ in colours[:, :, 0, 0]]
    return ArrayImages(
        torch.from_numpy(pixels.clip(0, 255)).byte(), targets, ["red", "green"]
    )


def open_own(_settings: Settings, size: int) -> tuple[ArrayImages, ArrayImages]:
    return make_images(192, size), make_images(64, size)
