"""Selection of penalized weights: no biases, norm layers or embeddings."""

from fnmatch import fnmatchcase
from typing import Any

from torch import nn

POSITIONS = ("*pos_embed", "*pos_embedding", "*relative_position_bias_table")
"""Names of position embeddings in torchvision and other models."""


def penalized_weights(model: nn.Module) -> list[nn.Parameter]:
    """Returns the weights of two or more dimensions, such as matrices and convolutions.

    Dimensions of size 1 do not count: class tokens and layer scales are vectors.
    Weights in the model's `no_weight_decay()` are left out.
    """
    named_by_model: Any = getattr(model, "no_weight_decay", list)
    exempt = [*POSITIONS, *named_by_model()]
    return [
        weight
        for name, weight in model.named_parameters()
        if sum(size > 1 for size in weight.shape) >= 2
        and not any(fnmatchcase(name, pattern) for pattern in exempt)
    ]
