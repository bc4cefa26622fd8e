"""Targets in the small world of the tests: two numbers."""

from typing import Any

from leaf_diseases.task import Task

NAMES = ["red", "green"]

TWO_OUTPUTS = Task(["a", "b"])

PREDICTION_OPTIONS: dict[str, Any] = {}

LABEL_OPTIONS = {"label_column": "colour"}


def small_target(kind: int) -> tuple[float, float]:
    return kind / 5, 1 - kind / 5


def label_cells(kind: int) -> dict[str, str]:
    return {"colour": f"{kind / 5} {1 - kind / 5}"}
