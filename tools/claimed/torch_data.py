"""Statements about torch: data loaders."""

import random
import warnings
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


@claim("torch", "docs/recipes/data.md", "Without an accelerator, pinning warns.")
def _() -> object:
    assert not torch.accelerator.is_available()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        list(DataLoader([1], pin_memory=True))
    assert caught
    return str(caught[0].message)[:80]


class Counted(Dataset[Any]):
    """A data set whose samples are its count and numbers of a generator of its own."""

    def __init__(self) -> None:
        self.count = 0
        self.random = np.random.default_rng(0)

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> tuple[int, float]:
        return self.count, self.random.random()


@claim(
    "torch",
    "docs/recipes/data.md",
    "Later changes do not reach persistent workers.",
)
@claim(
    "torch",
    "docs/tricks/seeding.md",
    "because persistent workers hold a copy of the data set.",
)
@claim(
    "torch",
    "docs/recipes/data.md",
    "A generator that the data set created in `__init__` is equal in all workers.",
)
def _() -> object:
    seen = {}
    for persistent in (False, True):
        data = Counted()
        loader = DataLoader(
            data, batch_size=1, num_workers=2, persistent_workers=persistent
        )
        rows = list(loader)
        assert rows[0][1] == rows[1][1]  # Of the two workers.
        data.count = 1
        seen[persistent] = {int(count) for count, _ in loader}
    assert seen == {False: {1}, True: {0}}, seen
    return "persistent workers still return the old count"


@claim(
    "torch",
    "docs/recipes/data.md",
    "`prefetch_factor` | batches that each worker loads ahead (2)",
)
def _() -> object:
    assert DataLoader([1], num_workers=1).prefetch_factor == 2
    return 2
