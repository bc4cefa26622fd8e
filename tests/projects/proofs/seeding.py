"""Reproducible runs."""

import os
from collections.abc import Iterator

import pytest
import torch
from leaf_diseases.seeding import seed_everything

CUBLAS = "CUBLAS_WORKSPACE_CONFIG"


@pytest.fixture
def no_determinism(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Begins without deterministic algorithms, and puts all switches back."""
    # Set and deleted, so that it is put back even if it was not there.
    monkeypatch.setenv(CUBLAS, "")
    monkeypatch.delenv(CUBLAS)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("no_determinism")
def test_nothing_is_switched_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    seed_everything(0)
    assert not torch.are_deterministic_algorithms_enabled()
    assert CUBLAS not in os.environ
    monkeypatch.setenv(CUBLAS, ":16:8")
    seed_everything(0, deterministic=True)
    assert os.environ[CUBLAS] == ":16:8"  # One's own is kept.
