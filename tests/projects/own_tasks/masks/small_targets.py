"""Targets in the small world of the tests: masks of a square of one of six sizes."""

import torch
from torch import Tensor
from torchvision import tv_tensors

NAMES = ["background", "square"]

LABEL_OPTIONS = {"label_column": "area"}


def small_target(kind: int) -> Tensor:
    return tv_tensors.Mask((torch.arange(64).view(8, 8) < 10 * kind).long())


def label_cells(kind: int) -> dict[str, str]:
    return {"area": str(kind / 5)}
