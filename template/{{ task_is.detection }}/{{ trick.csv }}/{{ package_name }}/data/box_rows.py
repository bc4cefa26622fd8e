"""Boxes in the rows of a CSV file, of which an image may have several."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..settings import Settings
from .box_files import (
    LARGEST_SHARE,
    RELATIVE,
    BoxChecks,
    Corners,
    DrawnBox,
    refuse,
    upright_size,
)

BEYOND = 0.02
"""Share of a side by which a box that is read right may end beyond its image."""
ENOUGH = 0.95
"""Share of the boxes that must be inside of their images in a format."""

Size = tuple[float, float]
Numbers = tuple[float, float, float, float]

FORMATS: dict[str, Callable[[float, float, float, float], Corners]] = {
    "xyxy": lambda a, b, c, d: (a, b, c, d),
    "xywh": lambda a, b, c, d: (a, b, a + c, b + d),
    "cxcywh": lambda a, b, c, d: (a - c / 2, b - d / 2, a + c / 2, b + d / 2),
}
"""The corners of a box, by the choices of --box-format."""


def gather_boxes(
    path: Path, rows: Sequence[Any], files: Mapping[str, str], settings: Settings
) -> tuple[list[Any], list[str]]:
    """Makes one row of those of an image; returns the rows, and notes.

    Args:
        rows: those of labels.py; their labels are a line, and a class with numbers.
        files: the file of each path in the rows.
    """
    by_image: dict[str, Any] = {}
    boxes: defaultdict[str, list[tuple[str, str, Numbers]]] = defaultdict(list)
    several = []
    for row in rows:
        line, label = row.label
        first = by_image.setdefault(row.path, row)
        if row != first._replace(label=row.label):
            several.append(f"{row.path} in {line}")
        if label is not None:
            boxes[row.path].append((f"{path} {line}", *label))
    refuse(f"images in {path} whose rows differ in more than the box", several)
    sizes: dict[str, Size | None] = dict.fromkeys(boxes, RELATIVE)
    largest = max(
        (max(each[2]) for found in boxes.values() for each in found), default=0
    )
    if largest > LARGEST_SHARE:
        with ThreadPoolExecutor() as pool:
            places = [Path(files[name]) for name in boxes]
            sizes = dict(zip(boxes, pool.map(upright_size, places)))
    pairs = [(each[2], sizes[name]) for name, found in boxes.items() for each in found]
    chosen = settings.box_format or guess_format(path, pairs, settings.box_columns)
    share = share_inside(chosen, pairs)
    if share < 1 / 2:
        raise UserError(
            f"only {share:.0%} of the boxes in {path} are inside of their images as "
            f"{chosen}: pass another --box-format"
        )
    names = sorted({name for found in boxes.values() for _, name, _ in found})
    numbered = {name: number for number, name in enumerate(names)}
    checks = BoxChecks()
    merged = []
    for name, row in by_image.items():
        drawn = [
            DrawnBox(numbered[kind], FORMATS[chosen](*numbers), place)
            for place, kind, numbers in boxes[name]
        ]
        found: Any = checks.check(drawn, sizes.get(name))
        kinds = tuple(names[number] for number in found.classes)
        merged.append(row._replace(label=found._replace(classes=kinds)))
    checks.refuse()
    unit = "pixels" if largest > LARGEST_SHARE else "shares of the width and height"
    note = f"boxes of {path} are {chosen} in {unit}"
    if settings.box_format is None:
        note += " (guessed: if they are not, pass --box-format)"
    return merged, [note, *checks.notes()]


def guess_format(
    path: Path, boxes: Sequence[tuple[Numbers, Size | None]], columns: Sequence[str]
) -> str:
    """Guesses the format by the names of the columns, unless the numbers contradict."""
    named = "xyxy"
    if "w" in columns[2].lower():
        named = "cxcywh" if "c" in columns[0].lower() else "xywh"
    possible = [name for name in FORMATS if share_inside(name, boxes) >= ENOUGH]
    if named in possible or not boxes:
        return named
    if len(possible) == 1:
        return possible[0]
    raise UserError(
        f"the boxes in {path} may be {' or '.join(possible or FORMATS)}: pass --box-format"
    )


def share_inside(name: str, boxes: Sequence[tuple[Numbers, Size | None]]) -> float:
    """Returns the share of the boxes that are inside of their images in a format."""
    inside = 0
    for numbers, size in boxes:
        x1, y1, x2, y2 = FORMATS[name](*numbers)
        height, width = size or (float("inf"), float("inf"))
        across = x1 >= -BEYOND * width and x1 <= x2 <= (1 + BEYOND) * width
        down = y1 >= -BEYOND * height and y1 <= y2 <= (1 + BEYOND) * height
        inside += across and down
    return inside / len(boxes) if boxes else 1.0
