"""The small world of the tests: few and small images, and small models."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from small_targets import NAMES, small_target
from torch import Tensor, nn

from leaf_diseases.data.images import ArrayImages
from leaf_diseases.data.own_data import draw_points
from leaf_diseases.data.shapes import Shapes
from leaf_diseases.data.transforms import Preprocessing
from leaf_diseases.models.pixel_cnn import PixelCNN


class FewShapes(Shapes):
    """The first 22 training images, or the first 10 validation images."""

    def __init__(self, train: bool, image_size: Sequence[int] = (32, 32)) -> None:
        super().__init__(train, image_size)
        self.length = 22 if train else 10
        self.names = NAMES

    def __getitem__(self, index: int) -> Any:
        image, number = super().__getitem__(index)
        return image, draw_points([(1, number), (6, number)], *image.shape[1:])


def make_tiny_images(count: int, size: int = 8) -> ArrayImages:
    """Returns images of noise, the same ones every time."""
    rng, shape = np.random.default_rng(count), (count, 3, size, size)
    pixels = torch.from_numpy(rng.integers(256, size=shape, dtype=np.uint8))
    targets = [small_target(index % 6) for index in range(count)]
    return ArrayImages(pixels, targets, NAMES)


class LinearModel(nn.Module):
    """Has no batch-norm, and weights of float64, so that results can be compared.

    Its outputs are of float32, as those of other models.
    """

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Conv2d(3, outputs, 1).double()

    def forward(self, images: Tensor) -> Tensor:
        return self.linear(images.double()).float()


def build_linear_model(
    name: str, outputs: int, preprocessing: Preprocessing
) -> LinearModel:
    return LinearModel(outputs)


def rgb(*size: int) -> Preprocessing:
    """Returns the preprocessing of RGB images to a height and width."""
    return Preprocessing(size, size, (0.5,) * 3, (0.5,) * 3)


SMALL = "pixels"

SmallModel = PixelCNN

narrow_cnn = partial(SmallModel, width=2)
"""The network that SMALL names in the tests."""
