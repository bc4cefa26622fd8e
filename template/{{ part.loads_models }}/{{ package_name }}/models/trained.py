"""Loading of trained models: weights, and the config.json of their run."""

import os
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from ..data.transforms import Preprocessing
from ..errors import UserError
from ..settings import Settings
from ..task import Task
from .config import read_config
from .loading import load_weights
from .networks import make_model


class Trained(NamedTuple):
    """A trained model, on its device and ready to be evaluated."""

    model: nn.Module
    task: Task
    preprocessing: Preprocessing
    settings: Settings
    """Settings of the run."""
    device: torch.device


def load_trained(weights: Path, config: Path | None, device: torch.device) -> Trained:
    """Loads the model of a weights file.

    Args:
        config: config.json of the run. None: the config.json beside the weights.
    """
    if not os.path.isfile(weights):
        raise UserError(
            f"there is no file {weights}: pass the best.pt or model.pt of a run"
        )
    settings, task, preprocessing = read_config(
        config or weights.with_name("config.json")
    )
    model = make_model(settings, task.outputs, preprocessing)
    load_weights(model, weights)
    return Trained(model.to(device).eval(), task, preprocessing, settings, device)
