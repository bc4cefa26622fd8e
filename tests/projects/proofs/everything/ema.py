"""Exponential moving average of the weights."""

import torch
from leaf_diseases.optim.ema import ExponentialMovingAverage
from test_ema import assert_equal, settings
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

CPU = torch.device("cpu")


class Buffers(nn.Module):
    """Has weights and buffers, one of them with infinity for no bound."""

    statistics: Tensor
    bounds: Tensor
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.register_buffer("statistics", torch.zeros(2))
        self.register_buffer("bounds", torch.tensor([-torch.inf, 0.0]))
        self.register_buffer("count", torch.tensor(0))

    def change(self) -> None:
        """Stands for a step of the training."""
        for weight in self.parameters():
            nn.init.normal_(weight)
        self.statistics.normal_()
        self.bounds[1] += 1
        self.count += 1


def test_floating_point_buffers_are_averaged_and_others_copied() -> None:
    model = Buffers()
    # A decay so small that it holds from the second step on.
    ema = ExponentialMovingAverage(model, 0.1, CPU)
    average = get_ema_multi_avg_fn(0.1)
    expected = AveragedModel(model, multi_avg_fn=average, use_buffers=True)
    for _ in range(5):
        model.change()
        ema.update()
        expected.update_parameters(model)
    averaged = ema.averaged_model()
    assert isinstance(averaged, Buffers)
    assert averaged.count == 5
    assert_equal(averaged.bounds, model.bounds)
    assert_equal(averaged.statistics, expected.module.statistics)
