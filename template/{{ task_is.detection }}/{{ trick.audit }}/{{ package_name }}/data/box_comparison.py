"""Comparison of boxes: those of copies, and those of one image."""

from collections import Counter
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torchvision.ops import box_iou

from .boxes import Boxes

ROUNDED = 0.01
"""Share of a side by which corners of the same boxes may differ on equal pixels."""
MOVED = 0.05
"""The same on near copies, of which up to 4 % of a side may be cut off."""
REPEATED = 0.9
"""Overlap (IoU) from which two boxes are of one object."""


def are_same(first: Boxes, second: Boxes, tolerance: float, mirrored: bool) -> bool:
    """Returns whether two images have the same boxes, in shares of their sides.

    They have as many of each class, and each has one of its class in the other image
    whose corners differ by the tolerance at most.

    Args:
        mirrored: whether the second image is mirrored.
    """
    kinds = [kinds_of(boxes) for boxes in (first, second)]
    if not torch.equal(*(numbers.sort().values for numbers in kinds)):
        return False
    if not len(kinds[0]):
        return True
    own, other = shares_of(first), shares_of(second)
    if mirrored:
        other = other[:, [2, 1, 0, 3]]
        other[:, ::2] = 1 - other[:, ::2]
    distances = (own[:, None] - other).abs().amax(dim=2)
    distances[kinds[0][:, None] != kinds[1]] = torch.inf
    farthest = max(distances.amin(dim=dim).max().item() for dim in (0, 1))
    return farthest <= tolerance


def kinds_of(boxes: Boxes) -> Tensor:
    """Returns a number for the class of each box, and another one for its crowds."""
    return 2 * boxes.classes + boxes.crowd


def shares_of(boxes: Boxes) -> Tensor:
    """Returns the corners of boxes as shares of the width and height."""
    height, width = boxes.places.canvas_size
    return boxes.places.as_subclass(Tensor) / torch.tensor([width, height] * 2)


def find_repeated(boxes: Boxes, names: Sequence[str]) -> Iterator[str]:
    """Yields the classes and the overlap of two boxes that are of one object."""
    single = boxes.classes[~boxes.crowd].tolist()
    places = boxes.places.as_subclass(Tensor)[~boxes.crowd]
    overlaps = box_iou(places, places).triu(diagonal=1)
    for row, column in (overlaps >= REPEATED).nonzero().tolist():
        pair = names[single[row]], names[single[column]]
        yield f"{' and '.join(pair)}, IoU {overlaps[row, column]:.2f}"


def name_boxes(boxes: Boxes, names: Sequence[str]) -> str:
    """Returns the number of boxes of each class."""
    pairs = zip(boxes.classes.tolist(), boxes.crowd.tolist())
    counts = Counter(names[number] + " (crowd)" * crowd for number, crowd in pairs)
    return ", ".join(f"{counts[name]} {name}" for name in sorted(counts)) or "no boxes"
