"""Polygons in annotations, which have no box of their own."""

from collections.abc import Sequence

from .box_files import Corners

POLYGON = "polygons, of which the box around them is read"
"""A note on them."""


def outline(points: Sequence[float]) -> Corners:
    """Returns the box around points: x and y of each, one after the other."""
    across, down = points[::2], points[1::2]
    return min(across), min(down), max(across), max(down)
