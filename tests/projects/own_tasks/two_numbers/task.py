"""The task, which is a regression of two numbers: how red and how green an image is."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

METRICS = {"loss": ".4f", "error": ".3f", "r2": ".3f"}
RESULT = "r2"
BEST = max
PREDICTION = {"name": "", "value": ".3f"}
NAMES = ("red", "green")
OUTPUT = "numbers"

TARGET_DTYPE = torch.float32
TARGET_IS_CLASS = False


def parse_target(label: str, classes: dict[str, int]) -> tuple[float, ...]:
    """Reads `0.25 -0.5`."""
    numbers = tuple(map(float, label.split()))
    if len(numbers) != len(NAMES):
        raise ValueError(f"{len(numbers)} numbers")
    return numbers


def derive(sums: dict[str, Tensor], samples: int) -> dict[str, float]:
    metrics = {name: sums[name].item() / samples for name in ("loss", "error")}
    # The share of the variance that is explained, as the mean over both numbers.
    variance = sums["squares"] / samples - (sums["targets"] / samples) ** 2
    unexplained = sums["squared_errors"] / samples
    metrics["r2"] = (1 - unexplained / variance.clamp(min=1e-6)).mean().item()
    return metrics


def output_size(classes: list[str]) -> int:
    return len(NAMES)


def interpret(outputs: Tensor, classes: list[str], top: int) -> list[tuple[str, float]]:
    return list(zip(NAMES, outputs.tolist()))


def activate(outputs: Tensor) -> Tensor:
    return outputs


class Criterion(nn.Module):
    def forward(
        self, outputs: Tensor, targets: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        errors = outputs - targets
        loss = F.mse_loss(outputs, targets, reduction="sum") / len(NAMES)
        return loss, {
            "error": errors.abs().mean(dim=1).sum(),
            "targets": targets.sum(dim=0),
            "squares": targets.square().sum(dim=0),
            "squared_errors": errors.square().sum(dim=0),
        }
