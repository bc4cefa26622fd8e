"""Learning rates that fall when the validation loss stalls."""

from pathlib import Path

import pytest
import train
from conftest import read_lines
from leaf_diseases.optim.optimizer import highest_rate
from leaf_diseases.run_directory import write_config
from leaf_diseases.settings import Settings, replace
from test_plateau import settings, stalling


@pytest.mark.usefixtures("stalling", "linear_model")
def test_other_schedules_do_not_ask_the_loss(settings: Settings) -> None:
    run = train.make_run(replace(settings, schedule="constant", plateau_patience=0))
    write_config(run)
    for _ in range(3):
        train.evaluate_and_save(run, train.train_epoch(run))
    assert run.plateau.factor == 1


@pytest.mark.usefixtures("stalling", "linear_model")
def test_factor_belongs_to_a_new_highest_rate_too(
    settings: Settings, tmp_path: Path
) -> None:
    train.main(replace(settings, max_steps=40))
    settings = replace(settings, lr=6e-4)
    train.main(replace(settings, resume="auto"))
    last = read_lines(tmp_path / "run/metrics.jsonl")[-1]
    assert last["learning_rates"][0] == pytest.approx(highest_rate(settings) / 4)
