"""Boxes in annotation files, which are checked before training."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import torch
from PIL import Image
from torch import Tensor

from ..errors import UserError
from .boxes import Boxes, make_boxes
from .image_files import UNREADABLE, orientation_of

RELATIVE = (1, 1)
"""The height and width of an image in which corners are shares of its sides."""
LARGEST_SHARE = 2
"""Numbers of a box up to this are shares of the width and height, and not pixels."""
ROUNDING = 1e-3
"""Share of a side by which numbers may differ as they are rounded."""
MOST_OPENED = 64
"""Images of a split that `describe_turned` opens at most."""

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
        self.odd: Counter[str] = Counter()
        """Boxes that are read in another way, or left out, by the reason."""
        self.examples: dict[str, str] = {}
        """A place of each reason."""
        self.wrong: defaultdict[str, list[str]] = defaultdict(list)
        """Places of those that are refused."""

    def check(
        self, boxes: Iterable[DrawnBox], size: tuple[float, float] | None
    ) -> ImageBoxes:
        """Returns the usable boxes of an image of a height and width."""
        kept: dict[tuple[Corners, int], bool] = {}
        for number, corners, place, crowd in boxes:
            x1, y1, x2, y2 = corners
            if not math.isfinite(x1 + y1 + x2 + y2):
                self.wrong["boxes without finite numbers"].append(place)
                continue
            if x2 < x1 or y2 < y1:
                self.wrong["boxes that end before they begin"].append(place)
                continue
            if x2 == x1 or y2 == y1:
                self.note("boxes of no size, left out", place)
                continue
            height, width = size or (math.inf, math.inf)
            if x1 < 0 or y1 < 0 or x2 > width or y2 > height:
                corners = max(x1, 0), max(y1, 0), min(x2, width), min(y2, height)
                if corners[2] <= corners[0] or corners[3] <= corners[1]:
                    self.note("boxes outside of their image, left out", place)
                    continue
                across, down = max(-x1, x2 - width), max(-y1, y2 - height)
                if across > ROUNDING * width or down > ROUNDING * height:
                    self.note("boxes cut at the edge of their image", place)
            if (corners, number) in kept:
                self.note("boxes that are there twice, read once", place)
                crowd = crowd and kept[corners, number]
            kept[corners, number] = crowd
        found = tuple(corners for corners, _ in kept), tuple(n for _, n in kept)
        return ImageBoxes(*found, (*kept.values(),), size)

    def note(self, kind: str, *places: str) -> None:
        """Counts what is read in another way, or left out."""
        if places:
            self.odd[kind] += len(places)
            self.examples.setdefault(kind, places[0])

    def refuse(self) -> None:
        """Raises an error if a box is wrong."""
        for kind, places in self.wrong.items():
            refuse(kind, places)

    def notes(self) -> list[str]:
        """Returns a line for each kind of odd boxes."""
        return [
            f"{kind}: {count:,}, such as {self.examples[kind]}"
            for kind, count in self.odd.items()
        ]


def refuse(what: str, found: Sequence[str]) -> None:
    """Raises an error with the number of faults, and the first three."""
    if found:
        more = ", ..." if len(found) > 3 else ""
        raise UserError(
            f"there are {what} ({len(found)}): fix {', '.join(found[:3])}{more}"
        )


def describe_turned(*splits: Sequence[Path]) -> list[str]:
    """Returns a line for the log if EXIF turns images; opens some, evenly spread."""
    opened: list[Path] = []
    for files in splits:
        opened += files[:: -(-len(files) // MOST_OPENED) or 1]
    turned = []
    for file in opened:
        with suppress(*UNREADABLE), Image.open(file) as image:
            if orientation_of(image) in range(2, 9):
                turned.append(file)
    if not turned:
        return []
    count = f"{len(turned):,} of {len(opened):,}"
    must = "boxes must be those of the upright image"
    return [
        f"{count} opened images are turned by EXIF, and {must}, such as {turned[0]}"
    ]
