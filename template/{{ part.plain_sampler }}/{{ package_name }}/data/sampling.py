"""Order of the training images."""

from collections.abc import Iterator
from itertools import islice

import torch
from torch.utils.data import Sampler


class EpochSampler(Sampler[int]):
    """Shuffles in every pass over the images.

    An epoch is a pass, or goes on where the last one ended.

    Args:
        length: number of images.
        samples: samples of an epoch. None: each image once.
    """

    def __init__(self, length: int, samples: int | None = None) -> None:
        self.length = length
        self.samples = samples
        self.order = endless_order(length)

    def __len__(self) -> int:
        return self.samples or self.length

    def __iter__(self) -> Iterator[int]:
        if self.samples is None:  # Whether or not the last epoch was read to its end.
            return iter(torch.randperm(self.length).tolist())
        return islice(self.order, self.samples)


def endless_order(length: int) -> Iterator[int]:
    """Yields the indices of one pass after the other, shuffled."""
    while True:
        yield from torch.randperm(length).tolist()
