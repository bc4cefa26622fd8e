"""States of the random generators of Python, NumPy and torch."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def generators_kept() -> Iterator[None]:
    """Restores the generators of Python, NumPy and torch (CPU) after the block."""
    python_state, numpy_state = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)


def seed_generators(seed: int) -> None:
    """Seeds the generators of Python, NumPy and torch (CPU)."""
    random.seed(seed)
    np.random.seed(seed)
    # torch.manual_seed() would seed the GPUs too, which are not restored.
    torch.default_generator.manual_seed(seed)
