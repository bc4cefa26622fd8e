"""Targets in the small world of the tests: whether an image has each of three labels."""

from typing import Any

from leaf_diseases.task import Task

NAMES = ["red", "green", "blue"]

TWO_OUTPUTS = Task(["a", "b"])

PREDICTION_OPTIONS: dict[str, Any] = {}

LABEL_OPTIONS = {"label_column": "colours"}


def small_target(kind: int) -> tuple[float, ...]:
    return tuple(float(kind >> bit & 1) for bit in range(3))


def label_cells(kind: int) -> dict[str, str]:
    names = [name for name, on in zip(NAMES, small_target(kind)) if on]
    return {"colours": ";".join(names) or "none"}
