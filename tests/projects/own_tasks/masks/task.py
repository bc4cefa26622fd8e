"""The task, which is segmentation: a class for each pixel of an image."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

METRICS = {"loss": ".4f", "accuracy": ".2%", "iou": ".2%"}
RESULT = "iou"
BEST = max
PREDICTION = {"class": "", "area": ".1%"}
NAMES = ("background", "square")

TARGET_DTYPE = torch.int64
TARGET_IS_CLASS = False


def parse_target(label: str, classes: dict[str, int]) -> Tensor:
    raise ValueError("a mask is no text")


def derive(sums: dict[str, Tensor], samples: int) -> dict[str, float]:
    pixels = sums["pixels"]
    right = pixels.diagonal()
    union = (pixels.sum(dim=0) + pixels.sum(dim=1) - right).clamp(min=1)
    return {
        "loss": sums["loss"].item() / samples,
        "accuracy": (right.sum() / pixels.sum()).item(),
        "iou": (right / union).mean().item(),
    }


def output_size(classes: list[str]) -> int:
    return len(NAMES)


def interpret(logits: Tensor, classes: list[str], top: int) -> list[tuple[str, float]]:
    """Returns the share of the pixels of each class."""
    areas = logits.argmax(dim=0).flatten().bincount(minlength=len(NAMES))
    return list(zip(NAMES, (areas / areas.sum()).tolist()))


class Criterion(nn.Module):
    def forward(
        self, logits: Tensor, targets: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        loss = F.cross_entropy(logits, targets, reduction="none").mean(dim=(1, 2)).sum()
        pairs = targets * len(NAMES) + logits.argmax(dim=1)
        counts = pairs.flatten().bincount(minlength=len(NAMES) ** 2)
        return loss, {"pixels": counts.view(len(NAMES), len(NAMES))}
