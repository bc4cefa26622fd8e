"""Expected calibration error and reliability diagrams (arXiv:1706.04599)."""

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

BINS = 15
"""Number of confidence bins of equal width."""


def bin_confidences(confidences: Tensor, right: Tensor) -> Tensor:
    """Returns the counts, sums of confidences, and sums of outcomes of each bin.

    Args:
        confidences: from 0 to 1, of shape (N, columns).
        right: outcomes of the same shape. 1: the class is right, or the label is there.

    Returns:
        float64 of shape (3, BINS, columns).
    """
    bins = (confidences * BINS).ceil().long().clamp(1, BINS) - 1
    values = torch.stack([torch.ones_like(right), confidences, right]).double()
    sums = values.new_zeros(3, BINS, right.shape[1])
    return sums.scatter_add(1, bins.expand(3, -1, -1), values)


def calibration_errors(binned: Tensor) -> Tensor:
    """Returns the expected calibration error of each column."""
    counts, confidences, right = binned
    return (confidences - right).abs().sum(dim=0) / counts.sum(dim=0)


def draw_reliability(before: Tensor, after: Tensor) -> Figure:
    """Draws the reliability diagrams before and after calibration, over all columns."""
    # Without pyplot, which keeps every figure and may need a screen.
    figure = Figure(figsize=(8, 4), layout="constrained")
    panels = {"before": before, "after": after}
    for axes, title in zip(figure.subplots(1, 2), panels):
        sums = panels[title].sum(dim=2).numpy()
        used = np.flatnonzero(sums[0])
        counts, confidences, right = sums[:, used]
        means, shares = confidences / counts, right / counts
        axes.bar(used / BINS, shares, 1 / BINS, align="edge")
        axes.plot([0, 1], [0, 1], "--", color="grey")
        axes.plot(means, shares, "o", color="black", markersize=3)
        axes.set(title=title, xlabel="confidence", ylabel="observed frequency")
        axes.set(xlim=(0, 1), ylim=(0, 1))
    return figure
