"""Most confident mistakes and least certain predictions."""

import math
from typing import NamedTuple

from torch import Tensor
from torch.nn import functional as F

from .task import Task

SECTIONS = {
    "Most confident mistakes": "Wrong predictions, the most probable first.",
    "Least certain": "Right and wrong predictions, the least probable first.",
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
        outputs: logits of shape (N, classes).
        targets: classes of shape (N,).

    Returns:
        For each section a tensor of shape (N, classes).
    """
    probabilities = outputs.softmax(dim=1)
    predicted = outputs.argmax(dim=1)
    chosen = F.one_hot(predicted, outputs.shape[1]).bool()
    wrong = chosen & (predicted != targets).unsqueeze(1)
    return [
        probabilities.where(wrong, -math.inf),
        (-probabilities).where(chosen, -math.inf),
    ]


def keep(outputs: Tensor) -> Tensor:
    """Returns the part of outputs to keep for the page: all."""
    return outputs


def describe(task: Task, logits: Tensor, target: Tensor, predicted: int) -> Description:
    """Returns the texts of an image.

    Args:
        logits: shape (classes,).
        predicted: output for which the image was selected.
    """
    truth = int(target)
    probabilities = logits.softmax(dim=0).tolist()

    def say(number: int) -> str:
        return f"{task.names[number]} ({probabilities[number]:.1%})"

    rows = {"Truth": say(truth), "Prediction": say(predicted)}
    if truth == predicted:
        ranking = logits.argsort(descending=True, stable=True)
        rows["Runner-up"] = say(int(ranking[1]))
    names = {task.names[truth], task.names[predicted]}
    return Description(rows, names, truth != predicted, 1)
