"""Letterboxing of images with their boxes."""

from collections.abc import Sequence
from typing import Any

from torchvision.transforms import v2


class Resize(v2.Resize):
    """Resizes an image to fit into a height and width, in its aspect ratio."""

    def transform(self, inpt: Any, _params: dict[str, Any]) -> Any:
        size = fitting_size(v2.functional.get_size(inpt), self.size)
        return v2.functional.resize(inpt, size, self.interpolation)


class PadTo(v2.Transform):
    """Pads an image to a height and width, on the right and at the bottom.

    A box in the image is then one in the original times one factor.
    """

    def __init__(self, size: Sequence[int], fill: Sequence[float]) -> None:
        super().__init__()
        self.size = size
        self.fill = fill

    def transform(self, inpt: Any, _params: dict[str, Any]) -> Any:
        height, width = v2.functional.get_size(inpt)
        padding = [0, 0, self.size[1] - width, self.size[0] - height]
        return v2.functional.pad(inpt, padding, fill=self.fill)


def fitting_size(size: Sequence[int], limit: Sequence[int]) -> list[int]:
    """Returns the largest height and width in a limit, in the ratio of a size."""
    factor = min(most / side for side, most in zip(size, limit))
    return [max(1, round(factor * side)) for side in size]
