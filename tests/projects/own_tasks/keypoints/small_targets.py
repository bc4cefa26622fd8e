"""Targets in the small world of the tests: two points at one of six heights."""

from pathlib import Path
from typing import Any

from torch import Tensor

from leaf_diseases.data.own_data import draw_points
from leaf_diseases.task import Task

NAMES = ["green", "red"]

TWO_OUTPUTS = Task(["a", "b"])

PREDICTION_OPTIONS: dict[str, Any] = {}

LABEL_OPTIONS = {"label_column": "points"}


def small_target(kind: int) -> Tensor:
    return draw_points([(1, kind), (6, kind)], 8, 8)


def label_cells(kind: int, _image: Path) -> dict[str, str]:
    return {"points": f"1 {kind}; 6 {kind}"}
