"""Seeds of `make proof` in a row take all shares, and the same seed the same share."""

import os
from types import SimpleNamespace
from unittest.mock import Mock

import pytest


@pytest.fixture
def plugin(request):
    """tests/conftest.py, as pytest has loaded it."""
    plugins = request.config.pluginmanager.get_plugins()
    return next(one for one in plugins if hasattr(one, "outside_of_the_share"))


@pytest.fixture
def share(plugin, monkeypatch):
    """Returns a function that takes a seed, and returns a third of twelve tests."""
    same = {"path": "tests/test_a.py", "originalname": "test_a"}
    items = [Mock(nodeid=f"test_a[{number}]", **same) for number in range(12)]

    def take(seed):
        monkeypatch.setenv("TORCH_TRICKS_SHARE", "3")
        monkeypatch.setenv("TORCH_TRICKS_SEED", str(seed))
        left_out = plugin.outside_of_the_share(items)
        return {item.nodeid for item in items if item not in left_out}

    return take


def test_seeds_in_a_row_take_all_in_turn(share):
    shares = [share(seed) for seed in (7, 8, 9)]
    assert len(set().union(*shares)) == 12
    assert [len(taken) for taken in shares] == [4] * 3
    assert share(7) == share(10) == shares[0]


def test_a_seed_that_nobody_gave_is_random_and_said(plugin, monkeypatch):
    config = SimpleNamespace(option=SimpleNamespace(markexpr="proof"))
    said = set()
    for _ in range(2):
        monkeypatch.setenv("TORCH_TRICKS_SHARE", "3")
        monkeypatch.setenv("TORCH_TRICKS_SEED", "")
        plugin.pytest_configure(config)
        said.add(plugin.pytest_report_header(config))
        seed = os.environ["TORCH_TRICKS_SEED"]
        assert f"make proof SHARE=3 SEED={seed} repeats this" in said
    assert len(said) == 2
