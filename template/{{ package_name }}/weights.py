"""Weights on disk: always the raw model's, without a wrapper's prefix."""

from collections.abc import Container, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .command_line import UserError
from .files import write_atomically


def save_weights(state: Mapping[str, Tensor], path: Path) -> None:
    """Saves the state dict of a raw model, on the CPU."""
    on_cpu = {name: weight.cpu() for name, weight in state.items()}
    write_atomically(path, partial(torch.save, on_cpu))


def load_weights(model: nn.Module, path: Path) -> None:
    """Loads a state dict into a raw model, whichever wrapper it was saved from.

    A training checkpoint will do too: its entry `model` or `state_dict` is taken.

    Raises:
        UserError: the file is missing, damaged, no weights, or another model's.
    """
    state = load_safely(path)
    for entry in ("model", "state_dict"):
        if isinstance(state, dict) and isinstance(state.get(entry), dict):
            state = state[entry]
    if not isinstance(state, dict) or not all(
        isinstance(value, Tensor) for value in state.values()
    ):
        raise UserError(f"{path} holds no weights: pass a file saved as model.pt is")
    try:
        model.load_state_dict(strip_prefixes(state, model.state_dict()))
    except RuntimeError as error:
        raise UserError(
            f"{path} holds the weights of another model: check model and classes"
        ) from error


def load_safely(path: Path) -> Any:
    """Loads tensors and plain types onto the CPU, and runs no code from the file."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise UserError(f"there is no file {path}") from error
    except Exception as error:  # A damaged file can fail in any way.
        raise UserError(
            f"{path} is damaged, or holds more than tensors and plain types: "
            "use another file"
        ) from error


def strip_prefixes(
    state: dict[str, Tensor], own_names: Container[str]
) -> dict[str, Tensor]:
    """Takes the prefixes of wrappers off the names of weights.

    Each of DataParallel, DistributedDataParallel and AveragedModel adds `module.`, and
    torch.compile adds `_orig_mod.`, in any order. A name that the model itself has is
    kept, so that a submodule may be called `module`.
    """
    stripped = {}
    for name, weight in state.items():
        if name == "n_averaged" and name not in own_names:
            continue  # AveragedModel counts in it.
        while name not in own_names and name.startswith(("module.", "_orig_mod.")):
            name = name.partition(".")[2]
        stripped[name] = weight
    return stripped
