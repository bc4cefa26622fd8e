"""Boxes of an image: the places, classes and kinds of its objects."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torchvision import tv_tensors
from torchvision.transforms import v2

LEAST_VISIBLE = 0.1
"""Share of the area of a box that an image must show, or the box is dropped."""


class Places(tv_tensors.BoundingBoxes):
    """Corners of boxes in pixels, float32 (M, 4): x1, y1, x2, y2.

    torchvision's `v2` moves them with their image, by the kernels below. Its own kernels
    clamp boxes at each crop, after which nobody knows how much of them is visible.
    """


class Boxes(NamedTuple):
    """The target of an image."""

    places: Places
    classes: Tensor
    """int64 (M,), from 0 on."""
    crowd: Tensor
    """bool (M,): groups (`iscrowd`) and difficult objects, which are not trained on."""


def make_places(corners: Any, size: Sequence[int]) -> Places:
    """Returns the places of corners in an image of a height and width."""
    corners = torch.as_tensor(corners, dtype=torch.float32).reshape(-1, 4)
    return Places(corners, format="XYXY", canvas_size=(size[0], size[1]))


def make_boxes(
    corners: Any, classes: Sequence[int], crowd: Sequence[bool], size: Sequence[int]
) -> Boxes:
    """Returns the boxes of an image of a height and width."""
    kinds = torch.tensor(classes, dtype=torch.int64), torch.tensor(crowd).bool()
    return Boxes(make_places(corners, size), *kinds)


def keep_visible(boxes: Boxes) -> Boxes:
    """Clamps boxes to the image, and drops those of which LEAST_VISIBLE is not left."""
    places = clamp(boxes.places)
    visible = areas(places)
    kept = (visible > 0) & (visible >= LEAST_VISIBLE * areas(boxes.places))
    shown = make_places(places[kept], places.canvas_size)
    return Boxes(shown, boxes.classes[kept], boxes.crowd[kept])


def clamp(places: Places) -> Places:
    """Cuts boxes at the edges of their image."""
    height, width = places.canvas_size
    corners = places.as_subclass(Tensor)
    corners = corners.clamp(torch.zeros(4), torch.tensor([width, height] * 2))
    return make_places(corners, (height, width))


def areas(places: Places) -> Tensor:
    """Returns the areas of boxes, of shape (M,)."""
    corners = places.as_subclass(Tensor)
    return (corners[:, 2:] - corners[:, :2]).clamp(min=0).prod(dim=1)


def pack_boxes(targets: Sequence[Boxes], dtype: torch.dtype) -> Tensor:
    """Packs the visible boxes of images: x1, y1, x2, y2, class, and 1 for a crowd.

    Returns:
        A tensor of shape (N, M, 6), where M is the largest number of boxes of an image.
        Rows beyond the boxes of an image have class -1.
    """
    shown = [keep_visible(boxes) for boxes in targets]
    most = max(len(boxes.classes) for boxes in shown)
    packed = torch.zeros(len(shown), most, 6, dtype=dtype)
    packed[:, :, 4] = -1
    for rows, boxes in zip(packed, shown):
        count = len(boxes.classes)
        rows[:count, :4] = boxes.places
        rows[:count, 4] = boxes.classes
        rows[:count, 5] = boxes.crowd
    return packed


@v2.functional.register_kernel(v2.functional.crop, Places)
def crop(places: Places, top: int, left: int, height: int, width: int) -> Places:
    corners = places.as_subclass(Tensor) - torch.tensor([left, top] * 2)
    return make_places(corners, (height, width))


@v2.functional.register_kernel(v2.functional.pad, Places)
def pad(places: Places, padding: int | Sequence[int], **_options: Any) -> Places:
    """Moves boxes by a padding of all sides, of both axes, or of each side.

    An earlier crop has cut the image, which does not come back.
    """
    sides = [padding] if isinstance(padding, int) else [*padding]
    left, top, right, bottom = sides * (4 // len(sides))
    height, width = places.canvas_size
    return crop(clamp(places), -top, -left, height + top + bottom, width + left + right)


@v2.functional.register_kernel(v2.functional.center_crop, Places)
def center_crop(places: Places, output_size: Sequence[int]) -> Places:
    sides = [*zip(places.canvas_size, output_size)]
    # Half a pixel is rounded to an even number, and down beside an image that is smaller.
    top, left = (round((a - b) / 2) if a > b else -((b - a) // 2) for a, b in sides)
    return crop(places, top, left, *output_size)


@v2.functional.register_kernel(v2.functional.resized_crop, Places)
def resized_crop(
    places: Places,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Sequence[int],
    **_options: Any,
) -> Places:
    cropped = crop(places, top, left, height, width)
    return v2.functional.resize(cropped, size)


def register_plain(functional: Any) -> None:
    """Registers torchvision's own kernel: in 0.22 it forgets the type `Places`."""

    @v2.functional.register_kernel(functional, Places)
    def kernel(places: Places, *arguments: Any, **options: Any) -> Places:
        plain = tv_tensors.BoundingBoxes(
            places.as_subclass(Tensor), format="XYXY", canvas_size=places.canvas_size
        )
        moved = functional(plain, *arguments, **options)
        return make_places(moved.as_subclass(Tensor), moved.canvas_size)


register_plain(v2.functional.resize)
register_plain(v2.functional.horizontal_flip)
register_plain(v2.functional.vertical_flip)
