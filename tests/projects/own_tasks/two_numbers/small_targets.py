"""Targets in the small world of the tests: two numbers."""

NAMES = ["red", "green"]

LABEL_OPTIONS = {"label_column": "colour"}


def small_target(kind: int) -> tuple[float, float]:
    return kind / 5, 1 - kind / 5


def label_cells(kind: int) -> dict[str, str]:
    return {"colour": f"{kind / 5} {1 - kind / 5}"}
