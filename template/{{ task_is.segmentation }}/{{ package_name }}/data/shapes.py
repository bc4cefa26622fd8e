"""Data set of procedural images of shapes with masks, which needs no files."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset
from torchvision import tv_tensors

from .drawing import contrasting_colours, in_axes_of, inside, with_noise


class Shapes(Dataset[tuple[Tensor, Tensor]]):
    """One or two noisy shapes per image, with random places, sizes, angles and colour.

    Image `index` is the same on every machine and in every epoch: the split and the
    index seed its generator.

    Args:
        train: 8,192 training images; otherwise 2,048 validation images.
        image_size: height and width of the images in pixels.
    """

    def __init__(self, train: bool, image_size: Sequence[int] = (32, 32)) -> None:
        shapes = ["circle", "cross", "ring", "square", "star", "triangle"]
        self.names = ["background", *shapes]
        self.train = train
        self.length = 8192 if train else 2048
        axes = [(np.arange(n, dtype=np.float32) + 0.5) / n - 0.5 for n in image_size]
        self.y, self.x = np.meshgrid(*axes, indexing="ij")

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        """Returns a uint8 image of shape (3, *image_size), and its mask.

        The mask is uint8 of shape image_size.
        """
        if not 0 <= index < self.length:
            raise IndexError(index)
        rng = np.random.default_rng((self.train, index))
        background, colour = contrasting_colours(rng)
        image = np.broadcast_to(background, (3, *self.x.shape))
        mask = np.zeros(self.x.shape, dtype=np.uint8)
        # One shape per half of the image, so that none hides the other.
        for centre_x in rng.permutation([-0.25, 0.25])[: rng.integers(1, 3)]:
            number = rng.integers(1, len(self.names))
            radius = rng.uniform(0.18, 0.25)
            centre_y = rng.uniform(radius - 0.5, 0.5 - radius)
            angle = rng.uniform(0, 2 * np.pi)
            centre = centre_x, centre_y
            x, y = in_axes_of(self.x, self.y, centre, radius, angle)
            covered = inside(self.names[number], x, y)
            image = np.where(covered, colour, image)
            mask[covered] = number
        return with_noise(image, rng), tv_tensors.Mask(torch.from_numpy(mask))
