"""Checkpoints, runs that go on from them, and runs that are told to stop."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import torch
import train
from conftest import stop_after
from leaf_diseases.checkpoint import (
    compare_settings,
    exit_if_requested,
    random_state,
    read_checkpoint,
    restore,
    restore_random_state,
    save_checkpoint,
)
from leaf_diseases.data import loaders
from leaf_diseases.errors import UserError
from leaf_diseases.processes.signals import AT_ONCE, STOPPING
from leaf_diseases.run import Run
from leaf_diseases.settings import Settings, replace
from test_checkpoint import (
    Killed,
    assert_equal_runs,
    before_call,
    checkpoints,
    command_line,
    die,
    draw,
    goes_on_as_unbroken,
    results,
    stopped,
)
from torch.utils.data._utils import signal_handling


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(settings, epochs=4, checkpoint_every=2, log_every=3)


@pytest.mark.usefixtures("linear_model")
def test_run_killed_before_its_evaluation_can_get_longer(
    settings: Settings, tmp_path: Path
) -> None:
    settings = replace(settings, max_steps=2)
    with before_call("evaluate_and_save", 1, die), pytest.raises(Killed):
        train.main(settings)
    train.main(replace(settings, resume="auto"))
    train.main(replace(settings, resume="auto", max_steps=5))
    torch.manual_seed(0)
    unbroken = replace(settings, run_dir=tmp_path / "unbroken")
    train.main(unbroken)
    train.main(replace(unbroken, resume="auto", max_steps=5))
    assert_equal_runs(tmp_path / "run", tmp_path / "unbroken")


@pytest.mark.usefixtures("linear_model")
def test_readings_beyond_the_checkpoint_come_again(
    settings: Settings, stopped: Settings, tmp_path: Path
) -> None:
    log = tmp_path / "run/steps.jsonl"
    [line] = log.read_text(encoding="utf-8").splitlines()
    beyond = line.replace('"step": 3', '"step": 4')
    lost = b"\0\xff" * 10  # What a power cut can leave of a line.
    rest = f"{line[:20]}\n{line}"  # What a kill can, one after the other.
    log.write_bytes(f"{line}\n{beyond}\n".encode() + lost + f"\n{rest}".encode())
    newest = str(checkpoints(stopped)[-1])
    train.main(replace(stopped, resume=newest, run_dir=tmp_path / "branch"))
    goes_on_as_unbroken(settings, tmp_path)
    assert_equal_runs(tmp_path / "branch", tmp_path / "unbroken")


@pytest.mark.usefixtures("linear_model")
@pytest.mark.parametrize("place", ["saved", "checkpoints"])
def test_a_copied_checkpoint_names_no_run(
    stopped: Settings, tmp_path: Path, place: str
) -> None:
    """Directories above it belong to somebody else."""
    copy = tmp_path / "home" / place / "best"
    copy.parent.mkdir(parents=True)
    checkpoints(stopped)[0].rename(copy)
    (tmp_path / "home/metrics.jsonl").write_text("{}", encoding="utf-8")
    copied = replace(stopped, resume=str(copy), max_steps=4)
    for directory, refusal in (
        (None, r"best is not in RUN_DIR.*--run-dir$"),
        (tmp_path / "home", "holds a run: pass another --run-dir"),
        (tmp_path / "run", "holds a run: pass another --run-dir"),
    ):
        with pytest.raises(UserError, match=refusal):
            train.main(replace(copied, run_dir=directory))
    train.main(replace(copied, run_dir=tmp_path / "branch"))
    assert results(tmp_path / "branch")[1][-1]["step"] == 4


def test_run_without_a_checkpoint_begins_with_the_usual_settings(
    run: Run, command_line: Callable[..., Settings]
) -> None:
    parsed = command_line("--resume", "auto", "--run-dir", run.directory)
    assert parsed == Settings(resume="auto", run_dir=run.directory)


@pytest.mark.usefixtures("linear_model")
def test_settings_that_a_checkpoint_lacks_had_their_defaults(
    stopped: Settings,
) -> None:
    run = train.make_run(stopped)
    checkpoint = read_checkpoint(checkpoints(stopped)[-1])
    del checkpoint.state["settings"]["batch_size"]
    with pytest.raises(UserError, match="of a run with batch_size 128, not 4: keep"):
        compare_settings(checkpoint, run.settings)


@pytest.mark.usefixtures("linear_model")
@pytest.mark.parametrize(
    ("stopped_after", "flags"),
    [(10, {"epochs": 9}), (7, {"epochs": 3}), (3, {"lr": 6e-4})],
)
def test_rates_are_those_of_an_unbroken_run_with_other_flags(
    settings: Settings, tmp_path: Path, stopped_after: int, flags: dict[str, Any]
) -> None:
    stop_after(settings, stopped_after)
    settings = replace(settings, **flags)
    train.main(replace(settings, resume="auto"))
    train.main(replace(settings, run_dir=tmp_path / "unbroken"))
    lines, unbroken = (results(tmp_path / name)[1] for name in ("run", "unbroken"))
    rates = [line["learning_rates"] for line in lines if line["step"] > stopped_after]
    assert len(lines) == settings.epochs
    assert rates == [line["learning_rates"] for line in unbroken[-len(rates) :]]


@pytest.mark.usefixtures("linear_model")
def test_longer_run_keeps_the_rates_that_were_used(
    settings: Settings, tmp_path: Path
) -> None:
    train.main(replace(settings, epochs=2))
    before = results(tmp_path / "run")[1]
    for epochs in (4, 6):
        train.main(replace(settings, epochs=epochs, resume="auto"))
        lines = results(tmp_path / "run")[1]
        rates = [line["learning_rates"] for line in lines[: len(before)]]
        assert rates == [line["learning_rates"] for line in before]
        before = lines


def test_run_that_has_diverged_goes_on_as_its_message_says(
    settings: Settings, stopped: Settings
) -> None:
    with pytest.raises(UserError, match="no longer finite") as ended:
        train.main(replace(stopped, lr=1e30, checkpoint_every=99))
    named = str(ended.value).rpartition(" --resume ")[2]
    assert named == str(checkpoints(stopped)[-1])
    train.main(replace(settings, resume=named, lr=5e-5))
    assert settings.run_dir is not None
    lines = results(settings.run_dir)[1]
    assert len(lines) == settings.epochs
    assert max(line["learning_rates"][0] for line in lines[1:]) <= 5e-5


@pytest.mark.usefixtures("linear_model")
def test_finished_run_is_left_as_it_is(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def contents() -> dict[Path, tuple[int, bytes]]:
        files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
        return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}

    for max_steps in (1, None, 99):
        resumed = replace(settings, resume="auto", epochs=1, max_steps=max_steps)
        train.main(resumed)
        before = contents()
        # Nor are its data read, which may take minutes.
        with mock.patch.object(train, "load_data", side_effect=AssertionError):
            train.main(resumed)
        assert "holds a finished run" in capsys.readouterr().out.splitlines()[-1]
        assert contents() == before
    assert results(tmp_path / "run")[1][-1]["step"] > 1


@pytest.mark.usefixtures("linear_model")
def test_epoch_without_evaluation_is_not_the_end_of_a_run(
    settings: Settings, tmp_path: Path
) -> None:
    settings = replace(settings, eval_every=3)
    with before_call("train_epoch", 2, die), pytest.raises(Killed):
        train.main(settings)
    assert "val_loss" not in results(tmp_path / "run")[1][-1]
    train.main(replace(settings, epochs=1, resume="auto"))
    assert "val_loss" in results(tmp_path / "run")[1][-1]


def test_speed_of_an_epoch_is_that_of_all_its_parts(stopped: Settings) -> None:
    run = train.make_run(stopped)
    run.progress.began -= 1e6  # Seconds, beside which those of the test are nothing.
    save_checkpoint(run)
    run = train.make_run(stopped)
    line = train.train_epoch(run)
    samples = min(22, 4 * len(run.train_loader))
    assert line["samples_per_second"] == pytest.approx(samples / 1e6, rel=1e-3)


def test_options_of_the_optimizer_are_those_of_this_run(run: Run) -> None:
    """Else those of another project would go on here, without a word."""
    train.train_epoch(run)
    checkpoint = read_checkpoint(checkpoints(run.settings)[-1])
    for group in checkpoint.state["optimizer"]["param_groups"]:
        group |= {"lr": 99.0, "initial_lr": 99.0, "weight_decay": 99.0, "maximize": 1}
    restore(run, checkpoint)
    for group in run.optimizer.param_groups:
        assert not group["maximize"]
        assert max(group["weight_decay"], group["initial_lr"]) < 99
        assert group["lr"] == 99  # Of the last step: the next one sets its own.


@pytest.fixture
def heard() -> Iterator[None]:
    """Ignores no signal, as nohup makes all that it starts do."""
    warnings = STOPPING[len(AT_ONCE) :]
    handlers = {each: signal.signal(each, signal.SIG_DFL) for each in warnings}
    yield
    for each, handler in handlers.items():
        signal.signal(each, handler)


@pytest.mark.parametrize("first", STOPPING)
@pytest.mark.usefixtures("heard")
def test_second_signal_stops_at_once(run: Run, first: signal.Signals) -> None:
    """Unless it is the same warning again."""
    with run.stop:
        os.kill(os.getpid(), first)
        assert run.stop.received == first
        handlers = {each: signal.getsignal(each) for each in STOPPING}
        assert {handlers.pop(each) for each in AT_ONCE} == {signal.SIG_DFL}
        assert set(handlers.values()) == {signal.SIG_IGN}


@pytest.mark.skipif(len(STOPPING) == len(AT_ONCE), reason="there is no SIGHUP")
def test_a_terminal_that_closes_is_ignored_under_nohup(run: Run) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with run.stop:
        os.kill(os.getpid(), signal.SIGHUP)
        assert run.stop.received is None
    assert signal.signal(signal.SIGHUP, before) == signal.SIG_IGN


@pytest.mark.usefixtures("linear_model")
def test_run_in_a_thread_notes_no_signals(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    thread = Thread(target=train.main, args=[replace(settings, max_steps=1)])
    thread.start()
    thread.join()
    assert "signals cannot be handled in a thread" in capsys.readouterr().out
    assert (tmp_path / "run/model.pt").exists()


@pytest.mark.skipif(os.name != "posix", reason="processes get no signals")
def test_signals_do_not_end_data_loading_processes(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither while they start, nor between two epochs."""
    set_handlers = signal_handling._set_worker_signal_handlers

    def signal_each(processes: list[Any]) -> None:
        for process in processes:
            for number in STOPPING:
                os.kill(process, number)

    def started() -> None:
        set_handlers()
        signal_each([os.getpid()])

    def signal_both() -> None:
        processes = [each.pid for each in multiprocessing.active_children()]
        assert len(processes) == 2
        signal_each(processes)

    monkeypatch.setattr(signal_handling, "_set_worker_signal_handlers", started)
    with before_call("train_epoch", 2, signal_both):
        train.main(replace(settings, num_workers=1, epochs=2))
    assert len(results(tmp_path / "run")[1]) == 2


