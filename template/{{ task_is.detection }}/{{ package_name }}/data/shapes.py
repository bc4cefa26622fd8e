"""Data set of procedural images of shapes with boxes, which needs no files."""

from collections.abc import Sequence

import numpy as np
from torch import Tensor
from torch.utils.data import Dataset

from .boxes import Boxes, make_boxes
from .drawing import contrasting_colours, in_axes_of, inside, with_noise

QUARTERS = np.array([[-1, -1], [-1, 1], [1, -1], [1, 1]])
"""Signs of the coordinates in the quarters of an image, whose centre is the origin."""


class Shapes(Dataset[tuple[Tensor, Boxes]]):
    """Up to three noisy shapes per image, with random places, sizes, angles and colour.

    A tenth of the images are empty, and edges cut some shapes. Image `index` is the same
    on every machine and in every epoch: the split and the index seed its generator.

    Args:
        train: 4,096 training images; otherwise 1,024 validation images.
        image_size: height and width of the images in pixels.
    """

    def __init__(self, train: bool, image_size: Sequence[int] = (64, 64)) -> None:
        self.names = ["circle", "cross", "ring", "square", "star", "triangle"]
        self.train = train
        self.length = 4096 if train else 1024
        axes = [(np.arange(n, dtype=np.float32) + 0.5) / n - 0.5 for n in image_size]
        self.y, self.x = np.meshgrid(*axes, indexing="ij")

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[Tensor, Boxes]:
        """Returns a uint8 image of shape (3, *image_size), and its boxes."""
        if not 0 <= index < self.length:
            raise IndexError(index)
        rng = np.random.default_rng((self.train, index))
        background, colour = contrasting_colours(rng)
        image = np.broadcast_to(background, (3, *self.x.shape))
        count = (rng.integers(10) + 2) // 3
        corners, classes = [], []
        # One shape per quarter of the image, so that none hides another.
        for quarter in rng.permutation(QUARTERS)[:count]:
            number = rng.integers(len(self.names))
            radius = rng.uniform(0.13, 0.22)
            farthest = rng.choice([0.5, 0.5, 0.65]) - radius
            centre_y, centre_x = quarter * rng.uniform(radius, farthest, size=2)
            angle = rng.uniform(0, 2 * np.pi)
            centre = centre_x, centre_y
            x, y = in_axes_of(self.x, self.y, centre, radius, angle)
            covered = inside(self.names[number], x, y)
            image = np.where(covered, colour, image)
            rows, columns = covered.nonzero()
            if len(rows):  # Otherwise it is between the pixels of a tiny image.
                start, end = (columns.min(), rows.min()), (columns.max(), rows.max())
                corners.append([*start, *(1 + place for place in end)])
                classes.append(int(number))
        crowd = [False] * len(classes)
        return with_noise(image, rng), make_boxes(corners, classes, crowd, self.x.shape)
