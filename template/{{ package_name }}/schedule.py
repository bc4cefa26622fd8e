"""The learning-rate schedule."""

import math


def warmup_cosine(step: int, total_steps: int) -> float:
    """Returns the share of the highest learning rate for one optimizer step.

    Rises linearly over the first twentieth of the steps, then falls to 0 along half a
    cosine (arXiv:1608.03983).

    Args:
        step: number of the step, from 0.
        total_steps: steps of the whole run.
    """
    warmup = max(1, total_steps // 20)
    if step < warmup:
        return (step + 1) / warmup
    progress = (step - warmup) / max(1, total_steps - warmup)
    return 0.5 + 0.5 * math.cos(math.pi * min(1.0, progress))
