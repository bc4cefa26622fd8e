"""The task, which is multi-label classification: any number of labels for an image."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

METRICS = {"loss": ".4f", "f1": ".2%"}
RESULT = "f1"
BEST = max
PREDICTION = {"label": "", "probability": ".1%"}
LABELS = ("red", "green", "blue")
OUTPUT = "probabilities"

TARGET_DTYPE = torch.float32
TARGET_IS_CLASS = False


def parse_target(label: str, classes: dict[str, int]) -> tuple[float, ...]:
    """Reads `red;blue`, or `none`."""
    names = [] if label == "none" else label.split(";")
    if unknown := {*names} - {*LABELS}:
        raise ValueError(f"unknown labels: {', '.join(unknown)}")
    return tuple(float(name in names) for name in LABELS)


def derive(sums: dict[str, Tensor], samples: int) -> dict[str, float]:
    right, wrong, missed = sums["counts"]
    f1 = 2 * right / (2 * right + wrong + missed).clamp(min=1)
    return {"loss": sums["loss"].item() / samples, "f1": f1.mean().item()}


def output_size(classes: list[str]) -> int:
    return len(LABELS)


def interpret(logits: Tensor, classes: list[str], top: int) -> list[tuple[str, float]]:
    return list(zip(LABELS, logits.sigmoid().tolist()))


def activate(logits: Tensor) -> Tensor:
    return logits.sigmoid()


class Criterion(nn.Module):
    def forward(
        self, logits: Tensor, targets: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        loss = F.binary_cross_entropy_with_logits(logits, targets, reduction="sum")
        found, there = logits > 0, targets > 0.5
        counts = (found & there, found & ~there, ~found & there)
        sums = torch.stack([count.sum(dim=0) for count in counts])
        return loss / len(LABELS), {"counts": sums}