def test_data_loading_processes_ignore_signals(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    # This process has no parent that it would end with.
    monkeypatch.setattr(loaders, "end_with_parent", lambda: None)
    for loader in (run.train_loader, run.val_loader):
        assert loader.worker_init_fn is not None
        with run.stop:  # It puts the handlers back.
            loader.worker_init_fn(0)
            assert {*map(signal.getsignal, STOPPING)} == {signal.SIG_IGN}


def test_a_run_that_cannot_go_on_says_that_it_begins(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    train.main(replace(settings, resume="auto", max_steps=1))
    first = f"no checkpoint in {settings.run_dir}: beginning at step 0"
    assert capsys.readouterr().out.splitlines()[0] == first


def test_run_goes_on_if_a_checkpoint_cannot_be_saved(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    (run.directory / "checkpoints").write_text("in the way")
    train.train_epoch(run)
    assert run.progress.step > 0
    assert "continues without a checkpoint" in capsys.readouterr().err
    run.stop.received = signal.SIGTERM
    with pytest.raises(SystemExit):
        for _ in range(2):  # Several processes agree one call late.
            exit_if_requested(run)
    stopped = f"stopped by SIGTERM after step {run.progress.step}\n"
    assert capsys.readouterr().err == stopped


def test_random_numbers_go_on_from_their_saved_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two generators stand in for those of two accelerators of any kind."""
    generators = [torch.Generator(), torch.Generator()]
    module = SimpleNamespace(
        get_rng_state=lambda number: generators[number].get_state(),
        set_rng_state=lambda state, number: generators[number].set_state(state),
    )
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    monkeypatch.setattr(torch, "get_device_module", lambda: module)
    draws = []
    torch.save(random_state(), tmp_path / "state.pt")
    for _ in range(2):
        restore_random_state(torch.load(tmp_path / "state.pt", weights_only=True))
        drawn = [torch.rand(1, generator=each).item() for each in generators]
        draws.append(draw() + drawn)
    assert draws[0] == draws[1]
