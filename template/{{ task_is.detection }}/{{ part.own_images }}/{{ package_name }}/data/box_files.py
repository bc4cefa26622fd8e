"""Boxes in annotation files, which are checked before training."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from PIL import ExifTags, Image
from PIL.TiffImagePlugin import TiffImageFile
from torch import Tensor

from ..errors import UserError
from .boxes import Boxes, make_boxes
from .image_files import UNREADABLE

RELATIVE = (1, 1)
"""The height and width of an image in which corners are shares of its sides."""
ROUNDING = 1e-3
"""Share of a side by which numbers may differ as they are rounded."""

POLYGON = "polygons, of which the box around them is read"
"""A note on annotations without a box of their own."""

Corners = tuple[float, float, float, float]
"""x1, y1, x2 and y2 of a box."""


class DrawnBox(NamedTuple):
    """A box in an annotation file."""

    number: int
    """The number of its class."""
    corners: Corners
    place: str
    """File and line, for messages."""
    crowd: bool = False
    """Whether it is a group or a difficult object, which is not trained on."""


class ImageBoxes(NamedTuple):
    """The boxes of an image that is not read yet. It takes few bytes in a `PackedList`."""

    corners: tuple[Corners, ...]
    classes: tuple[int, ...]
    crowd: tuple[bool, ...]
    size: tuple[float, float] | None
    """Height and width of the image on which boxes were drawn. None: those of its file."""

    def on(self, image: Tensor, file: Path) -> Boxes:
        """Returns the boxes on an image, which may have another size.

        Raises:
            UserError: the image has other proportions than that of the boxes.
        """
        height, width = image.shape[-2:]
        own = self.size or (height, width)
        across, down = width / own[1], height / own[0]
        if self.size != RELATIVE and abs(across / down - 1) > 0.02:
            raise UserError(
                f"{file} has {width} x {height} pixels, but its boxes were drawn on "
                f"{own[1]:g} x {own[0]:g}: draw them again, or remove its EXIF orientation if "
                "you drew on unturned photos"
            )
        factors = torch.tensor([across, down, across, down])
        corners = torch.tensor(self.corners).reshape(-1, 4) * factors
        return make_boxes(corners, self.classes, self.crowd, (height, width))


class BoxChecks:
    """Checks of boxes, with examples of those that are odd or wrong."""

    def __init__(self) -> None:
        self.odd: defaultdict[str, list[str]] = defaultdict(list)
        """Places of boxes that are read in another way, or left out, by the reason."""
        self.wrong: defaultdict[str, list[str]] = defaultdict(list)
        """Places of those that are refused."""

    def check(
        self, boxes: Iterable[DrawnBox], size: tuple[float, float] | None
    ) -> ImageBoxes:
        """Returns the usable boxes of an image of a height and width."""
        kept: dict[tuple[Corners, int], bool] = {}
        for number, corners, place, crowd in boxes:
            x1, y1, x2, y2 = corners
            if not all(map(math.isfinite, corners)):
                self.wrong["boxes without finite numbers"].append(place)
                continue
            if x2 < x1 or y2 < y1:
                self.wrong["boxes that end before they begin"].append(place)
                continue
            if x2 == x1 or y2 == y1:
                self.odd["boxes of no size, left out"].append(place)
                continue
            if size is not None:
                corners = clamp(corners, size)
                if corners[2] <= corners[0] or corners[3] <= corners[1]:
                    self.odd["boxes outside of their image, left out"].append(place)
                    continue
                excess = [abs(a - b) for a, b in zip(corners, (x1, y1, x2, y2))]
                if max(excess[::2]) > ROUNDING * size[1] or (
                    max(excess[1::2]) > ROUNDING * size[0]
                ):
                    self.odd["boxes cut at the edge of their image"].append(place)
            if (corners, number) in kept:
                self.odd["boxes that are there twice, read once"].append(place)
            kept[corners, number] = crowd
        found = tuple(corners for corners, _ in kept), tuple(n for _, n in kept)
        return ImageBoxes(*found, (*kept.values(),), size)

    def note(self, kind: str, places: Sequence[str]) -> None:
        """Notes what is read in another way, or left out, if there is any."""
        if places:
            self.odd[kind] += places

    def refuse(self) -> None:
        """Raises an error if a box is wrong."""
        for kind, places in self.wrong.items():
            refuse(kind, places)

    def notes(self) -> list[str]:
        """Returns a line for each kind of odd boxes."""
        return [
            f"{k}: {len(found):,}, such as {found[0]}" for k, found in self.odd.items()
        ]


def clamp(corners: Corners, size: tuple[float, float]) -> Corners:
    """Cuts a box at the edge of an image of a height and width."""
    (x1, y1, x2, y2), (height, width) = corners, size
    return max(x1, 0), max(y1, 0), min(x2, width), min(y2, height)


def outline(points: Sequence[float]) -> Corners:
    """Returns the box around points: x and y of each, one after the other."""
    across, down = points[::2], points[1::2]
    return min(across), min(down), max(across), max(down)


def refuse(what: str, found: Sequence[str]) -> None:
    """Raises an error with the number of faults, and the first three."""
    if found:
        more = ", ..." if len(found) > 3 else ""
        raise UserError(
            f"there are {what} ({len(found)}): fix {', '.join(found[:3])}{more}"
        )


def upright_size(path: Path) -> tuple[int, int] | None:
    """Returns the height and width of an image as its EXIF turns it, if readable."""
    try:
        with Image.open(path) as image:
            turned = image.getexif().get(ExifTags.Base.Orientation) in (5, 6, 7, 8)
            if turned and isinstance(image, TiffImageFile):
                image.load()  # Pillow applies the orientation.
            elif turned:
                return image.size
            return image.height, image.width
    except UNREADABLE:
        return None
