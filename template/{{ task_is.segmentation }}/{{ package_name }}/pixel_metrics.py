"""Pixel accuracy and mean IoU, from the confusion matrix.

Definitions of PASCAL VOC: https://doi.org/10.1007/s11263-014-0733-5
"""

import torch
from torch import Tensor

IGNORED = 255
"""The class number of pixels without a class."""


def count_pairs(logits: Tensor, targets: Tensor) -> Tensor:
    """Counts pixels by true and predicted class.

    Args:
        logits: of shape (N, classes, H, W).
        targets: classes or IGNORED, int64 of shape (N, H, W).

    Returns:
        The confusion matrix, int64 of shape (classes, classes): a row for each true class,
        and a column for each predicted one.
    """
    classes = logits.shape[1]
    cells = targets * classes + logits.argmax(dim=1)
    # A last cell counts ignored pixels. Selecting the others would wait for a GPU.
    cells = cells.where(targets != IGNORED, classes**2).flatten()
    counts = targets.new_zeros(classes**2 + 1)
    counts = counts.index_add(0, cells, torch.ones_like(cells))
    return counts[:-1].view(classes, classes)


def class_ious(confusion: Tensor) -> Tensor:
    """Returns the intersection over union of each class, float64 of shape (classes,).

    It is 0 where the denominator is 0.
    """
    correct = confusion.diag().double()
    union = confusion.sum(dim=0) + confusion.sum(dim=1) - correct
    return correct / union.clamp(min=1)


def pixel_metrics(confusion: Tensor) -> dict[str, float]:
    """Returns the pixel accuracy and the mean IoU over the classes.

    Classes without pixels and predictions are left out of the mean.
    """
    correct = confusion.diag().double().sum()
    return {
        "pixel_accuracy": (correct / confusion.sum().clamp(min=1)).item(),
        "mean_iou": mean_of_known(class_ious(confusion), confusion),
    }


def mean_of_known(values: Tensor, confusion: Tensor) -> float:
    """Returns the mean of values over the classes with pixels or predictions."""
    known = confusion.sum(dim=0) + confusion.sum(dim=1) > 0
    return ((values * known).sum() / known.sum().clamp(min=1)).item()
