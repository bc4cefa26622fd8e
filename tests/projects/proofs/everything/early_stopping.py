"""Early stopping."""

from pathlib import Path

import pytest
import torch
import train
from conftest import stop_after
from leaf_diseases.optim.early_stopping import EarlyStopping
from leaf_diseases.settings import Settings, replace
from test_checkpoint import assert_equal_runs, results
from test_early_stopping import LOSSES, settings, validation_losses


@pytest.mark.usefixtures("linear_model")
def test_stopped_run_is_finished_until_it_gets_more_patience(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = replace(settings, log_every=4)
    patient = replace(settings, patience=3)
    with validation_losses(*LOSSES):
        train.main(replace(patient, run_dir=tmp_path / "unbroken"))
        torch.manual_seed(0)
        train.main(settings)
        before = results(tmp_path / "run")
        train.main(replace(settings, resume="auto", max_steps=999))
        last = capsys.readouterr().out.splitlines()[-1]
        assert "holds a finished run" in last
        assert "more --patience" in last
        after = results(tmp_path / "run")
        torch.testing.assert_close(after, before, rtol=0, atol=0)
        train.main(replace(patient, resume="auto"))
    assert len(before[1]) == 6
    assert_equal_runs(tmp_path / "run", tmp_path / "unbroken")


@pytest.mark.usefixtures("linear_model")
def test_a_finished_run_knows_whether_averaging_had_begun(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = replace(settings, patience=1, swa_start=1.0)
    with validation_losses(*range(1, 9)):
        train.main(settings)
        train.main(replace(settings, resume="auto"))
    assert "holds a finished run" in capsys.readouterr().out.splitlines()[-1]


def test_run_stopped_within_an_epoch_goes_on_whatever_its_loss(
    settings: Settings, tmp_path: Path
) -> None:
    settings = replace(settings, patience=1)
    with validation_losses(1, 2):
        stop_after(settings, 7)
        train.main(replace(settings, resume="auto"))
    first, second = results(tmp_path / "run")[1]
    assert second["step"] == 2 * first["step"]


def test_no_run_is_finished_by_its_first_mean_or_before(settings: Settings) -> None:
    early_stopping = EarlyStopping(replace(settings, patience=1, swa_start=0.5))
    early_stopping.watch({"val_loss": 1.0}, averaged=False)
    for averaged in (False, True):
        assert not early_stopping.stops_after({"val_loss": 2.0}, averaged)
