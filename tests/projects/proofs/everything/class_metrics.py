"""Metrics of each class: the numbers, the files and the picture."""

from pathlib import Path

import numpy as np
import pytest
import torch
from leaf_diseases.report import draw_report
from matplotlib.axes import Axes

COUNTS = [[3, 0, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
"""`a` and `b` have images, `c` is only predicted, and `d` is not even predicted."""


def texts(axes: Axes) -> dict[tuple[float, float], str]:
    """Returns what stands in the cells of a picture, by column and row."""
    return {text.get_position(): text.get_text() for text in axes.texts}


def test_a_picture_of_few_classes_has_their_counts() -> None:
    axes, *_ = draw_report(COUNTS, [*"abcd"]).axes
    assert texts(axes) == {(0, 0): "3", (2, 0): "1", (0, 1): "1", (1, 1): "1"}
    shares = np.ma.MaskedArray(axes.images[0].get_array())
    assert shares.tolist() == [[0.75, 0, 0.25, 0], [0.5, 0.5, 0, 0], *[[None] * 4] * 2]


@pytest.mark.parametrize("count", [2, 100, 300])
def test_a_picture_can_be_made_of_any_names(count: int, tmp_path: Path) -> None:
    """Also of what is no formula between dollars, and of many letters."""
    classes = [f"a $na^$e with {number} in the middle of it" for number in range(count)]
    counts = torch.eye(count, dtype=torch.int64).tolist()
    figure = draw_report(counts, classes)
    figure.savefig(tmp_path / "confusion.png", dpi=20, bbox_inches="tight")
    axes, *_ = figure.axes
    for axis in (axes.xaxis, axes.yaxis):
        labels = [label.get_text() for label in axis.get_ticklabels()]
        assert max(map(len, labels)) <= 24
        named = [label for label in labels if label.startswith("a $na^$e")]
        assert len(named) == (count if count <= 200 else 0)
    assert bool(texts(axes)) == (count == 2)
