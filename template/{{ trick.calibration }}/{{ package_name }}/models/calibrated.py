"""Trained models whose logits are divided by a temperature (arXiv:1706.04599).

config.json maps the SHA-256 of weights to their temperatures, and to shifts of their
logits, if calibrate.py has fitted some. Only shifts change the order of the classes.
"""

import math
import sys
from hashlib import file_digest
from pathlib import Path

import torch
from torch import Tensor, nn

from .config import config_entries
from .trained import Trained, load_trained


class Calibrated(nn.Module):
    """Divides the logits of a model by a temperature, or by one per label.

    Then adds a shift to each class or label.
    """

    temperatures: Tensor
    shifts: Tensor

    def __init__(
        self, model: nn.Module, temperatures: list[float], shifts: list[float]
    ) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("temperatures", torch.tensor(temperatures))
        self.register_buffer("shifts", torch.tensor(shifts or [0.0]))

    def forward(self, inputs: Tensor) -> Tensor:
        logits = self.model(inputs).float() / self.temperatures
        return logits + self.shifts.view(-1, *[1] * (logits.ndim - 2))


def load_calibrated(
    weights: Path, config: Path | None, device: torch.device
) -> Trained:
    """Loads a trained model, calibrated if config.json has its temperatures."""
    trained = load_trained(weights, config, device)
    config = config or weights.with_name("config.json")
    with config_entries(config) as entries:
        stored = dict(entries.get("temperatures", {}))
        temperatures = list(stored.get(digest(weights), [])) if stored else []
        if len(temperatures) not in (0, 1, trained.task.outputs) or not all(
            0 < each < math.inf for each in temperatures
        ):
            raise ValueError(f"temperatures {temperatures}")
        shifts = list(entries.get("shifts", {}).get(digest(weights), []))
        if len(shifts) not in (0, trained.task.outputs) or not all(
            math.isfinite(each) for each in shifts
        ):
            raise ValueError(f"shifts {shifts}")
    if temperatures:
        shown = ", ".join(f"{each:.4g}" for each in temperatures)
        shown += ", and shifted" * bool(shifts)
        print(f"logits are divided by the temperature {shown}", file=sys.stderr)
        model = Calibrated(trained.model, temperatures, shifts).to(device).eval()
        return trained._replace(model=model)
    if stored:
        note = f"not calibrated: {config} has temperatures for other weights"
        print(f"{weights} is {note}", file=sys.stderr)
    return trained


def digest(weights: Path) -> str:
    """Returns the SHA-256 of a file."""
    with weights.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
