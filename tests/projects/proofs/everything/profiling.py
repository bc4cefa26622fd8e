"""The trace of training steps, and its table."""

import subprocess
import sys
from pathlib import Path

import pytest
import train
from leaf_diseases.settings import Settings, replace
from test_profiling import FIRST, steps_of, traced


def test_short_epochs_warm_up_together(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first epoch has too few steps, and says so."""
    settings = replace(settings, profile_steps=1, max_steps=FIRST + 1)
    train.main(settings)
    said = capsys.readouterr().out
    assert said.count("nothing is profiled yet") == 1
    assert steps_of(traced(tmp_path / "run")) == [FIRST]


ENDS_WHILE_IT_TRACES = f"""
import sys, torch
from leaf_diseases.profiling import start_profile
from leaf_diseases.settings import Settings

profile = start_profile(Settings(profile_steps=9), torch.device("cpu"))
for _ in range({FIRST + 1}):
    torch.ones(3).add(1)
    profile.step()
sys.exit(3)
"""


def test_process_can_end_while_it_traces() -> None:
    command = [sys.executable, "-c", ENDS_WHILE_IT_TRACES]
    root = Path(__file__).parents[1]
    assert subprocess.run(command, check=False, cwd=root).returncode == 3
