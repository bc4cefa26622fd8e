"""Calibration: evaluate.py and calibrate.py have the same loss, unless an owner changes it."""

import json
from pathlib import Path
from typing import Any

import evaluate
import pytest
from test_calibrate import report, weights


def test_the_loss_is_that_of_calibrated_logits(
    report: dict[str, Any], weights: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluate.main(evaluate.Arguments(weights=weights, device="cpu", as_json=True))
    found = json.loads(capsys.readouterr().out)
    # calibrate.py reads a sample of the pixels of masks.
    close = 0.05 if "mean_iou" in found else 1e-4
    assert found["loss"] == pytest.approx(report["loss"][1], rel=close)
