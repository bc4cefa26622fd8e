"""Grad-CAM heat maps: image regions that raise an output of a model (arXiv:1610.02391).

Convolutional networks use the last layer with feature maps. Transformers use gradient
times activation of the last norm layer over all tokens.
https://captum.ai/api/layer.html
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from captum.attr import LayerGradCam, LayerGradientXActivation
from torch import Tensor, nn
from torch.nn import functional as F

NO_MAPS = (nn.AdaptiveAvgPool2d, nn.Dropout, nn.Identity, nn.Softmax)
"""Layers to ignore: not feature maps, or those of an earlier layer."""
STRONGEST = 0.8
"""Opacity of the colour at the maximum of a heat map."""


class HeatMaps:
    """Computes heat maps from the last layer of a model with spatial positions.

    Args:
        example: batch of two inputs, to find this layer.
    """

    def __init__(self, model: nn.Module, example: Tensor) -> None:
        self.method: Any = None
        """None: no layer has a grid of positions."""
        for layer, has_maps in reversed(layers_with_positions(model, example)):
            method = (LayerGradCam if has_maps else LayerGradientXActivation)(
                model, layer
            )
            found = attribute(method, example, 0)
            # Skips layers in which only the class token has a gradient.
            if ((found != 0).flatten(1).sum(dim=1) > 1).all():
                self.method = method
                break

    def compute(self, inputs: Tensor, output: int, sign: int) -> Tensor:
        """Returns heat maps from 0 to 1, of shape (N, H, W).

        Args:
            inputs: a batch, normalized.
            output: index of the output.
            sign: 1: regions that raise the output. -1: regions that lower it.
        """
        found = (sign * attribute(self.method, inputs, output)).relu().unsqueeze(1)
        heat = F.interpolate(found, inputs.shape[-2:], mode="bilinear").squeeze(1)
        return heat / heat.max().clamp(min=1e-30)


def attribute(method: Any, inputs: Tensor, output: int) -> Tensor:
    """Returns the attribution of an output to the positions of a layer, (N, h, w)."""
    found = method.attribute(inputs.detach().requires_grad_(), output)
    return sum_channels(found.detach().float(), inputs.shape[-2:])


def layers_with_positions(
    model: nn.Module, example: Tensor
) -> list[tuple[nn.Module, bool]]:
    """Returns the layers with a grid of positions, in the order of their calls.

    True stands for maps with channels first.
    """
    found: dict[nn.Module, bool] = {}
    size = example.shape[-2:]

    def note(layer: nn.Module, _inputs: Any, outputs: Any) -> None:
        if (
            not isinstance(outputs, Tensor)
            or len(outputs) != len(example)
            or outputs.ndim not in (3, 4)
            or isinstance(layer, NO_MAPS)
            # Other layers of a transformer also see queries, keys and values.
            or (outputs.ndim == 3 and "Norm" not in type(layer).__name__)
        ):
            return
        grid = sum_channels(outputs, size).shape[1:]
        if max(grid) > 1 and is_grid(grid, size):
            found.pop(layer, None)  # A repeated layer moves to its last call.
            found[layer] = outputs.ndim == 4 and is_grid(outputs.shape[2:], size)

    hooks = [layer.register_forward_hook(note) for layer in model.modules()]
    with torch.no_grad():
        model(example)
    for hook in hooks:
        hook.remove()
    return list(found.items())


def is_grid(grid: Sequence[int], size: Sequence[int]) -> bool:
    """Returns whether a grid has the aspect ratio of inputs, but for rounding."""
    (rows, columns), (height, width) = grid, size
    return abs(rows * width - columns * height) < max(size)


def sum_channels(outputs: Tensor, size: Sequence[int]) -> Tensor:
    """Sums maps (N, C, h, w) or (N, h, w, C), or tokens (N, L, C), to (N, h, w).

    Tokens without a position, such as class tokens, come first.

    Args:
        size: height and width of the inputs.
    """
    if outputs.ndim == 4:
        return outputs.sum(dim=1 if is_grid(outputs.shape[2:], size) else 3)
    tokens, wide = outputs.shape[1], size[1] / size[0]
    grids = [(n, int(n * wide) + more) for n in range(1, tokens + 1) for more in (0, 1)]
    grids = [g for g in grids if math.prod(g) <= tokens and is_grid(g, size)]
    grid = max(grids, key=math.prod, default=(1, 1))
    return outputs[:, -math.prod(grid) :].sum(dim=2).unflatten(1, grid)


def paint(images: Tensor, heat: Tensor) -> Tensor:
    """Paints heat maps in orange on grey images, uint8 of shape (N, 3, H, W)."""
    grey = images.float().mean(dim=1, keepdim=True)
    orange = torch.tensor([255.0, 100.0, 0.0]).view(3, 1, 1)
    share = STRONGEST * heat.unsqueeze(1)
    return (grey * (1 - share) + orange * share).round().byte()
