"""Regression on image files of one's own: metrics, scripts, and changes of owners."""

import csv
import json

import numpy as np
import pytest
import training
from inspection import PACKAGE
from PIL import Image
from rendering import render, render_subset
from subsets import Subset
from test_owners import Edit, check_changes

pytestmark = pytest.mark.proof

TASK = "regression"
NAMES = ("age", "price")
COUNT, SIZE = 60, 16
TRICKS = ("csv", "evaluate", "predict", "resume", "seeding", "metrics", "export")
FLAGS = (
    *("--data", "csv", "--label-columns", *NAMES, "--image-size", SIZE),
    *("--epochs", 2, "--batch-size", 8, "--num-workers", 0, "--device", "cpu"),
    *("--log-every", 1, "--keep-checkpoints", 99, "--checkpoint-every", 1),
)


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    """Images whose red says their age, and their green their price."""
    directory = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    rows = []
    for number in range(COUNT):
        age, price = rng.uniform(0, 90), rng.normal(5e5, 1e5)
        pixels = rng.normal(0, 20, (SIZE, SIZE, 3))
        pixels += [age / 90 * 255, (price - 2e5) / 6e5 * 255, 128]
        image = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
        image.save(directory / f"{number:02}.png")
        rows.append((f"{number:02}.png", f"{age:.2f}", f"{price:.0f}"))
    write_rows(directory / "labels.csv", rows)
    return directory


def write_rows(path, rows, header=("path", *NAMES)):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


def read_rows(path):
    with path.open(newline="", encoding="utf-8") as file:
        return {
            row["path"]: [float(row[n]) for n in NAMES] for row in csv.DictReader(file)
        }


@pytest.fixture(scope="session")
def project(tmp_path_factory):
    subset = Subset.of(*TRICKS, task=TASK)
    return render_subset(tmp_path_factory.mktemp("regression") / "project", subset)


@pytest.fixture(scope="session")
def run(project, photos, zygote, tmp_path_factory):
    """The directory of a trained run."""
    directory = tmp_path_factory.mktemp("runs") / "run"
    flags = (*FLAGS, "--data-dir", photos, "--run-dir", directory)
    training.train(zygote.run, project, *flags)
    return directory


def predictions_of(zygote, project, photos, weights):
    """What predict.py says of all images, by their names."""
    options = ("--weights", weights, "--format", "csv", "--device", "cpu")
    rows = zygote.output(project, "predict.py", photos, *options).splitlines()
    header, *rows = csv.reader(rows)
    assert header == ["path", *NAMES]
    return {path.rpartition("/")[2]: [*map(float, cells)] for path, *cells in rows}


def test_metrics_are_those_of_scikit_learn_on_what_is_predicted(
    run, project, photos, zygote
):
    from sklearn import metrics  # It takes a second, which not every worker needs.

    options = ("--split", "all", "--json", "--device", "cpu")
    said = zygote.output(project, "evaluate.py", run / "model.pt", *options)
    found = json.loads(said)
    predicted = predictions_of(zygote, project, photos, run / "model.pt")
    truth = read_rows(photos / "labels.csv")
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


def test_exported_files_predict_in_the_units_of_the_targets(
    run, project, photos, zygote, tmp_path
):
    import onnxruntime

    zygote.output(project, "export.py", run / "model.pt", "--output-dir", tmp_path)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    predicted = predictions_of(zygote, project, photos, run / "model.pt")
    files = sorted(predicted)[:5]
    pixels = [np.array(Image.open(photos / f)).transpose(2, 0, 1) for f in files]
    [found] = session.run(["numbers"], {"images": np.stack(pixels)})
    expected = np.array([predicted[name] for name in files])
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    names = session.get_modelmeta().custom_metadata_map["names"]
    assert json.loads(names) == [*NAMES]


def test_the_shapes_are_learned(zygote, tmp_path):
    """With the defaults, in minutes: the mean absolute error is below a pixel of 32."""
    subset = Subset.of("amp", "csv", "resume", "seeding", task=TASK)
    project = render_subset(tmp_path / "project", subset)
    training.train(
        *(lambda *arguments: zygote.run(*arguments, timeout=900), project),
        *("--epochs", 3, "--device", "cpu", "--run-dir", tmp_path / "run"),
    )
    *_, last = training.read_metrics(tmp_path / "run")
    assert last["val_error"] < 1
    assert last["val_r2"] > 0.9


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
