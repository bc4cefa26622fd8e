"""First convolutions for any number of channels, by timm's rule.

https://huggingface.co/docs/timm/models
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from ..errors import UserError


def fit_channels(weight: Tensor, channels: int) -> Tensor:
    """Returns the weight of a convolution for another number of input channels.

    The channels are repeated, and scaled so that outputs keep their size. For one
    channel they are summed.

    Args:
        weight: shape (outputs, channels before, height, width).
    """
    before = weight.shape[1]
    if channels == 1:
        return weight.sum(dim=1, keepdim=True)
    repeated = weight.repeat(1, -(-channels // before), 1, 1)[:, :channels]
    return repeated * (before / channels)


def replace_first_convolution(model: nn.Module, name: str, channels: int) -> None:
    """Fits the first convolution of a model for RGB to another number of channels."""
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d):
            if layer.in_channels != 3 or layer.groups != 1:
                break
            with torch.no_grad():
                layer.weight = nn.Parameter(fit_channels(layer.weight, channels))
            layer.in_channels = channels
            return
    raise UserError(
        f"{name} does not begin with a convolution of 3 channels: pass another --model, "
        "or 3 --channels"
    )


def fit_first_convolution(
    weights: Mapping[str, Tensor], own: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Returns weights with the first convolution for the channels of a model.

    Args:
        own: the weights of the model, in the order of its layers.
    """
    fitted = dict(weights)
    name = next((name for name, weight in own.items() if weight.ndim == 4), "")
    if name in weights and weights[name].ndim == 4:
        outputs, before, *size = weights[name].shape
        wanted, channels, *own_size = own[name].shape
        if [outputs, *size] == [wanted, *own_size] and before != channels:
            fitted[name] = fit_channels(weights[name], channels)
            print(f"fitted {name} from {before} channels to {channels}")
    return fitted
