"""Settings, what the training loop is made of, and short runs through main."""

import io
import os
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import train
import tyro
from leaf_diseases import metrics
from leaf_diseases.command_line import as_command
from leaf_diseases.data import transforms
from leaf_diseases.metrics import MetricSums
from leaf_diseases.run import Run
from leaf_diseases.run_directory import choose_run_directory
from leaf_diseases.settings import Settings, replace


def beyond_bounds() -> list[tuple[str, Any]]:
    """Returns settings with values that are just beyond their bounds."""
    step = {"exclusiveMinimum": 0, "minimum": -1, "exclusiveMaximum": 0, "maximum": 1}
    return [
        (name, kind[bound] + step[bound])
        for name, schema in Settings.model_json_schema()["properties"].items()
        for kind in schema.get("anyOf", [schema])
        for bound in kind.keys() & step.keys()
    ]


def test_values_beyond_bounds_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    cases = [*beyond_bounds(), ("lr", "inf"), ("lr", "nan")]
    assert {"batch_size", "lr", "momentum"} <= {name for name, _ in cases}
    for name, value in cases:
        with pytest.raises(SystemExit) as stopped:
            tyro.cli(Settings, args=[f"--{name.replace('_', '-')}", str(value)])
        assert stopped.value.code == 2
        assert re.search(rf"\b{name}\b", capsys.readouterr().err)


def test_runs_begun_at_once_have_their_own_directories(settings: Settings) -> None:
    settings = replace(settings, run_dir=None)
    assert len({choose_run_directory(settings) for _ in range(9)}) == 9


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="it is Linux's")
def test_logs_that_cannot_be_written_are_reported_once(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """To /dev/full the kernel writes nothing, as to a full disk."""
    names = ["metrics.jsonl", "steps.jsonl"]
    (tmp_path / "run").mkdir()
    (tmp_path / "run/metrics.jsonl.tmp").symlink_to("/dev/full")
    (tmp_path / "run/steps.jsonl").symlink_to("/dev/full")
    train.main(replace(settings, log_every=2))
    said = sorted(capsys.readouterr().err.splitlines())
    assert len(said) == len(names)
    for line, name in zip(said, names, strict=True):
        assert line.startswith(
            f"training continues without {tmp_path / 'run' / name}: "
        )


def test_lines_reach_a_log_file_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="cp1252"))
    with as_command():
        print("\N{MAPLE LEAF}")
        assert written.getvalue().startswith(b"\\U0001f341")


@pytest.mark.parametrize(
    "target", [(0.5, 1.5), np.ones(3), torch.ones(8, 8)], ids=["two", "array", "mask"]
)
def test_targets_may_have_any_shape(
    run: Run, monkeypatch: pytest.MonkeyPatch, target: Any
) -> None:
    monkeypatch.setattr(transforms, "TARGET_DTYPE", torch.float32)
    image, _ = run.data.train[0]
    samples: list[Any] = [(image, target)] * 3
    found = run.data.train.collate(samples).targets
    expected = torch.as_tensor(target, dtype=torch.float32)
    assert found.dtype == torch.float32
    assert torch.equal(found, torch.stack([expected] * 3))


def test_counts_are_exact_beyond_single_precision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Pixels of a confusion matrix are as many."""
    monkeypatch.setattr(metrics, "derive", lambda sums, samples: sums)
    sums, pixels = MetricSums(), torch.tensor([2**24, 2**24 + 1])
    sums.add(torch.tensor(0.5), {"pixels": pixels}, samples=1)
    found: Any = sums.compute()
    assert found["pixels"].tolist() == pixels.tolist()
