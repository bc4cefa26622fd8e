"""Probabilities of labels, and the log loss of each."""

from torch import Tensor
from torch.nn import functional as F


def log_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Returns the mean negative log-likelihood of each label, of shape (labels,).

    Args:
        logits: float32 of shape (N, labels).
        targets: 0 or 1, float32 of the same shape.
    """
    losses = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    return losses.mean(dim=0)


def confidences(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the probability of each label, and 1 where the image has it."""
    return logits.sigmoid(), targets
