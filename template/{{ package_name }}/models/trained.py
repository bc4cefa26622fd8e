"""Trained models: weights, with what the config.json of their run says of them."""

import json
import os
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from ..data.transforms import Preprocessing
from ..errors import UserError
from ..settings import Settings
from ..task import output_size
from .networks import build_model
from .weights import load_weights


class Trained(NamedTuple):
    """A trained model, on its device and ready to be evaluated."""

    model: nn.Module
    classes: list[str]
    preprocessing: Preprocessing
    settings: Settings
    """Those of the run."""
    device: torch.device


def load_trained(weights: Path, config: Path | None, device: torch.device) -> Trained:
    """Loads the model of a weights file.

    Args:
        config: the config.json of the run. None: the one beside the weights.

    Raises:
        UserError: one of the files is missing, damaged, or of another model.
    """
    if not os.path.exists(weights):
        raise UserError(f"there is no file {weights}: pass the model.pt of a run")
    settings, classes, preprocessing = read_config(
        config or weights.with_name("config.json")
    )
    model = build_model(settings.model, output_size(classes), preprocessing.crop_size)
    load_weights(model, weights)
    return Trained(model.to(device).eval(), classes, preprocessing, settings, device)


def read_config(path: Path) -> tuple[Settings, list[str], Preprocessing]:
    """Reads the settings, the classes and the preprocessing that `train.py` wrote."""
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        settings = Settings.from_dict(config["settings"])
        preprocessing = Preprocessing(**config["preprocessing"])
        size = min(preprocessing.resize_size, preprocessing.crop_size)
        if not isinstance(config["settings"]["model"], str) or size < 1:
            raise ValueError(f"no model {settings.model}, no size {size}")
        preprocessing.transform()
        return settings, list(config["classes"]), preprocessing
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"cannot read {path}: pass the config.json of the run with --config"
        ) from error
