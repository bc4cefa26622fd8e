"""Gradient accumulation: several micro-batches per optimizer step.

https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from ..data.images import Batch


@dataclass
class Window:
    """The micro-batches of one optimizer step, read one by one.

    Each loss is weighted by its share of the samples of the window. Otherwise a short
    last window or batch would have a wrong weight.
    """

    batches: Iterator[Batch]
    length: int

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[Batch]:
        return islice(self.batches, self.length)


def windows(batches: Iterator[Batch], left: int, steps: int) -> Iterator[Window]:
    """Yields windows of `steps` micro-batches. The last window may be shorter.

    Args:
        left: number of remaining batches.
    """
    for remaining in range(left, 0, -steps):
        yield Window(batches, min(steps, remaining))
