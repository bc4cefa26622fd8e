"""Stochastic weight averaging."""

import pytest
import torch
import train
from leaf_diseases.optim.optimizer import set_rates
from leaf_diseases.optim.swa import WeightAverage, anneal
from leaf_diseases.processes import parallel
from leaf_diseases.settings import Settings, replace
from test_swa import settings
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm
from torch.optim.swa_utils import SWALR, AveragedModel


def test_rate_anneals_as_with_swalr() -> None:
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.5)
    expected = []
    swalr = SWALR(optimizer, swa_lr=0.1, anneal_epochs=3)
    for _ in range(5):
        optimizer.step()
        expected.append(swalr.get_last_lr()[0])
        swalr.step()
    found = [0.5 * anneal(1.0, 0.2, step / 3) for step in range(5)]
    assert found == pytest.approx(expected)


def test_rate_anneals_for_a_twentieth_of_the_steps(settings: Settings) -> None:
    run = train.make_run(replace(settings, epochs=20))
    steps, start = len(run.train_loader), run.swa.start
    rates = []
    for step in range(steps + 3):
        set_rates(run.optimizer, run.settings, start + step, run.total_steps, 1.0)
        rates.append(max(run.rates))
    assert len(set(rates)) == steps + 1
    assert rates[steps:] == pytest.approx(3 * [1e-4])


def test_average_has_the_newest_vectors_of_spectral_norm() -> None:
    """By older vectors the norm of the averaged weights would be taken too small."""
    model = nn.Sequential(spectral_norm(nn.Linear(8, 8)))
    swa = WeightAverage(model, start=0, device=torch.device("cpu"))
    expected = AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(1, 30):
        model(torch.randn(4, 8)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        swa.update(step)
        expected.update_parameters(model)
    averaged = swa.averaged_model([], torch.device("cpu")).state_dict()
    # With fsdp a rank has parts of the tensors.
    whole = getattr(parallel, "full_state_dict", dict)(averaged)
    torch.testing.assert_close(whole, dict(expected.module.state_dict()))


def test_average_is_dropped_if_it_is_to_begin_later() -> None:
    swa = WeightAverage(nn.Linear(2, 2), start=3, device=torch.device("cpu"))
    for step in range(1, 6):
        swa.update(step)
    for start, count in ((4, 2), (5, 0)):
        resumed = WeightAverage(nn.Linear(2, 2), start, torch.device("cpu"))
        resumed.load_state_dict(swa.state_dict())
        assert resumed.count == count
        # Else a checkpoint that is saved at once would drop it.
        assert resumed.step == (5 if count else 0)
