"""Images with a green and a red dot, whose places are to be found.

Their own image files have these places in a list, in pixels: `3 4; 10 12`.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torchvision import tv_tensors

from ..settings import Settings
from ..targets import POINTS
from .image_files import read_image
from .images import ArrayImages
from .own_images import FileImages

DOT = 1 / 16
"""Radius of the disc that marks a point, as a share of the shorter side of its image."""


def draw_points(
    points: Sequence[tuple[float, float]], height: int, width: int
) -> Tensor:
    """Returns a mask of shape (points, height, width), which is 1 in a disc at each point.

    Transforms move it with its image: coordinates would stay where they are.
    """
    y, x = torch.arange(height)[:, None], torch.arange(width)
    reach = max(DOT * min(height, width), 1)
    squares = [(x - px) ** 2 + (y - py) ** 2 for px, py in points]
    return tv_tensors.Mask(torch.stack([s <= reach**2 for s in squares]).byte())


class PointFiles(FileImages):
    """Image files whose targets are points in the pixels of each file."""

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image = read_image(self.files[index])
        return image, draw_points(self.targets[index], *image.shape[1:])


def make_images(count: int, size: Sequence[int]) -> ArrayImages:
    rng = np.random.default_rng(count)
    pixels = rng.uniform(0, 100, (count, 3, *size))
    targets = []
    for image in pixels:
        points = rng.integers(2, min(size) - 2, (2, 2)).tolist()
        targets.append(draw_points(points, *size))
        for channel, mask in zip((1, 0), targets[-1]):
            image[channel][mask.bool()] += 150
    return ArrayImages(torch.from_numpy(pixels).byte(), targets, [*POINTS])


def open_own(
    _settings: Settings, size: Sequence[int]
) -> tuple[ArrayImages, ArrayImages]:
    return make_images(192, size), make_images(64, size)
