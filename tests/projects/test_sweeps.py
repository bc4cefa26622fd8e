"""Sweeps as their users run them: processes that share one, and one that is stopped."""

import shutil
import signal
import subprocess
import sys
import time
import tomllib

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState
from rendering import render

pytestmark = pytest.mark.proof

RUNNING = TrialState.RUNNING


@pytest.fixture
def sweep(folder, tmp_path):
    """Starts the sweep of six trials, on 22 images, with more flags."""
    answers = {"preset": "custom", "tricks": ["folders", "resume", "seeding", "sweep"]}
    project = render(tmp_path / "project", answers)
    shutil.copytree(folder / "train", tmp_path / "bäume")
    command = [
        # A trial lasts long enough to be met by a signal, on a loaded machine too.
        *(sys.executable, "sweep.py", "--trials", "6", "--epochs", "30"),
        *("--data", "folder", "--data-dir", str(tmp_path / "bäume")),
        *("--run-dir", str(tmp_path / "sweep")),
        *("--image-size", "8", "--batch-size", "4", "--num-workers", "0"),
    ]
    outputs = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return lambda *more: subprocess.Popen([*command, *more], cwd=project, **outputs)


def finish(*processes):
    """Returns what processes print until they have ended."""
    texts = [process.communicate(timeout=300)[0] for process in processes]
    assert {process.returncode for process in processes} == {0}, texts
    return texts


def trials(tmp_path):
    storage = JournalStorage(JournalFileBackend(str(tmp_path / "sweep/sweep.journal")))
    return optuna.load_study(study_name="sweep", storage=storage).trials


def wait_for_trial(process, tmp_path, number):
    """Waits until a trial has ended its first epoch."""
    while not (tmp_path / f"sweep/trial-{number:04d}/metrics.jsonl").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def test_processes_share_one(sweep, tmp_path):
    """Some may begin a trial while others end the last ones that were asked for."""
    # Each must begin before the others have ended all trials.
    texts = finish(*(sweep("--epochs", "60") for _ in range(3)))
    assert 6 <= len(trials(tmp_path)) <= 8
    assert RUNNING not in {trial.state for trial in trials(tmp_path)}
    for text in texts:
        assert "\ntrial " in text
        assert text.count("epoch 2/") < 6
    best = tomllib.loads((tmp_path / "sweep/best.toml").read_text(encoding="utf-8"))
    assert best["data_dir"] == str(tmp_path / "bäume")


@pytest.mark.share
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_one_goes_on(sweep, tmp_path, number):
    process = sweep()
    wait_for_trial(process, tmp_path, 2)
    process.send_signal(number)
    process.communicate()
    before = trials(tmp_path)
    states = [trial.state for trial in before]
    stopped = TrialState.FAIL if number == signal.SIGINT else RUNNING
    assert RUNNING not in states[:2] and states[2:] == [stopped]
    finish(sweep("--log-every", "7", "--keep-checkpoints", "1", "--device", "cpu"))
    after = trials(tmp_path)
    assert after[:2] == before[:2] and after[2].state is TrialState.FAIL
    assert RUNNING not in {trial.state for trial in after[3:]}
    assert len(after) == 7
    kept = {path.parent.name for path in tmp_path.glob("sweep/*/checkpoints")}
    assert kept == {"trial-0002"}


def test_a_database_that_goes_away_ends_one(sweep, tmp_path):
    process = sweep("--storage", f"sqlite:///{tmp_path}/sweep.db")
    wait_for_trial(process, tmp_path, 0)
    (tmp_path / "sweep.db").unlink()
    last = process.communicate()[0].splitlines()[-1]
    assert last.startswith("error: the database of --storage failed (")
    assert process.returncode == 1


def test_a_lock_of_a_killed_process_is_removed(sweep, tmp_path):
    """Where --run-dir is relative, too."""
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep/sweep.journal.lock").touch()
    finish(sweep("--run-dir", "../sweep"))
