"""Images with the largest errors of predicted numbers."""

from typing import NamedTuple

import torch
from torch import Tensor

from .task import Task

SECTIONS = {
    "Largest errors": "Each image with its largest error, in standard "
    "deviations of the training targets.",
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


def priorities(task: Task, outputs: Tensor, targets: Tensor) -> list[Tensor]:
    """Returns the priority of each output in each of SECTIONS.

    An image gets the highest priority of its outputs.

    Args:
        outputs: standardized numbers of shape (N, numbers).
        targets: numbers in their own units, of the same shape.

    Returns:
        For each section a tensor of shape (N, numbers).
    """
    mean, deviation = torch.tensor((task.mean, task.deviation), device=targets.device)
    return [(outputs - (targets - mean) / deviation).abs()]


def keep(outputs: Tensor) -> Tensor:
    """Returns the part of outputs to keep for the page: all."""
    return outputs


def describe(task: Task, outputs: Tensor, target: Tensor, number: int) -> Description:
    """Returns the texts of an image.

    Args:
        outputs: standardized, of shape (numbers,).
        number: output for which the image was selected.
    """
    name, truth = task.names[number], target[number].item()
    predicted = outputs[number].item() * task.deviation[number] + task.mean[number]
    rows = {
        "Number": name,
        "Truth": f"{truth:.5g}",
        "Prediction": f"{predicted:.5g}",
        "Error": f"{predicted - truth:+.3g}",
    }
    return Description(rows, {name}, False, 1 if predicted > truth else -1)
