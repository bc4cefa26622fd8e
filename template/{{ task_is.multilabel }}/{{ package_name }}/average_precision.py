"""Average precision of each label, from counts of binned logits.

https://scikit-learn.org/stable/modules/generated/sklearn.metrics.average_precision_score.html
"""

import torch
from torch import Tensor

BINS = 2**14
"""Number of bins, by the first 14 bits of a logit as a number of 16 bits: sign, exponent
and 8 bits of the fraction."""


def bin_of(logits: Tensor) -> Tensor:
    """Returns the bin of each logit, from 0 to BINS - 1, in ascending order."""
    bits = logits.half().view(torch.int16).int()
    # The bits of negative numbers are in descending order.
    ordered = bits ^ ((bits >> 15) & 0x7FFF)
    return ((ordered + 2**15) >> 2).long()


def count_scores(logits: Tensor, there: Tensor) -> Tensor:
    """Counts all samples and the positive samples in each bin.

    Args:
        logits: of shape (N, labels).
        there: bool of the same shape, true for positive samples.

    Returns:
        int32 of shape (2, labels, BINS): all samples, and positive samples.
    """
    labels = logits.shape[1]
    places = torch.arange(labels, device=logits.device) * BINS + bin_of(logits)
    counts = torch.zeros(2, labels * BINS, dtype=torch.int32, device=logits.device)
    ones = torch.stack([torch.ones_like(there), there]).int().flatten(1)
    return counts.index_add_(1, places.flatten(), ones).view(2, labels, BINS)


def average_precisions(scores: Tensor) -> Tensor:
    """Returns the average precision of each label, of shape (labels,).

    The mean precision at the logits of positive samples; NaN without any.

    Args:
        scores: sums of `count_scores`.
    """
    precisions = []
    for part in scores.split(100, dim=1):  # Copies of all labels would be large.
        found, right = part.flip(2).cumsum(dim=2)
        there = right[:, -1:]
        precision = right / found.clamp(min=1)
        gained = right.diff(dim=1, prepend=torch.zeros_like(there)) / there
        precisions.append((precision * gained).sum(dim=1))
    return torch.cat(precisions)
