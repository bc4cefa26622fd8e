"""Seeds of `make proof` in a row take all shares, and the same seed the same share."""

import re
import subprocess
import sys
from dataclasses import dataclass

import pytest
from subsets import ROOT


@dataclass(frozen=True)
class Item:
    """A test with the mark `share`, as pytest has collected it."""

    nodeid: str
    path: str = "tests/test_a.py"
    originalname: str = "test_a"

    def get_closest_marker(self, name):
        return name == "share"


@pytest.fixture
def share(request, monkeypatch):
    """Returns a function that takes a seed, and returns a third of twelve tests."""
    [plugin] = (
        plugin
        for plugin in request.config.pluginmanager.get_plugins()
        if hasattr(plugin, "outside_of_the_share")
    )
    items = [Item(f"tests/test_a.py::test_a[{number}]") for number in range(12)]

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


@pytest.mark.proof
def test_a_seed_that_nobody_gave_is_random_and_said(monkeypatch):
    monkeypatch.setenv("TORCH_TRICKS_SHARE", "3")
    monkeypatch.delenv("TORCH_TRICKS_SEED", raising=False)
    command = (*("-m", "pytest", "--collect-only", "-m", "proof"), __file__)
    said = [
        subprocess.check_output([sys.executable, *command], cwd=ROOT, encoding="utf-8")
        for _ in range(2)
    ]
    pattern = r"^make proof SHARE=3 SEED=(\d+) repeats this"
    [first], [second] = (re.findall(pattern, text, re.MULTILINE) for text in said)
    assert first != second
