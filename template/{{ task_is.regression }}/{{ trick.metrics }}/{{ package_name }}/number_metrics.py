"""Binned counts of targets and predictions, and errors by target range.

https://scikit-learn.org/stable/modules/model_evaluation.html#regression-metrics
"""

import torch
from torch import Tensor

BINS, REACH = 48, 3.0
"""Bins of a plot per axis, and its limit in standard deviations from the mean."""
EDGES = (-1.5, -0.5, 0.5, 1.5)
"""Edges of the target ranges, in standard deviations from the mean."""


def count_pairs(outputs: Tensor, targets: Tensor) -> Tensor:
    """Counts pairs of target and prediction in two-dimensional bins.

    Args:
        outputs: standardized, of shape (N, numbers), as `targets`.

    Returns:
        int64 of shape (numbers, BINS, BINS): a row for each bin of targets, and a column
        for each bin of predictions. The outermost bins include values beyond them.
    """
    rows, columns = bins_of(targets), bins_of(outputs)
    numbers = torch.arange(targets.shape[1], device=targets.device)
    cells = ((numbers * BINS + rows) * BINS + columns).flatten()
    # On a GPU, bincount() would wait to read the largest cell.
    counts = cells.new_zeros(len(numbers) * BINS**2)
    return counts.index_add(0, cells, torch.ones_like(cells)).view(-1, BINS, BINS)


def bins_of(values: Tensor) -> Tensor:
    """Returns the bin indices of standardized values, from 0 to BINS - 1."""
    places = (values / REACH + 1) * (BINS / 2)
    return places.nan_to_num().clamp(0, BINS - 1).long()


def sum_by_range(errors: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the number of images and the sum of their errors in each range of targets.

    Args:
        errors: absolute errors of shape (N, numbers).
        targets: standardized, of the same shape.

    Returns:
        Both of shape (numbers, ranges), in the order of the ranges.
    """
    # No tensor of the edges: its copy would wait for the device.
    inside = torch.stack([targets < edge for edge in EDGES], dim=2)
    ranges = len(EDGES) - inside.sum(dim=2, keepdim=True)
    chosen = ranges == torch.arange(len(EDGES) + 1, device=targets.device)
    return chosen.sum(dim=0), (chosen * errors.unsqueeze(2)).sum(dim=0)
