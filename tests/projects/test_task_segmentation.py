"""Segmentation on own files: it learns, and its parts agree."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import training
from PIL import Image
from rendering import PACKAGE, render, render_subset
from subsets import Subset
from test_owners import check_changes

TASK = "segmentation"
CLASSES = ("ground", "leaf", "rust")
COUNT, EPOCHS = 48, 12

FLAGS = (
    *("--image-size", 16, "--batch-size", 8, "--epochs", EPOCHS, "--lr", 0.01),
    *("--num-workers", 0, "--device", "cpu", "--amp-dtype", "none"),
)
FOLDER = ("--data", "folder", "--data-dir", "leaves")
LIST = ("--data", "csv", "--data-dir", "leaves")


@pytest.fixture
def project(tmp_path):
    """A recommended project beside images of leaves with masks, and a list of them."""
    project = tmp_path / "project"
    render(project, {"task": TASK, "preset": "recommended"})
    make_leaves(project / "leaves")
    return project


def make_leaves(directory: Path) -> None:
    """Writes images that are brighter where there is a leaf, and red where there is rust.

    Some are wider than others. A mask has a border that is ignored.
    """
    rows = []
    for kind in ("images", "masks"):
        (directory / kind).mkdir(parents=True)
    for number in range(COUNT):
        rng = np.random.default_rng(number)
        height, width = 16, 16 + 4 * (number % 3)
        mask = np.zeros((height, width), np.uint8)
        top, left = rng.integers(1, 7, size=2)
        mask[top : top + 8, left : left + 8] = 1
        mask[top : top + 4, left : left + 4] = 2
        image = rng.integers(0, 60, (height, width, 3)) + 90 * (mask > 0)[..., None]
        image[..., 0] += 100 * (mask == 2)
        mask[0] = 255
        Image.fromarray(image.astype(np.uint8)).save(directory / f"images/{number}.png")
        Image.fromarray(mask).save(directory / f"masks/{number}.png")
        split = "val" if number % 4 == 0 else "train"
        rows.append([f"images/{number}.png", f"masks/{number}.png", split])
    (directory / "classes.txt").write_text("\n".join(CLASSES))
    with (directory / "labels.csv").open("w") as file:
        csv.writer(file).writerows([["path", "mask", "split"], *rows])


def scores(predicted, masks):
    """Returns scikit-learn's metrics of all pixels that are not ignored."""
    from sklearn import metrics  # It takes a second, which not every worker needs.

    pairs = [(p[m != 255], m[m != 255]) for p, m in zip(predicted, masks, strict=True)]
    predicted, truth = (np.concatenate(part) for part in zip(*pairs, strict=True))
    return {
        "pixel_accuracy": metrics.accuracy_score(truth, predicted),
        "mean_iou": metrics.jaccard_score(truth, predicted, average="macro"),
    }


def read(paths):
    return [np.array(Image.open(path)) for path in paths]


@pytest.mark.proof
def test_it_learns_and_is_measured_and_predicted_alike(project, zygote):
    flags = (*FLAGS, *LIST, "--log-every", 5, "--run-dir", "run")
    said = zygote.output(project, "train.py", *flags)
    assert "3 classes (share of pixels): ground " in said
    last = training.read_metrics(project / "run")[-1]
    assert last["val_mean_iou"] > 0.8
    found = json.loads(zygote.output(project, "evaluate.py", "run/model.pt", "--json"))
    assert (found["split"], found["images"]) == ("val", COUNT // 4)
    leaves = project / "leaves"
    names = [f"{number}.png" for number in range(0, COUNT, 4)]
    images = [leaves / "images" / name for name in names]
    weights = ("--weights", "run/model.pt", "--device", "cpu", "--out", "out")
    lines = zygote.output(project, "predict.py", *images, *weights).splitlines()
    assert len(lines) == len(names)
    predicted = read(project / "out/masks" / name for name in names)
    masks = read(leaves / "masks" / name for name in names)
    for name, value in scores(predicted, masks).items():
        assert found[name] == pytest.approx(value, rel=1e-9)
    # What predict.py writes is what train.py and evaluate.py read.
    shutil.rmtree(project / "out")
    zygote.output(project, "predict.py", leaves / "images", *weights)
    (leaves / "masks").rename(leaves / "drawn")
    (project / "out/masks").rename(leaves / "masks")
    options = (*FOLDER, "--split", "all", "--json")
    found = json.loads(zygote.output(project, "evaluate.py", "run/model.pt", *options))
    assert (found["images"], found["pixel_accuracy"], found["mean_iou"]) == (
        COUNT,
        1,
        1,
    )


@pytest.mark.proof
def test_a_model_of_another_library_is_exported(tmp_path, zygote):
    """export.py holds the files to the model, and the model's masks are in other tests."""
    subset = Subset.of("export", "smp", task=TASK)
    project = render_subset(tmp_path / "project", subset)
    training.make_shapes_few(project)
    flags = ("--model", "smp:FPN:resnet18", "--max-steps", 6, "--run-dir", "run")
    zygote.output(project, "train.py", *FLAGS[:-2], *flags)
    assert "differ by" in zygote.output(project, "export.py", "run/model.pt")


DICE = """    ious = class_ious(confusion)
    return {
        "mean_dice": mean_of_known(2 * ious / (1 + ious), confusion),
"""

METRIC = {
    f"{PACKAGE}/task.py": [
        ('"mean_iou": ".2%"}', '"mean_iou": ".2%", "mean_dice": ".2%"}'),
        ('RESULT = "mean_iou"', 'RESULT = "mean_dice"'),
    ],
    f"{PACKAGE}/pixel_metrics.py": [("    return {\n", DICE)],
}


@pytest.mark.proof
@pytest.mark.share
def test_another_metric_of_an_owner_breaks_no_test(project, zygote):
    check_changes([METRIC], project, zygote, set())
    flags = (*FOLDER, *FLAGS, "--max-steps", 3, "--run-dir", "run")
    zygote.output(project, "train.py", *flags)
    assert "val_mean_dice" in training.read_metrics(project / "run")[-1]
