"""Any number of labels for an image: own files, metrics as scikit-learn's, and every script."""

import csv
import io
import json
from functools import partial

import numpy as np
import pytest
import torch
import training
from PIL import Image
from rendering import load_module, render_subset
from subsets import Subset

RECOMMENDED = Subset.of(
    *("csv", "evaluate", "predict", "export", "seeding", "resume", "amp", "metrics"),
    task="multilabel",
)
COLOURS = ("red", "green", "blue")
FLAGS = (
    *("--data", "csv", "--image-size", 16, "--batch-size", 16, "--epochs", 12),
    *("--lr", 0.01, "--num-workers", 0, "--device", "cpu", "--amp-dtype", "none"),
)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return render_subset(tmp_path_factory.mktemp("task") / "project", RECOMMENDED)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Photos with a red, a green and a blue patch, or only some of them, and their list."""
    directory, rng = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    rows = []
    for number in range(160):
        pixels = rng.integers(0, 120, (20, 24, 3), dtype=np.uint8)
        there = rng.uniform(size=3) < 0.5
        for channel in np.flatnonzero(there):
            pixels[6:14, 3 + 6 * channel : 9 + 6 * channel, channel] += 130
        Image.fromarray(pixels).save(directory / f"{number:03}.png")
        names = [name for name, on in zip(COLOURS, there, strict=True) if on]
        split = "val" if number % 4 == 0 else "train"
        rows.append([f"{number:03}.png", ";".join(names), split, *map(int, there)])
    with (directory / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["path", "label", "split", *COLOURS], *rows])
    return directory


@pytest.mark.proof
def test_own_photos_are_learned_and_every_script_agrees(
    project, photos, zygote, tmp_path
):
    from sklearn import metrics

    run = partial(zygote.output, project)
    flags = (*FLAGS, "--data-dir", photos, "--run-dir", tmp_path / "run")
    said = run("train.py", *flags)
    assert said.startswith("3 labels: blue ")
    last = training.read_metrics(tmp_path / "run")[-1]
    assert last["val_map"] > 0.9
    weights = tmp_path / "run/model.pt"
    measured = json.loads(run("evaluate.py", weights, "--json"))
    columns = ("--label-columns", *COLOURS)
    assert json.loads(run("evaluate.py", weights, *columns, "--json")) == measured
    with (photos / "labels.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["split"] == "val"]
    paths = [photos / row["path"] for row in rows]
    every = ("--weights", weights, "--threshold", 0)
    lines = run("predict.py", *paths, *every, "--format", "json").splitlines()
    found = [
        {
            entry["label"]: entry["probability"]
            for entry in json.loads(line)["predictions"]
        }
        for line in lines
    ]
    names = sorted(COLOURS)
    scores = np.array([[each[name] for name in names] for each in found])
    there = np.array(
        [[name in row["label"].split(";") for name in names] for row in rows]
    )
    f1 = metrics.f1_score(there, scores > 0.5, average="macro", zero_division=0)
    assert measured["f1"] == pytest.approx(f1)
    # Its scores are rounded to eight bits.
    precision = metrics.average_precision_score(there, scores)
    assert measured["map"] == pytest.approx(precision, abs=0.01)
    table = run("predict.py", *paths, "--weights", weights, "--format", "csv")
    for row, each in zip(csv.DictReader(io.StringIO(table)), found, strict=True):
        likely = sorted((n for n in names if each[n] >= 0.5), key=lambda n: -each[n])
        assert row["label"] == ";".join(likely)
    assert "probabilities differ by" in run("export.py", weights)


@pytest.mark.parametrize("seed", range(3))
def test_average_precision_is_that_of_scikit_learn(project, seed):
    from sklearn.metrics import average_precision_score

    module = load_module(project, "average_precision")
    generator = torch.Generator().manual_seed(seed)
    there = torch.rand(300, 6, generator=generator) < torch.rand(6, generator=generator)
    logits = torch.randn(300, 6, generator=generator) * 4 + there
    counts = sum(
        module.count_scores(*part)
        for part in zip(logits.split(70), there.split(70), strict=True)
    )
    found = module.average_precisions(counts.double())
    expected = average_precision_score(there, module.bin_of(logits), average=None)
    assert found.tolist() == pytest.approx(expected.tolist(), rel=1e-12)
    exact = average_precision_score(there, logits, average=None)
    assert found.tolist() == pytest.approx(exact.tolist(), abs=0.01)
