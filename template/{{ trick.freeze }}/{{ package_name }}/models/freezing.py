"""Freezing of weights by patterns of their names.

arXiv:1411.1792 measures how well each layer of a network transfers.
"""

import difflib
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from torch import nn

from ..errors import UserError


def freeze(model: nn.Module, patterns: Sequence[str]) -> None:
    """Freezes the weights whose names match a pattern, such as `features.*`.

    Call it before the model is copied, wrapped or split, and the optimizer is made.
    Frozen weights have no gradients: with zero gradients, they would still decay.
    """
    weights = dict(model.named_parameters())
    for pattern in patterns:
        matched = [name for name in weights if fnmatchcase(name, pattern)]
        if not matched:
            tries = " or ".join(similar_patterns(model, pattern))
            raise UserError(f"--freeze {pattern} matches no weight: try {tries}")
        for name in matched:
            weights[name].requires_grad_(False)
    if not trained(model):
        raise UserError(
            "--freeze leaves nothing to train: pass patterns without the last layer"
        )


def similar_patterns(model: nn.Module, pattern: str) -> list[str]:
    """Returns similar patterns, or a pattern for each part of the model."""
    names = [name for name, _ in model.named_parameters()]
    modules = [name for name, module in model.named_modules() if [*module.parameters()]]
    patterns = [f"{name}.*" for name in modules if name] + names
    parts = dict.fromkeys(re.sub(r"\..*", ".*", name) for name in names)
    return difflib.get_close_matches(pattern, patterns, n=3) or list(parts)


def trained(model: nn.Module) -> list[nn.Parameter]:
    """Returns the weights that are not frozen."""
    return [weight for weight in model.parameters() if weight.requires_grad]


def train_unfrozen(model: nn.Module) -> None:
    """Sets a model to training mode, but keeps statistics of frozen batch-norm."""
    model.train()
    for norm in frozen_norms(model):
        norm.eval()


def frozen_norms(model: nn.Module) -> list[nn.Module]:
    """Returns the batch-norm layers whose weights are all frozen."""
    kind = nn.modules.batchnorm._BatchNorm  # Base class for any number of dimensions.
    norms = [module for module in model.modules() if isinstance(module, kind)]
    return [norm for norm in norms if norm.affine and not trained(norm)]
