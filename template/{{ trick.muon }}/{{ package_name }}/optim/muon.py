"""Muon for the weights of hidden layers, and AdamW for the rest (arXiv:2502.16982)."""

import math
from typing import Any

import torch
from torch import Tensor, nn

LAYERS = (nn.Linear, nn.MultiheadAttention, nn.modules.conv._ConvNd)
"""Layers with matrices. Norm layers and embeddings have none."""
MOMENTUM = 0.95
COEFFICIENTS = 3.4445, -4.7750, 2.0315
"""Of K. Jordan (https://kellerjordan.github.io/posts/muon/), for five iterations."""


class Muon(torch.optim.Optimizer):
    """Updates groups that are `hidden` by Muon, and the others by AdamW.

    It is one optimizer, whose steps are taken or skipped as a whole.
    """

    def __init__(self, groups: list[dict[str, Any]], **defaults: Any) -> None:
        super().__init__(groups, defaults)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group)
        self.share_with_adamw()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.share_with_adamw()  # load_state_dict() makes new groups and states.

    def share_with_adamw(self) -> None:
        """Shares the other groups, and the states, with an AdamW."""
        others = [group for group in self.param_groups if not group["hidden"]]
        # torch refuses an empty list, but accepts an empty group.
        self.adamw = torch.optim.AdamW(others or [{"params": []}])
        self.adamw.state = self.state

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Updates the weights that have a gradient."""
        loss = self.adamw.step(closure)
        for group in self.param_groups:
            for weight in group["params"] if group["hidden"] else ():
                if weight.grad is not None:
                    update = orthogonalize(self.momentum(weight).flatten(1))
                    # The size of AdamW's updates, for the same rate and weight decay.
                    size = 0.2 * math.sqrt(max(update.shape))
                    weight.mul_(1 - group["lr"] * group["weight_decay"])
                    weight.add_(update.view_as(weight), alpha=-group["lr"] * size)
        return loss

    def momentum(self, weight: Tensor) -> Tensor:
        """Adds a weight's gradient to its momentum; returns the Nesterov momentum."""
        gradient, state = weight.grad, self.state[weight]
        assert gradient is not None
        if not state:
            state["momentum_buffer"] = torch.zeros_like(weight)
        momentum = state["momentum_buffer"].lerp_(gradient, 1 - MOMENTUM)
        return gradient.lerp(momentum, MOMENTUM)


def orthogonalize(matrix: Tensor) -> Tensor:
    """Returns U Vᵀ of the singular value decomposition U S Vᵀ, approximately.

    Newton-Schulz iterations bring singular values above 1/500 of the norm to
    0.7 to 1.2, and leave smaller ones below.
    """
    a, b, c = COEFFICIENTS
    tall = matrix.shape[0] > matrix.shape[1]
    x = (matrix.T if tall else matrix).to(dtype_of_iterations(matrix.device))
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(5):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x


def dtype_of_iterations(device: torch.device) -> torch.dtype:
    """Returns bfloat16, or float32 on a CPU where bfloat16 is slower."""
    if device.type != "cpu":
        return torch.bfloat16
    # Builds without oneDNN, as for macOS, do not have the second function.
    by_onednn = torch.backends.mkldnn.is_available()
    if by_onednn and torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return torch.bfloat16
    return torch.float32


def split_hidden(
    model: nn.Module, groups: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Splits parameter groups by `hidden`."""
    inner = set(hidden_weights(model))
    split = []
    for group in groups:
        params = list(group["params"])
        for hidden in (True, False):
            weights = [p for p in params if (p in inner) == hidden]
            split.append(group | {"params": weights, "hidden": hidden})
    return [group for group in split if group["params"]]


def hidden_weights(model: nn.Module) -> list[nn.Parameter]:
    """Returns the matrices of a model between its first layer and its heads.

    A convolution is a matrix with a row for each output channel. A depthwise
    convolution is none: it has a filter for each channel.
    """
    matrices = {
        f"{place}.{name}": weight
        for place, layer in model.named_modules()
        if isinstance(layer, LAYERS)
        for name, weight in layer.named_parameters(recurse=False)
        if name.endswith("weight")
    }
    weights = list(matrices.values())
    # Some models have several heads, such as `classifier` and `aux_classifier`.
    heads = [
        weight
        for name, weight in matrices.items()
        if ("head" in name or "classifier" in name) and len(weight) == len(weights[-1])
    ]
    # A layer may share the weight of an embedding.
    tables = [each.weight for each in model.modules() if isinstance(each, nn.Embedding)]
    others = {*weights[:1], *heads, *weights[-1:], *tables}
    return [w for w in weights if w not in others and min(w.shape[:2]) > 1]


def describe_split(optimizer: torch.optim.Optimizer) -> str:
    """Describes how many weights each algorithm updates."""
    sizes: dict[bool, list[int]] = {True: [], False: []}
    for group in optimizer.param_groups:
        sizes[group["hidden"]] += [weight.numel() for weight in group["params"]]
    matrices = f"muon for {sum(sizes[True]):,} weights in {len(sizes[True])} matrices"
    return f"{matrices}, adamw for the other {sum(sizes[False]):,}"
