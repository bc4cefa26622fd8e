"""Segmentation on own files: it learns, and its parts agree."""

import csv
import json
import shutil
import subprocess
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


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    project = tmp_path_factory.mktemp(TASK) / "project"
    return render(project, {"task": TASK, "preset": "recommended"})


@pytest.fixture
def project(rendered, tmp_path):
    """A recommended project beside images of leaves with masks, and a list of them."""
    project = tmp_path / "project"
    subprocess.run(["cp", "-r", rendered, project], check=True)
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
@pytest.mark.parametrize(("model", "steps"), [("unet", 60), ("smp:FPN:resnet18", 6)])
def test_an_exported_model_predicts_the_same_masks(model, steps, tmp_path, zygote):
    import onnxruntime

    tricks = ("folders", "predict", "export", "evaluate", "smp")
    project = render_subset(tmp_path / "project", Subset.of(*tricks, task=TASK))
    make_leaves(project / "leaves")
    flags = (*FLAGS[:-2], *FOLDER, "--model", model, "--max-steps", steps)
    flags += ("--run-dir", "run")
    zygote.output(project, "train.py", *flags)
    assert "differ by" in zygote.output(project, "export.py", "run/model.pt")
    # Those that are square, which are resized and cropped to themselves.
    names = [f"{number}.png" for number in range(0, COUNT, 3)]
    images = [project / "leaves/images" / name for name in names]
    weights = ("--weights", "run/model.pt", "--device", "cpu", "--out", "out")
    zygote.output(project, "predict.py", *images, *weights)
    session = onnxruntime.InferenceSession(project / "run/model.onnx")
    pixels = np.stack(read(images)).transpose(0, 3, 1, 2)
    [probabilities] = session.run(None, {"images": pixels})
    assert probabilities.shape == (len(names), 3, 16, 16)
    assert probabilities.sum(axis=1) == pytest.approx(1, abs=1e-5)
    predicted = np.stack(read(project / "out/masks" / name for name in names))
    assert (probabilities.argmax(axis=1) == predicted).mean() > 0.9999


TASK_FILE, METRICS_FILE, DATASETS, SETTINGS = (
    f"{PACKAGE}/{name}.py"
    for name in ("task", "pixel_metrics", "data/datasets", "settings")
)

PAIRS = '''def open_pairs(settings: Settings, _size: object) -> tuple[FileImages, FileImages]:
    """Opens images with their masks beside them: leaf.jpg and leaf.png."""
    files = sorted(settings.data_dir.glob("*.jpg"))
    masks = [file.with_suffix(".png") for file in files]
    found, names = open_masks(files, masks, settings.data_dir)
    images = FileImages(files, found, names)
    share, seed = settings.val_share, settings.split_seed
    return split_by_share(images, settings.data_dir, share, seed)


SCALED = '''
IMPORTED = """from .mask_files import open_masks
from .own_images import FileImages, describe_images, split_by_share
"""
ROW = """DATASETS = {
    "pairs": DatasetSpec(open_pairs, 224, crop_and_mirror, SCALED),
"""

DICE = """    ious = class_ious(confusion)
    return {
        "mean_dice": mean_of_known(2 * ious / (1 + ious), confusion),
"""

DATA_SET = {
    DATASETS: [
        ("from .own_images import FileImages, describe_images\n", IMPORTED),
        ("SCALED = ", PAIRS),
        ("DATASETS = {\n", ROW),
    ],
    SETTINGS: [('default="shapes"', 'default="pairs"')],
}
METRIC = {
    TASK_FILE: [
        ('"mean_iou": ".2%"}', '"mean_iou": ".2%", "mean_dice": ".2%"}'),
        ('RESULT = "mean_iou"', 'RESULT = "mean_dice"'),
    ],
    METRICS_FILE: [("    return {\n", DICE)],
}


@pytest.mark.proof
@pytest.mark.share
def test_changes_of_an_owner_break_no_test(project, zygote):
    check_changes([DATA_SET, METRIC], project, zygote, set())
    pairs = project / "pairs"
    pairs.mkdir()
    shutil.copy(project / "leaves/classes.txt", pairs)
    for path in (project / "leaves/images").iterdir():
        Image.open(path).save(pairs / f"{path.stem}.jpg")
        shutil.copy(project / "leaves/masks" / path.name, pairs)
    flags = ("--image-size", 16, "--data-dir", "pairs", *FLAGS[-4:])
    flags += ("--max-steps", 3, "--run-dir", "run")
    output = zygote.output(project, "train.py", *flags)
    assert "val_mean_dice" in training.read_metrics(project / "run")[-1]
    assert "3 classes (share of pixels): ground" in output
