"""Statements about torch: data loaders."""

import random
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from claimed.claim import claim


@claim(
    "torch",
    "docs/tricks/resume.md",
    "`iter()` of a loader draws from torch's global generator unless the loader has its own.",
)
def _() -> object:
    def moves(**options: Any) -> bool:
        before = torch.get_rng_state()
        iter(DataLoader([1, 2, 3], **options))
        return not torch.equal(before, torch.get_rng_state())

    assert moves() and not moves(generator=torch.Generator())
    return None


@claim(
    "torch",
    "docs/recipes/data.md",
    "Since torch 1.9, each worker seeds `random`, torch and NumPy's global generator.",
)
def _() -> object:
    class Draws(Dataset[Any]):
        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: int) -> tuple[float, float, float]:
            return random.random(), np.random.rand(), torch.rand(()).item()

    rows = list(DataLoader(Draws(), num_workers=2, batch_size=1))
    for one, two in zip(*rows, strict=True):
        assert one.item() != two.item()
    return "two workers drew other numbers from each"
