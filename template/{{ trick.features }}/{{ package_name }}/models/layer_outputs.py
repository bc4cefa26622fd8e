"""Outputs of a model's layers, by forward hooks.

https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.register_forward_hook
"""

import difflib
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import UserError

PENULTIMATE = "penultimate"
"""Name for the input of the head, the last layer with weights."""


def output_shapes(model: nn.Module, example: Tensor) -> dict[str, tuple[int, ...]]:
    """Returns the shape of each layer's output for an input, in the order of the calls.

    Layers without an output tensor of shape (N, ...) are left out.

    Args:
        example: a batch of inputs.
    """
    shapes: dict[str, tuple[int, ...]] = {}

    def note(name: str, _layer: nn.Module, _inputs: Any, output: Any) -> None:
        if isinstance(output, Tensor) and output.shape[:1] == example.shape[:1]:
            shapes.pop(name, None)  # A repeated layer moves to its last call.
            shapes[name] = tuple(output.shape[1:])

    layers = [(name, layer) for name, layer in model.named_modules() if name]
    hooks = [layer.register_forward_hook(partial(note, name)) for name, layer in layers]
    with torch.inference_mode():
        model(example)
    for hook in hooks:
        hook.remove()
    return shapes


def record_outputs(
    model: nn.Module,
    layers: tuple[str, ...],
    called: list[str],
    pooled: Sequence[int] | None = None,
) -> dict[str, Tensor]:
    """Records the outputs of layers as float32 in a dict, at each forward pass.

    Hooks also work for models that cannot be traced. A layer that is called more than
    once has its last output.

    Args:
        layers: names of layers, or PENULTIMATE.
        called: names of all layers, in the order of their calls.
        pooled: height and width of the inputs, to reduce maps and tokens to their means.
            None: outputs as they are.
    """
    outputs: dict[str, Tensor] = {}

    def note(name: str, _layer: nn.Module, inputs: Any, output: Any) -> None:
        found = inputs[0] if name == PENULTIMATE else output
        # A copy, as the next layer may compute in place.
        found = found.to(torch.float32, copy=True)
        outputs[name] = mean_over_positions(found, pooled) if pooled else found

    for name in layers:
        place = find_head(model, called) if name == PENULTIMATE else name
        if place not in called:
            close = difflib.get_close_matches(name, called, n=3) or [PENULTIMATE]
            raise UserError(
                f"there is no layer {name} with a tensor per image: try --layers "
                f"{' or '.join(close)} (features.py without images lists all)"
            )
        model.get_submodule(place).register_forward_hook(partial(note, name))
    return outputs


def find_head(model: nn.Module, called: list[str]) -> str:
    """Returns the last called layer with weights."""
    for name in reversed(called):
        layer = model.get_submodule(name)
        if [*layer.parameters()] and not [*layer.children()]:
            return name
    raise UserError("the model has no layer with weights: name some with --layers")


def mean_over_positions(outputs: Tensor, size: Sequence[int]) -> Tensor:
    """Returns means (N, C) of maps (N, C, h, w) or (N, h, w, C), or tokens (N, L, C).

    Other outputs do not change.

    Args:
        size: height and width of the inputs.
    """
    if outputs.ndim != 4:
        return outputs.mean(1) if outputs.ndim == 3 else outputs
    # Maps have the aspect ratio of the inputs, which tells the two layouts apart.
    is_first, is_last = (
        abs(rows * size[1] - columns * size[0]) < max(size)
        for rows, columns in (outputs.shape[2:], outputs.shape[1:3])
    )
    return outputs.mean((1, 2) if is_last and not is_first else (2, 3))
