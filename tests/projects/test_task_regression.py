"""Regression on image files of one's own: metrics, scripts, and changes of owners."""

import csv
import json
from functools import partial

import numpy as np
import pytest
from inspection import PACKAGE
from PIL import Image
from rendering import render, render_subset
from subsets import Subset
from test_owners import Edit, check_changes

pytestmark = pytest.mark.proof

TASK = "regression"
NAMES = ("age", "price")
COUNT, SIZE = 60, 16
TRICKS = ("csv", "evaluate", "predict", "seeding", "metrics")
FLAGS = (
    *("--data", "csv", "--label-columns", *NAMES, "--image-size", SIZE),
    *("--epochs", 2, "--batch-size", 8, "--num-workers", 0, "--device", "cpu"),
)


def write_photos(directory):
    """Writes images whose red says their age, and their green their price.

    Returns these numbers by the names of the files.
    """
    directory.mkdir()
    rng, numbers = np.random.default_rng(0), {}
    for number in range(COUNT):
        age, price = rng.uniform(0, 90), rng.normal(5e5, 1e5)
        pixels = rng.normal(0, 20, (SIZE, SIZE, 3))
        pixels += [age / 90 * 255, (price - 2e5) / 6e5 * 255, 128]
        image = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
        image.save(directory / f"{number:02}.png")
        numbers[f"{number:02}.png"] = round(age, 2), round(price)
    with (directory / "labels.csv").open("w", newline="", encoding="utf-8") as file:
        rows = ([name, *values] for name, values in numbers.items())
        csv.writer(file).writerows([["path", *NAMES], *rows])
    return numbers


def test_metrics_are_those_of_scikit_learn_on_what_is_predicted(zygote, tmp_path):
    from sklearn import metrics  # It takes a second, which not every worker needs.

    project = render_subset(tmp_path / "project", Subset.of(*TRICKS, task=TASK))
    photos, run = tmp_path / "photos", partial(zygote.output, project)
    truth = write_photos(photos)
    run("train.py", *FLAGS, "--data-dir", photos, "--run-dir", "run")
    options = ("--split", "all", "--json", "--device", "cpu")
    found = json.loads(run("evaluate.py", "run/model.pt", *options))
    options = ("--weights", "run/model.pt", "--format", "csv", "--device", "cpu")
    header, *rows = csv.reader(run("predict.py", photos, *options).splitlines())
    assert header == ["path", *NAMES]
    predicted = {path.rpartition("/")[2]: [*map(float, row)] for path, *row in rows}
    assert found["images"] == len(predicted) == COUNT
    outputs = np.array([predicted[name] for name in truth])
    targets = np.array([*truth.values()])
    kept = {"multioutput": "raw_values"}
    expected = {
        "error": metrics.mean_absolute_error(targets, outputs, **kept),
        "rmse": metrics.root_mean_squared_error(targets, outputs, **kept),
        "r2": metrics.r2_score(targets, outputs, **kept),
    }
    for name, values in expected.items():
        assert found[name] == pytest.approx(values.mean(), rel=1e-5, abs=1e-5)
        each = [number[name] for number in found["numbers"].values()]
        assert each == pytest.approx(values, rel=1e-5, abs=1e-5)
    errors = np.abs(outputs - targets)
    for place, number in enumerate(found["numbers"].values()):
        for part in number["ranges"]:
            low, high = part["from"] or -np.inf, part["to"] or np.inf
            inside = (targets[:, place] >= low) & (targets[:, place] < high)
            assert part["images"] == inside.sum()
            if part["images"]:
                mean = errors[inside, place].mean()
                assert part["error"] == pytest.approx(mean, rel=1e-5)


def another_loss() -> Edit:
    """The logarithm of the hyperbolic cosine, as the default."""
    function = """def log_cosh(outputs: Tensor, targets: Tensor, reduction: str) -> Tensor:
    # Without the cosh of large errors, which float32 does not hold.
    errors = outputs - targets
    return (errors + F.softplus(-2 * errors) - math.log(2)).sum()


LOSSES: dict["""
    return {
        f"{PACKAGE}/task.py": [
            ("LOSSES: dict[", function),
            ('    "huber": F.huber_loss,\n', '    "log_cosh": log_cosh,\n'),
        ],
        f"{PACKAGE}/settings.py": [
            ('"l1", "huber"] = "mse"', '"l1", "log_cosh"] = "log_cosh"')
        ],
    }


def another_metric() -> Edit:
    """The share of the predictions with an error below 0.5, which decides."""
    derived = '        "near": sums["near"].double().mean().item() / samples,\n'
    summed = '            "near": (errors.abs() < 0.5).sum(dim=0),\n'
    return {
        f"{PACKAGE}/task.py": [
            ('"r2": ".4f"}', '"r2": ".4f", "near": ".2%"}'),
            ('RESULT = "error"', 'RESULT = "near"'),
            ("BEST = min\n", "BEST = max\n"),
            ('        "r2": r2_of(', f'{derived}        "r2": r2_of('),
            ('            "targets": ', f'{summed}            "targets": '),
        ]
    }


HUBER = "tests/test_task.py::test_losses_are_of_standardized_numbers[huber-0.125]"


@pytest.mark.share
def test_changes_break_only_the_test_of_what_was_changed(tmp_path, zygote):
    project = render(tmp_path / "project", {"preset": "everything", "task": TASK})
    check_changes([another_loss(), another_metric()], project, zygote, {HUBER})
