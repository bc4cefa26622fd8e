"""Event files, read as TensorBoard reads them."""

from pathlib import Path
from unittest import mock

import pytest
import train
from leaf_diseases.errors import UserError
from leaf_diseases.settings import Settings, replace
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from test_event_files import read


def test_hyperparameters_are_those_of_the_run_itself(
    tiny: Settings, tmp_path: Path
) -> None:
    train.main(replace(tiny, optimizer="sgd", max_steps=1))
    [content] = read(tmp_path / "run").PluginTagToContent("hparams").values()
    values = HParamsPluginData.FromString(content).session_start_info.hparams
    config = train.make_run(replace(tiny, run_dir=None)).settings
    assert {*values} == {*config.model_dump()} - {"run_dir"}
    assert values["optimizer"].string_value == "sgd"
    assert values["lr"].number_value > 0  # And not None, which is what was passed.
    assert not [path for path in (tmp_path / "run").glob("*/events*")]


def test_a_run_that_fails_at_once_leaves_no_event_file(
    tiny: Settings, tmp_path: Path
) -> None:
    failing = mock.patch.object(train, "train_step", side_effect=UserError("no"))
    with failing, pytest.raises(UserError):
        train.main(tiny)
    assert not list((tmp_path / "run").glob("events.*"))
