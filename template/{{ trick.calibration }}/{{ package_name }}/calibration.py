"""Temperature scaling: a divisor of the logits (arXiv:1706.04599)."""

import torch
from torch import Tensor
from torch.nn import functional as F

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


def fit_shifts(
    logits: Tensor, targets: Tensor, temperatures: Tensor
) -> tuple[Tensor, Tensor]:
    """Returns temperatures, and shifts of the divided logits, with the lowest log loss.

    Each class or label has a shift, which corrects its prior (arXiv:1901.06852).

    Args:
        temperatures: those of `fit_temperatures`.

    Raises:
        UserError: no shift of a class minimizes the log loss.
    """
    outputs = logits.shape[1]
    there = targets if targets.ndim == 2 else F.one_hot(targets, outputs)
    goal = targets.double() if targets.ndim == 2 else targets
    scales = (1 / temperatures).double().requires_grad_()
    shifts = scales.new_zeros(outputs).requires_grad_()
    optimizer = torch.optim.LBFGS(
        [scales, shifts], max_iter=500, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = log_loss(logits * scales + shifts, goal).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    found, shifts = 1 / scales.detach(), shifts.detach()
    varied = (there.amin(dim=0) < there.amax(dim=0)).all()
    if not (varied and ((found > LOWEST) & (found < HIGHEST)).all()):
        raise UserError(
            "no prior shift minimizes the log loss, as a class has no images here or no "
            "wrong outputs: calibrate on more images, or leave --prior-shift out"
        )
    return found.float(), shifts.float()
