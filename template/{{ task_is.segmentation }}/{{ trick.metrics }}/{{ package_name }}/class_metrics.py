"""IoU, Dice, precision and recall per class, from the confusion matrix.

https://scikit-learn.org/stable/modules/model_evaluation.html#classification-metrics
"""

from torch import Tensor

from .pixel_metrics import class_ious, mean_of_known


def scores_by_class(confusion: Tensor) -> dict[str, Tensor]:
    """Returns IoU, Dice (F1), precision and recall of each class, of shape (classes,).

    They are 0 where the denominator is 0, as with zero_division=0 of scikit-learn.
    """
    correct = confusion.diag().double()
    pixels, predictions = confusion.sum(dim=1), confusion.sum(dim=0)
    return {
        "iou": class_ious(confusion),
        "dice": 2 * correct / (pixels + predictions).clamp(min=1),
        "precision": correct / predictions.clamp(min=1),
        "recall": correct / pixels.clamp(min=1),
    }


def mean_dice(confusion: Tensor) -> float:
    """Returns the mean Dice over the classes with pixels or predictions."""
    return mean_of_known(scores_by_class(confusion)["dice"], confusion)
