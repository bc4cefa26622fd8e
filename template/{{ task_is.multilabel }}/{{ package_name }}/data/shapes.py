"""Data set of procedural images of shapes, which needs no files."""

from collections.abc import Sequence

import numpy as np
from torch import Tensor
from torch.utils.data import Dataset

from .drawing import contrasting_colours, in_axes_of, inside, with_noise

SHARES = (0.4, 0.3, 0.3, 0.3, 0.2, 0.2)
"""Probability that an image has each of the shapes."""


class Shapes(Dataset[tuple[Tensor, tuple[float, ...]]]):
    """Zero to four noisy shapes per image, with random places, sizes and colours.

    Image `index` is the same on every machine and in every epoch: the split and the
    index seed its generator.

    Args:
        train: 8,192 training images; otherwise 2,048 validation images.
        image_size: height and width of the images in pixels.
    """

    def __init__(self, train: bool, image_size: Sequence[int] = (32, 32)) -> None:
        self.names = ["circle", "cross", "ring", "square", "star", "triangle"]
        self.train = train
        self.length = 8192 if train else 2048
        axes = [(np.arange(n, dtype=np.float32) + 0.5) / n - 0.5 for n in image_size]
        self.y, self.x = np.meshgrid(*axes, indexing="ij")

    def __len__(self) -> int:
        return self.length

    @property
    def targets(self) -> list[tuple[float, ...]]:
        """Labels of all images, the first random numbers of each image."""
        generators = (self.generator(index) for index in range(self.length))
        return [draw_labels(rng) for rng in generators]

    def generator(self, index: int) -> np.random.Generator:
        """Returns the random generator of an image."""
        return np.random.default_rng((self.train, index))

    def __getitem__(self, index: int) -> tuple[Tensor, tuple[float, ...]]:
        """Returns a uint8 image of shape (3, *image_size) and its labels."""
        if not 0 <= index < self.length:
            raise IndexError(index)
        rng = self.generator(index)
        target = draw_labels(rng)
        background, colour = contrasting_colours(rng)
        image = np.broadcast_to(background, (3, *self.x.shape))
        # One shape per quarter of the image, so that none hides another.
        places = rng.permutation(4)
        for number, place in zip(np.flatnonzero(target), places):
            centre_x, centre_y = place % 2 / 2 - 0.25, place // 2 / 2 - 0.25
            radius = rng.uniform(0.18, 0.25)
            centre = centre_x, centre_y
            x, y = in_axes_of(self.x, self.y, centre, radius, angle=0)
            image = np.where(inside(self.names[number], x, y), colour, image)
        return with_noise(image, rng), target


def draw_labels(rng: np.random.Generator) -> tuple[float, ...]:
    """Draws the labels of an image: four shapes or fewer."""
    there = np.ones(len(SHARES), dtype=bool)
    while there.sum() > 4:
        there = rng.uniform(size=len(SHARES)) < SHARES
    return tuple(there.astype(float).tolist())
