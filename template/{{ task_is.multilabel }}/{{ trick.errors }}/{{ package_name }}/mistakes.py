"""Most confident wrong labels, and least certain labels."""

import math
from typing import NamedTuple

from torch import Tensor

from .task import Task, predicted

SECTIONS = {
    "Most confident mistakes": "Each image with its most confident wrong label: a "
    "false positive or a false negative.",
    "Least certain": "Each image with the label whose probability is nearest to 50%.",
}
"""Headings of the page, and their notes."""


class Description(NamedTuple):
    """The text for an image, and the output that its heat map explains."""

    rows: dict[str, str]
    names: set[str]
    """Names for the filter of the page."""
    wrong: bool
    sign: int
    """1: the heat map shows regions that raise the output. -1: that lower it."""


def priorities(_task: Task, outputs: Tensor, targets: Tensor) -> list[Tensor]:
    """Returns the priority of each output in each of SECTIONS.

    An image gets the highest priority of its outputs. Minus infinity excludes an output
    from a section.

    Args:
        outputs: logits of shape (N, labels).
        targets: 0 or 1, of the same shape.

    Returns:
        For each section a tensor of shape (N, labels).
    """
    probabilities = outputs.sigmoid()
    confidence = probabilities.maximum(1 - probabilities)
    wrong = predicted(outputs) != (targets > 0.5)
    return [confidence.where(wrong, -math.inf), -confidence]


def keep(outputs: Tensor) -> Tensor:
    """Returns the part of outputs to keep for the page: all."""
    return outputs


def describe(task: Task, logits: Tensor, target: Tensor, label: int) -> Description:
    """Returns the texts of an image.

    Args:
        logits: shape (labels,).
        label: output for which the image was selected.
    """
    name, probability = task.names[label], logits[label].sigmoid().item()
    found, there = bool(predicted(logits[label])), bool(target[label] > 0.5)
    words = {True: "present", False: "absent"}
    true = [other for other, value in zip(task.names, target) if value > 0.5]
    rows = {
        "Label": name,
        "Truth": words[there],
        "Prediction": words[found],
        "Probability": f"{probability:.1%}",
        "True labels": ", ".join(true) or "none",
    }
    return Description(rows, {name}, found != there, 1 if found else -1)
