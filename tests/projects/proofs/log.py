"""The log: readings on the screen and in steps.jsonl, and epochs without evaluation."""

import io
import re
import sys

import pytest
import train
from leaf_diseases.command_line import as_command
from leaf_diseases.errors import UserError
from leaf_diseases.run import Run
from leaf_diseases.settings import Settings, replace


class Screen(io.StringIO):
    """Stands for a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [(UserError("no\nway"), 1, "error: no way"), (KeyboardInterrupt(), 130, "stopped")],
)
def test_errors_are_a_line_in_the_place_of_the_bar(
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    status: int,
    line: str,
) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    with pytest.raises(SystemExit) as stopped, as_command():
        bar = train.progress_bar(run)
        bar.set_postfix(loss=1)
        raise error
    bar.close()
    assert stopped.value.code == status
    assert re.search(rf"loss=1\]\r +\r{line}\n", screen.getvalue())


@pytest.mark.parametrize("out_is_screen", [False, True])
@pytest.mark.parametrize("err_is_screen", [False, True])
def test_a_terminal_has_a_bar_and_everything_else_gets_lines(
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    out_is_screen: bool,
    err_is_screen: bool,
) -> None:
    stdout = Screen() if out_is_screen else io.StringIO()
    stderr = Screen() if err_is_screen else io.StringIO()
    monkeypatch.setattr(sys, "stdout", stdout)
    monkeypatch.setattr(sys, "stderr", stderr)
    train.main(replace(settings, max_steps=2, log_every=2))
    lines = stdout.getvalue().count("\nepoch 1/2  step 2  loss ")
    assert lines == (0 if out_is_screen and err_is_screen else 1)
    assert ("epoch 1/2" in stderr.getvalue()) == err_is_screen
    assert ("loss=" in stderr.getvalue()) == err_is_screen


def test_speed_is_that_of_one_epoch(run: Run) -> None:
    for _ in range(2):
        run.progress.began -= 1e6  # The epoch begins anew.
        line = train.train_epoch(run)
        assert line["seconds"] < 1e3
        images = min(22, 4 * len(run.train_loader))
        speed = images / line["seconds"]
        assert line["samples_per_second"] == pytest.approx(speed)
        train.evaluate_and_save(run, line)
