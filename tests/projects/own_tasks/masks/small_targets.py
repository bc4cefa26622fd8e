"""Targets in the small world of the tests: masks of a square of one of six sizes."""

from typing import Any

import torch
from torch import Tensor
from torchvision import tv_tensors

from leaf_diseases.task import Task

NAMES = ["background", "square"]

TWO_OUTPUTS = Task(["a", "b"])

PREDICTION_OPTIONS: dict[str, Any] = {}

LABEL_OPTIONS = {"label_column": "area"}


def small_target(kind: int) -> Tensor:
    return tv_tensors.Mask((torch.arange(64).view(8, 8) < 10 * kind).long())


def label_cells(kind: int) -> dict[str, str]:
    return {"area": str(kind / 5)}
