"""The task: what is learned, measured and printed."""

import pytest
import torch

from leaf_diseases.task import Criterion, derive, interpret, parse_target


def test_r2_is_one_for_the_targets_and_zero_for_their_mean() -> None:
    targets = torch.tensor([[0.0, 4.0], [1.0, 2.0]])
    for outputs, r2 in ((targets, 1), (targets.mean(dim=0).expand(2, 2), 0)):
        loss, sums = Criterion()(outputs, targets)
        assert derive({"loss": loss, **sums}, 2)["r2"] == pytest.approx(r2)


def test_two_numbers_are_read_and_named() -> None:
    assert parse_target("0.5 -1", {}) == (0.5, -1)
    with pytest.raises(ValueError, match="3 numbers"):
        parse_target("1 2 3", {})
    named = interpret(torch.tensor([0.5, -1]), [], top=3)
    assert named == [("red", 0.5), ("green", -1)]
