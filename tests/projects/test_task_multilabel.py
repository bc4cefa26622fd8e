"""Any number of labels for an image: own files, metrics as scikit-learn's, and every script."""

import csv
import importlib.util
import io
import json
import re

import numpy as np
import pytest
import torch
import training
from PIL import Image
from rendering import PACKAGE, render_subset
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


def load(project, name):
    path = project / PACKAGE / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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


@pytest.fixture
def run(project, photos, zygote):
    """Runs a script of the project, and returns what it prints."""

    def run(*command):
        result = zygote.run(project, *command)
        assert (result.returncode, result.stderr) == (0, ""), result.stderr
        return result.stdout

    return run


def test_own_photos_are_learned_and_every_script_agrees(project, photos, run, tmp_path):
    from sklearn import metrics

    flags = (*FLAGS, "--data-dir", photos, "--checkpoint-every", 40)
    flags += ("--keep-checkpoints", 99)
    said = run("train.py", *flags, "--run-dir", tmp_path / "run")
    assert said.startswith("3 labels: blue ")
    last = training.read_metrics(tmp_path / "run")[-1]
    assert last["val_map"] > 0.9
    checkpoint = tmp_path / "run/checkpoints/step-00000040.pt"
    run("train.py", *flags, "--run-dir", tmp_path / "on", "--resume", checkpoint)
    training.check_same_run(tmp_path / "run", tmp_path / "on")

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


@pytest.mark.parametrize("seed", range(5))
def test_average_precision_is_that_of_scikit_learn(project, seed):
    from sklearn.metrics import average_precision_score

    module = load(project, "average_precision")
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


@pytest.mark.parametrize(
    ("text", "flags", "message"),
    [
        (
            "path,label,split\n001.png,red,train\n002.png,pink,val\n",
            (),
            r"only in validation: pink\): training needs images with all of them",
        ),
        (
            "path,red,blue\n001.png,1,0\n002.png,0,no\n",
            ("--label-columns", "red", "blue"),
            r"rows that cannot be used \(1\): mend line 3 \('no' is neither 0 nor 1\)",
        ),
        ("path,label\n001.png,red\n./001.png,blue\n", (), "in more than one row"),
        (
            "path,red,split\n001.png,0,train\n002.png,1,val\n",
            ("--label-columns", "red"),
            "no training image has red: add some, or leave the label out",
        ),
        ("path,label\n001.png,\n002.png,\n", (), "no training image has a label"),
    ],
)
def test_wrong_lists_are_refused_in_one_line(
    project, photos, zygote, tmp_path, text, flags, message
):
    (tmp_path / "list.csv").write_text(text)
    flags = (*FLAGS, "--data-dir", photos, "--labels", tmp_path / "list.csv", *flags)
    result = zygote.run(project, "train.py", *flags, "--run-dir", tmp_path / "run")
    assert result.returncode == 1
    [line] = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert re.search(message, line), line
    assert not (tmp_path / "run").exists()


@pytest.mark.proof
@pytest.mark.parametrize("form", ["ddp", "fsdp"])
def test_two_ranks_agree_with_one(form, photos, zygote, tmp_path):
    subset = Subset.of("csv", "evaluate", parallel=form, task="multilabel")
    project = render_subset(tmp_path / "project", subset)
    flags = (*FLAGS[:-2], "--data-dir", photos, "--max-steps", 4, "--run-dir", "run")
    result = training.run_ranks(zygote.run, project, *flags, "--batch-size", 7)
    assert result.returncode == 0, result.stderr
    last = training.read_metrics(project / "run")[-1]
    alone = zygote.run(project, "evaluate.py", "run/model.pt", "--json")
    measured = json.loads(alone.stdout)
    for name in ("loss", "f1", "map"):
        assert measured[name] == pytest.approx(last[f"val_{name}"], rel=1e-5)
