"""The targets: two points on an image."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .settings import Settings

POINTS = ("green", "red")
TARGET_DTYPE = torch.float32
LABEL_FLAGS = "--label-column"

Points = tuple[tuple[float, float], ...]


def label_columns(settings: Settings) -> list[str]:
    return [settings.label_column]


def parse_label(cells: list[str], settings: Settings) -> Points:
    """Reads `3 4; 10 12`."""
    pairs = [tuple(map(float, part.split())) for part in cells[0].split(";")]
    points = tuple((pair[0], pair[1]) for pair in pairs if len(pair) == 2)
    if not len(points) == len(pairs) == len(POINTS):
        raise ValueError(f"{len(points)} points")
    return points


def number_labels(labels: list[Points]) -> tuple[list[Points], list[str]]:
    return labels, [*POINTS]


def translation(own: list[str], names: list[str]) -> Callable[[Points], Points]:
    return lambda target: target


def group_of(target: Points) -> object:
    return None


def describe_targets(
    train: Sequence[Points], val: Sequence[Points], names: list[str]
) -> list[str]:
    return [f"points: {', '.join(names)}"]


def target_cells(target: Any, _names: list[str]) -> dict[str, Any]:
    """Returns the cells of a target in a row of CSV, by the columns."""
    return {"target": target}


def describe_target(_target: Any, names: list[str]) -> str:
    return ", ".join(names)
