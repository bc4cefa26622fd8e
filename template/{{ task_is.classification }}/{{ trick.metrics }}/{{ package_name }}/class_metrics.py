"""Precision, recall and F1 per class, from the confusion matrix.

https://scikit-learn.org/stable/modules/model_evaluation.html#classification-metrics
"""

import torch
from torch import Tensor


def count_confusion(logits: Tensor, targets: Tensor) -> Tensor:
    """Counts images by true and predicted class: the confusion matrix.

    Args:
        logits: of shape (N, classes).
        targets: classes of shape (N,).

    Returns:
        int32 of shape (classes, classes): a row for each true class, and a column for
        each predicted one.
    """
    classes = logits.shape[1]
    cells = targets * classes + logits.argmax(dim=1)
    # On a GPU, bincount() would wait to read the largest number.
    counts = targets.new_zeros(classes**2, dtype=torch.int32)
    counts.index_add_(0, cells, torch.ones_like(cells, dtype=torch.int32))
    return counts.view(classes, classes)


def count_top5(logits: Tensor, targets: Tensor) -> Tensor:
    """Counts the images with their class among the five most probable classes."""
    best = logits.argsort(dim=1, descending=True, stable=True)[:, :5]
    return (best == targets.unsqueeze(1)).sum()


def scores_by_class(confusion: Tensor) -> dict[str, Tensor]:
    """Returns precision, recall and F1 of each class, float64 of shape (classes,).

    They are 0 where the denominator is 0, as with zero_division=0 of scikit-learn:
    precision of a class without predictions, recall of a class without images.
    """
    correct = confusion.diag().double()
    images, predictions = confusion.sum(dim=1), confusion.sum(dim=0)
    return {
        "precision": correct / predictions.clamp(min=1),
        "recall": correct / images.clamp(min=1),
        "f1": 2 * correct / (images + predictions).clamp(min=1),
    }


def mean_scores(confusion: Tensor) -> dict[str, float]:
    """Returns the balanced accuracy, and the macro means of precision, recall and F1.

    As in scikit-learn, the balanced accuracy is the mean recall of classes with images.
    The macro means are over the classes with images or predictions.
    """
    scores = scores_by_class(confusion)
    has_images, is_predicted = confusion.sum(dim=1) > 0, confusion.sum(dim=0) > 0
    counted = has_images | is_predicted
    means = {name: mean_of(values, counted) for name, values in scores.items()}
    return {"balanced_accuracy": mean_of(scores["recall"], has_images), **means}


def mean_of(values: Tensor, counted: Tensor) -> float:
    """Returns the mean of the values where a boolean tensor is true."""
    return ((values * counted).sum() / counted.sum()).item()
