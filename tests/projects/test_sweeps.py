"""Sweeps as their users run them: processes that share one, and one that is killed."""

import subprocess
import sys
import time

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState
from PIL import Image
from rendering import render

pytestmark = pytest.mark.proof

RUNNING = TrialState.RUNNING


@pytest.fixture
def sweep(tmp_path):
    """Starts the sweep of six trials, on twenty images."""
    answers = {"preset": "custom", "tricks": ["folders", "seeding", "sweep"]}
    project = render(tmp_path / "project", answers)
    for number in range(20):
        place = tmp_path / f"images/{'ab'[number % 2]}/{number}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (200 * (number % 2), number, 0)).save(place)
    command = [
        *(sys.executable, "sweep.py", "--trials", "6", "--epochs", "2"),
        *("--data", "folder", "--data-dir", str(tmp_path / "images")),
        *("--run-dir", str(tmp_path / "sweep"), "--storage", str(tmp_path / "journal")),
        *("--image-size", "8", "--batch-size", "4", "--num-workers", "0"),
    ]
    outputs = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return lambda: subprocess.Popen(command, cwd=project, **outputs)


def finish(*processes):
    """Returns what processes print until they have ended."""
    texts = [process.communicate(timeout=300)[0] for process in processes]
    assert {process.returncode for process in processes} == {0}, texts
    return texts


def trials(tmp_path):
    storage = JournalStorage(JournalFileBackend(str(tmp_path / "journal")))
    return optuna.load_study(study_name="sweep", storage=storage).trials


def test_processes_share_one(sweep, tmp_path):
    """One may begin a trial while the other ends the last one that was asked for."""
    texts = finish(sweep(), sweep())
    assert len(trials(tmp_path)) in (6, 7)
    assert RUNNING not in {trial.state for trial in trials(tmp_path)}
    for text in texts:
        assert "\ntrial " in text
        assert text.count("epoch 2") < 6


def test_a_killed_one_goes_on(sweep, tmp_path):
    process = sweep()
    while not (tmp_path / "sweep/trial-0002/metrics.jsonl").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.kill()
    process.communicate()
    before = trials(tmp_path)
    assert [trial.state is RUNNING for trial in before] == [False, False, True]
    finish(sweep())
    after = trials(tmp_path)
    assert after[:3] == before
    assert RUNNING not in {trial.state for trial in after[3:]}
    assert len(after) == 7
