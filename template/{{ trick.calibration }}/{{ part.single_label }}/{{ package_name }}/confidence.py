"""Confidences of predicted classes, and the log loss."""

from torch import Tensor
from torch.nn import functional as F


def log_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Returns the mean negative log-likelihood, of shape (1,).

    Args:
        logits: float32 of shape (N, classes).
        targets: classes of shape (N,).
    """
    return F.cross_entropy(logits, targets).unsqueeze(0)


def confidences(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the probabilities of the predicted classes, and whether they are right.

    Both have the shape (N, 1).
    """
    predicted = logits.argmax(dim=1, keepdim=True)
    highest = logits.softmax(dim=1).gather(1, predicted)
    return highest, (predicted == targets.unsqueeze(1)).float()
