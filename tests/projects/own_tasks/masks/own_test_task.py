"""The task: what is learned, measured and printed."""

import pytest
import torch

from leaf_diseases.task import Criterion, PredictionOptions, Task, derive


def test_iou_is_the_mean_over_the_classes() -> None:
    targets = torch.tensor([[[0, 0], [1, 1]]])
    logits = torch.tensor([[[[1.0, 1.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]]])
    loss, sums = Criterion()(logits, targets)
    metrics = derive({"loss": loss, **sums}, 1)
    assert metrics["accuracy"] == 0.75
    assert metrics["iou"] == pytest.approx((2 / 3 + 1 / 2) / 2)
    task, options = Task(["background", "square"]), PredictionOptions()
    areas = [("background", 0.75), ("square", 0.25)]
    assert task.interpret(logits[0], options) == areas
