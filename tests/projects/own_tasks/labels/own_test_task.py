"""The task: what is learned, measured and printed."""

import pytest
import torch

from leaf_diseases.settings import Settings
from leaf_diseases.task import Criterion, PredictionOptions, Task, derive, parse_label


def test_f1_is_the_mean_over_the_labels() -> None:
    logits = torch.tensor([[1.0, 1.0, -1.0], [1.0, -1.0, -1.0]])
    targets = torch.tensor([[1.0, 1.0, 0.0], [0.0, 1.0, 0.0]])
    loss, sums = Criterion()(logits, targets)
    f1 = derive({"loss": loss, **sums}, 2)["f1"]
    assert f1 == pytest.approx((2 / 3 + 2 / 3 + 0) / 3)


def test_labels_are_read_and_named() -> None:
    assert parse_label(["blue;red"], Settings()) == (1, 0, 1)
    with pytest.raises(ValueError, match="unknown labels: pink"):
        parse_label(["red;pink"], Settings())
    task, options = Task(["red", "green", "blue"]), PredictionOptions()
    assert task.interpret(torch.zeros(3), options)[2] == ("blue", 0.5)
