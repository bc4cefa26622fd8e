"""Data set of procedural images of shapes, which needs no files."""

from collections.abc import Sequence

import numpy as np
from torch import Tensor
from torch.utils.data import Dataset

from .drawing import contrasting_colours, in_axes_of, inside, with_noise

KINDS = ("circle", "cross", "ring", "square", "star", "triangle")


class Shapes(Dataset[tuple[Tensor, tuple[float, float]]]):
    """One noisy shape per image, with random place, size, angle and colours.

    The targets are its centre in pixels: x from the left, and y from the top.
    Image `index` is the same on every machine and in every epoch: the split and the
    index seed its generator.

    Args:
        train: 8,192 training images; otherwise 2,048 validation images.
        image_size: height and width of the images in pixels.
    """

    def __init__(self, train: bool, image_size: Sequence[int] = (32, 32)) -> None:
        self.names = ["x", "y"]
        self.train = train
        self.length = 8192 if train else 2048
        self.image_size = image_size

    def __len__(self) -> int:
        return self.length

    @property
    def targets(self) -> list[tuple[float, float]]:
        """Places of all shapes, the first random numbers of each image."""
        return [self.place(self.generator(index)) for index in range(self.length)]

    def generator(self, index: int) -> np.random.Generator:
        """Returns the random generator of an image."""
        return np.random.default_rng((self.train, index))

    def place(self, rng: np.random.Generator) -> tuple[float, float]:
        """Draws the centre of a shape inside the image."""
        height, width = self.image_size
        x, y = rng.uniform(0.25, 0.75, size=2) * (width, height)
        return float(x), float(y)

    def __getitem__(self, index: int) -> tuple[Tensor, tuple[float, float]]:
        """Returns a uint8 image of shape (3, *image_size) and its two targets."""
        if not 0 <= index < self.length:
            raise IndexError(index)
        rng = self.generator(index)
        target = self.place(rng)
        radius = rng.uniform(0.15, 0.25) * min(self.image_size)
        angle = rng.uniform(0, 2 * np.pi)
        y, x = np.ogrid[: self.image_size[0], : self.image_size[1]]
        x, y = in_axes_of(x + 0.5, y + 0.5, target, radius, angle)
        background, colour = contrasting_colours(rng)
        kind = KINDS[rng.integers(len(KINDS))]
        image = np.where(inside(kind, x, y), colour, background)
        return with_noise(image, rng), target
