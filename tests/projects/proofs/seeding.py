"""Reproducible runs."""

import os

import pytest
import torch
from leaf_diseases.seeding import seed_everything
from test_seeding import no_determinism

CUBLAS = "CUBLAS_WORKSPACE_CONFIG"


@pytest.mark.usefixtures("no_determinism")
def test_nothing_is_switched_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    seed_everything(0)
    assert not torch.are_deterministic_algorithms_enabled()
    assert CUBLAS not in os.environ
    monkeypatch.setenv(CUBLAS, ":16:8")
    seed_everything(0, deterministic=True)
    assert os.environ[CUBLAS] == ":16:8"  # One's own is kept.
