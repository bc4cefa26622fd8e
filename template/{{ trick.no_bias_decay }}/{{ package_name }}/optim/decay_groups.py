"""Parameter groups with and without weight decay (arXiv:1812.01187, section 3.1)."""

from typing import Any

from torch import nn

from .penalized import penalized_weights


def split_decay(model: nn.Module, groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Splits parameter groups: only matrices and convolutions get weight decay.

    Biases and scales of norm layers are few. Decayed to zero, they would switch
    channels off instead of reducing overfitting.

    Args:
        model: model of the weights.
        groups: parameter groups, with lists of weights as `params`.
    """
    decaying = set(penalized_weights(model))
    split = []
    for group in groups:
        weights = [p for p in group["params"] if p in decaying]
        vectors = [p for p in group["params"] if p not in decaying]
        split += [
            group | {"params": weights},
            group | {"params": vectors, "weight_decay": 0.0},
        ]
    return [group for group in split if group["params"]]
