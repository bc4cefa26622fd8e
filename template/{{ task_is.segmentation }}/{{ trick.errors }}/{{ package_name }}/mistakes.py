"""Images with the worst and the least certain masks."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from .data.colours import overlay, palette
from .data.mask_transforms import resize_mask
from .pixel_metrics import IGNORED, count_pairs, pixel_metrics
from .task import Task, resize_logits

SECTIONS = {
    "Worst masks": "The lowest mean IoU of an image first.",
    "Least certain": "The lowest mean probability of the predicted classes first.",
}
"""Headings of the page, and their notes."""
SCORE_NAMES = dict(zip(SECTIONS, ("Mean IoU", "Mean probability")))
"""Sort keys of the sections."""


class Description(NamedTuple):
    """The text for an image."""

    rows: dict[str, str]
    names: set[str]
    """Names for the filter of the page."""
    wrong: bool


def priorities(_task: Task, outputs: Tensor, targets: Tensor) -> list[Tensor]:
    """Returns the priority of each image in each of SECTIONS.

    An image without valid pixels gets minus infinity.

    Args:
        outputs: logits of shape (N, classes, H, W).
        targets: classes or IGNORED, of shape (N, H, W) of any height and width.

    Returns:
        For each section a tensor of shape (N, 1).
    """
    logits = resize_logits(outputs, targets.shape[-2:])
    valid = targets != IGNORED
    pixels = valid.sum(dim=(1, 2))
    pairs = zip(logits.unsqueeze(1), targets.long().unsqueeze(1))
    ious = [pixel_metrics(count_pairs(*pair))["mean_iou"] for pair in pairs]
    highest = logits.softmax(dim=1).amax(dim=1) * valid
    shares = highest.sum(dim=(1, 2)) / pixels.clamp(min=1)
    return [
        (-values).where(pixels > 0, -math.inf).unsqueeze(1)
        for values in (torch.tensor(ious, device=shares.device), shares)
    ]


def keep(outputs: Tensor) -> Tensor:
    """Returns the part of outputs to keep for the page: predicted classes."""
    return outputs.argmax(dim=1).byte()


def describe(
    task: Task, predicted: Tensor, target: Tensor, section: str, score: float
) -> Description:
    """Returns the texts of an image.

    Args:
        predicted: classes of shape (H, W).
        target: classes of shape (H, W), of any height and width.
        score: score of the image in the section.
    """
    said = [name_classes(task, mask) for mask in (target, predicted)]
    truth, prediction = (", ".join(names) for names in said)
    rows = {
        SCORE_NAMES[section]: f"{score:.1%}",
        "Truth": truth,
        "Prediction": prediction,
    }
    return Description(rows, {*said[0], *said[1]}, False)


def name_classes(task: Task, mask: Tensor) -> list[str]:
    """Returns the names of the classes in a mask."""
    return [task.names[number] for number in mask.unique() if number != IGNORED]


def draw(image: Tensor, mask: Tensor, classes: int) -> Tensor:
    """Blends an image, uint8 of shape (3, H, W), with the colours of a mask."""
    return overlay(image, resize_mask(mask, [*image.shape[1:]]), palette(classes))


def colours_of(names: list[str]) -> dict[str, tuple[int, ...]]:
    """Returns the colours of the classes in pictures, but of the first: it has none."""
    return dict(zip(names[1:], map(tuple, palette(len(names))[1:].tolist())))
