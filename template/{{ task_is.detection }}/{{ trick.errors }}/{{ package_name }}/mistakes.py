"""Images with false boxes, wrong classes and missed boxes."""

import math
from collections import Counter
from typing import NamedTuple

import torch
from torch import Tensor

from .box_metrics import find_mistakes, overlaps
from .data.box_pictures import LOWEST_SCORE, colour_of, draw_detections, draw_targets
from .task import Task

SECTIONS = {
    "False boxes": "The highest score of a box first, where there is none of its kind.",
    "Wrong classes": "The highest score of a box first, where one of another class is.",
    "Missed boxes": "The most missed boxes first.",
}
"""Headings of the page, and their notes."""


class Description(NamedTuple):
    """The text for an image."""

    rows: dict[str, str]
    names: set[str]
    """Names for the filter of the page."""
    wrong: bool


def priorities(_task: Task, outputs: Tensor, targets: Tensor) -> list[Tensor]:
    """Returns the priority of each image in each of SECTIONS.

    Boxes match at an IoU of 0.5. Those with a score below LOWEST_SCORE are left out.

    Args:
        outputs: x1 y1 x2 y2, score and class, of shape (N, D, 6).
        targets: x1 y1 x2 y2, class or -1, and 1 for a crowd, of shape (N, M, 6).

    Returns:
        For each section a tensor of shape (N, 1): minus infinity without a mistake.
    """
    found, false, missed = find_mistakes(outputs, targets, LOWEST_SCORE)
    # As if there was one class: boxes of their own class are those that match.
    any_class = overlaps(one_class(found, 5), one_class(targets, 4)) >= 0.5
    other = (any_class & (found[..., 5:] != targets[:, None, :, 4])).any(dim=2)
    return [
        outputs[..., 4].where(false & ~other, -math.inf).amax(dim=1, keepdim=True),
        outputs[..., 4].where(false & other, -math.inf).amax(dim=1, keepdim=True),
        missed.float().where(missed > 0, -math.inf).unsqueeze(1),
    ]


def one_class(boxes: Tensor, column: int) -> Tensor:
    """Returns boxes with the class 0, apart from padding."""
    return torch.cat(
        [
            boxes[..., :column],
            boxes[..., column : column + 1].clamp(max=0),
            boxes[..., column + 1 :],
        ],
        dim=-1,
    )


def keep(outputs: Tensor) -> Tensor:
    """Returns the part of outputs to keep for the page: all detections."""
    return outputs


def describe(
    task: Task, detections: Tensor, target: Tensor, section: str, score: float
) -> Description:
    """Returns the texts of an image.

    Args:
        score: priority of the image in the section.
    """
    shown = detections[detections[:, 4] >= LOWEST_SCORE]
    true = target[target[:, 4] >= 0]
    said = [Counter(names_of(task, part)) for part in (true[:, 4], shown[:, 5])]
    listed = [
        ", ".join(f"{count} {name}" for name, count in part.most_common()) or "no boxes"
        for part in said
    ]
    is_count = section == "Missed boxes"
    first = {"Missed": f"{score:.0f}"} if is_count else {"Score": f"{score:.1%}"}
    rows = {**first, **dict(zip(("Truth", "Prediction"), listed))}
    return Description(rows, {*said[0], *said[1]}, False)


def names_of(task: Task, numbers: Tensor) -> list[str]:
    """Returns the names of classes."""
    return [task.names[number] for number in numbers.int().tolist()]


def draw(
    image: Tensor, detections: Tensor, target: Tensor, names: list[str]
) -> dict[str, Tensor]:
    """Draws the true boxes and the detections on an image, uint8 of shape (3, H, W)."""
    shown = detections[detections[:, 4] >= LOWEST_SCORE]
    return {
        "Truth": draw_targets(image, target, names),
        "Prediction": draw_detections(image, shown, names),
    }


def colours_of(names: list[str]) -> dict[str, tuple[int, ...]]:
    """Returns the colours of the classes in pictures."""
    return {name: colour_of(number) for number, name in enumerate(names)}
