"""Procedural images of shapes: a data set that needs no files and can be learned."""

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset


class Shapes(Dataset[tuple[Tensor, int]]):
    """One noisy shape an image, with random place, size, angle and colours.

    Image `index` is the same on every machine and in every epoch: it is drawn from a
    generator seeded with the split and the index.

    Args:
        train: 8,192 training images, or else 2,048 validation images.
        image_size: side of the images in pixels.
    """

    def __init__(self, train: bool, image_size: int = 32) -> None:
        self.classes = ["circle", "cross", "ring", "square", "star", "triangle"]
        self.train = train
        self.length = 8192 if train else 2048
        axis = (np.arange(image_size, dtype=np.float32) + 0.5) / image_size - 0.5
        self.y, self.x = np.meshgrid(axis, axis, indexing="ij")

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """Returns a uint8 image of shape (3, image_size, image_size) and its class."""
        if not 0 <= index < self.length:
            raise IndexError(index)
        rng = np.random.default_rng((self.train, index))
        target = int(rng.integers(len(self.classes)))
        radius = rng.uniform(0.2, 0.4)
        centre_x, centre_y = rng.uniform(radius - 0.5, 0.5 - radius, size=2)
        angle = rng.uniform(0, 2 * np.pi)
        x, y = (self.x - centre_x) / radius, (self.y - centre_y) / radius
        x, y = (
            x * np.cos(angle) + y * np.sin(angle),
            y * np.cos(angle) - x * np.sin(angle),
        )
        background, colour = contrasting_colours(rng)
        image = np.where(inside(self.classes[target], x, y), colour, background)
        image = image + rng.normal(0, 20, size=image.shape)
        return torch.from_numpy(image.clip(0, 255).astype(np.uint8)), target


def inside(shape: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Returns which points lie in a shape of radius 1 around the origin."""
    radius = np.hypot(x, y)
    match shape:
        case "circle":
            return radius < 0.8
        case "cross":
            return (np.minimum(abs(x), abs(y)) < 0.25) & (radius < 1)
        case "ring":
            return (radius > 0.55) & (radius < 0.95)
        case "square":
            return np.maximum(abs(x), abs(y)) < 0.75
        case "star":
            return radius < 0.65 + 0.35 * np.cos(5 * np.arctan2(y, x))
        case _:  # A triangle with its corners at radius 1.
            return np.maximum(abs(x) * np.sqrt(3) + y, -2 * y) < 1


def contrasting_colours(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draws two RGB colours of shape (3, 1, 1) that differ clearly in one channel."""
    first = rng.uniform(0, 255, size=(3, 1, 1))
    second = rng.uniform(0, 255, size=(3, 1, 1))
    channel = rng.integers(3)
    second[channel] = (first[channel] + rng.uniform(90, 165)) % 255
    return first, second
