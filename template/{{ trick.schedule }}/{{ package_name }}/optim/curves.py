"""Learning-rate schedules, as shares of the highest rate.

Each equals a class of torch.optim.lr_scheduler, as a function of the step alone.
https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate
"""

import math
from bisect import bisect_right

from ..settings import Settings


def scheduled_share(step: int, total_steps: int, settings: Settings) -> float:
    """Returns the share of the highest learning rate for one optimizer step.

    It rises linearly over the n steps of the warm-up, from 1 / n to 1, and then follows
    --schedule. `onecycle` has its own warm-up. Steps count from 0.
    """
    if settings.schedule == "onecycle":
        return one_cycle(step, total_steps, settings.rising_share)
    warmup = int(settings.rising_share * total_steps)
    if settings.rising_share > 0:
        warmup = max(1, warmup)
    if step < warmup:
        return (step + 1) / warmup
    match settings.schedule:
        case "cosine":
            return half_cosine(1.0, 0.0, (step - warmup) / max(1, total_steps - warmup))
        case "step":
            interval = max(1, round(settings.step_share * total_steps))
            return settings.gamma ** (step // interval)
        case "multistep":
            falls = [round(share * total_steps) for share in settings.milestones]
            return settings.gamma ** bisect_right(falls, step)
        case "constant" | "plateau":
            return 1.0


def one_cycle(step: int, total_steps: int, rising_share: float) -> float:
    """Returns the share of OneCycleLR (arXiv:1708.07120), which has its own warm-up.

    It rises from 1 / 25, and falls to 1 / 250,000 in the last step.
    """
    peak, last = rising_share * total_steps - 1, total_steps - 1
    if step < peak:
        return half_cosine(1 / 25, 1.0, step / peak)
    return half_cosine(1.0, 1 / 250_000, (step - peak) / (last - peak))


def half_cosine(start: float, end: float, progress: float) -> float:
    """Half a cosine from `start` (progress 0) to `end` (progress 1 and beyond)."""
    fall = 0.5 + 0.5 * math.cos(math.pi * min(1.0, progress))
    return end + (start - end) * fall
