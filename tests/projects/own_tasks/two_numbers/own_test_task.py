"""The task: what is learned, measured and printed."""

import pytest
import torch

from leaf_diseases.settings import Settings
from leaf_diseases.task import Criterion, PredictionOptions, Task, derive, parse_label


def test_r2_is_one_for_the_targets_and_zero_for_their_mean() -> None:
    targets = torch.tensor([[0.0, 4.0], [1.0, 2.0]])
    for outputs, r2 in ((targets, 1), (targets.mean(dim=0).expand(2, 2), 0)):
        loss, sums = Criterion()(outputs, targets)
        assert derive({"loss": loss, **sums}, 2)["r2"] == pytest.approx(r2)


def test_two_numbers_are_read_and_named() -> None:
    assert parse_label(["0.5 -1"], Settings()) == (0.5, -1)
    with pytest.raises(ValueError, match="3 numbers"):
        parse_label(["1 2 3"], Settings())
    task, options = Task(["red", "green"]), PredictionOptions()
    named = task.interpret(torch.tensor([0.5, -1]), options)
    assert named == [("red", 0.5), ("green", -1)]
