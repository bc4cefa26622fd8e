"""Temperature scaling: a divisor of the logits (arXiv:1706.04599)."""

import torch
from torch import Tensor

from .confidence import log_loss
from .errors import UserError

LOWEST, HIGHEST = 0.01, 100.0
"""Bounds of a temperature."""
HALVINGS = 30
"""Steps of the bisection, to a billionth of the interval."""


def fit_temperatures(logits: Tensor, targets: Tensor) -> Tensor:
    """Returns the temperatures with the lowest log loss, of shape (1,) or (labels,).

    The log loss is convex in 1 / temperature, so that bisection finds the zero of its
    slope. A label without a minimum gets temperature 1.

    Raises:
        UserError: no log loss has a minimum.
    """
    varied = targets.amin(dim=0) < targets.amax(dim=0)
    if not varied.any():
        raise UserError(
            "the images have one class only: calibrate on images of all classes"
        )
    low = torch.full_like(log_loss(logits, targets), LOWEST).log()
    high = torch.full_like(low, HIGHEST).log()
    for _ in range(HALVINGS):
        middle = ((low + high) / 2).requires_grad_()
        loss = log_loss(logits / middle.exp(), targets).sum()
        [slope] = torch.autograd.grad(loss, middle)
        middle = middle.detach()
        low, high = middle.where(slope < 0, low), high.where(slope < 0, middle)
    found = high.exp()
    fitted = varied & (found > 1.01 * LOWEST) & (found < 0.99 * HIGHEST)
    if not fitted.any():
        raise UserError(
            f"no temperature from {LOWEST} to {HIGHEST} minimizes the log loss, as all "
            "outputs are right, or no better than chance: calibrate on more images"
        )
    return found.where(fitted, torch.ones_like(found))
