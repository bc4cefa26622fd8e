"""Segmentation on own files: it learns, and its parts agree."""

import csv
import importlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import training
from PIL import Image
from rendering import PACKAGE, render, render_subset
from subsets import Subset
from test_owners import check_small_change

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


def run(zygote, project, *command):
    result = zygote.run(project, *command)
    assert result.returncode == 0, result.stderr
    return result.stdout


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
    said = run(zygote, project, "train.py", *flags)
    assert "3 classes (share of pixels): ground " in said
    last = training.read_metrics(project / "run")[-1]
    assert last["val_mean_iou"] > 0.8
    found = json.loads(run(zygote, project, "evaluate.py", "run/model.pt", "--json"))
    assert (found["split"], found["images"]) == ("val", COUNT // 4)
    leaves = project / "leaves"
    names = [f"{number}.png" for number in range(0, COUNT, 4)]
    images = [leaves / "images" / name for name in names]
    weights = ("--weights", "run/model.pt", "--device", "cpu", "--out", "out")
    lines = run(zygote, project, "predict.py", *images, *weights).splitlines()
    assert len(lines) == len(names)
    predicted = read(project / "out/masks" / name for name in names)
    masks = read(leaves / "masks" / name for name in names)
    for name, value in scores(predicted, masks).items():
        assert found[name] == pytest.approx(value, rel=1e-9)
    # What predict.py writes is what train.py and evaluate.py read.
    shutil.rmtree(project / "out")
    run(zygote, project, "predict.py", leaves / "images", *weights)
    (leaves / "masks").rename(leaves / "drawn")
    (project / "out/masks").rename(leaves / "masks")
    options = (*FOLDER, "--split", "all", "--json")
    found = json.loads(run(zygote, project, "evaluate.py", "run/model.pt", *options))
    assert (found["images"], found["pixel_accuracy"], found["mean_iou"]) == (
        COUNT,
        1,
        1,
    )


def test_masks_of_0_and_255_are_refused_in_a_line(project, zygote):
    """They are no two classes: 255 is ignored."""
    for path in (project / "leaves/masks").iterdir():
        mask = np.array(Image.open(path))
        Image.fromarray(np.where(mask == 0, 0, 255).astype(np.uint8)).save(path)
    result = zygote.run(project, "train.py", *FLAGS, *FOLDER)
    assert result.returncode == 1
    *_, line = result.stderr.splitlines()  # Behind notes on what is left out.
    assert "Traceback" not in result.stderr
    assert line.startswith("error: ")
    assert "have one class only" in line


@pytest.mark.parametrize("seed", range(3))
def test_metrics_are_those_of_scikit_learn(seed, metrics_modules):
    from sklearn import metrics

    rng = torch.Generator().manual_seed(seed)
    targets = torch.randint(8, (3, 20, 20), generator=rng)
    logits = torch.randn(3, 8, 20, 20, generator=rng)
    logits.scatter_add_(1, targets.unsqueeze(1), torch.ones(3, 1, 20, 20))
    absent, unpredicted, unknown = torch.randperm(8, generator=rng)[:3]
    targets[(targets == absent) | (targets == unknown)] = unpredicted
    logits[:, [unpredicted, unknown]] = -9
    targets[torch.rand(targets.shape, generator=rng) < 0.2] = 255
    pixels, classes = metrics_modules
    counts = pixels.count_pairs(logits, targets)
    valid, every = targets != 255, list(range(8))
    truth, predicted = targets[valid], logits.argmax(dim=1)[valid]
    matrix = metrics.confusion_matrix(truth, predicted, labels=every)
    assert counts.tolist() == matrix.tolist()
    found = classes.scores_by_class(counts)
    options = {"labels": every, "zero_division": 0}
    iou = metrics.jaccard_score(truth, predicted, average=None, **options)
    assert found["iou"].tolist() == pytest.approx(iou, rel=1e-12)
    others = metrics.precision_recall_fscore_support(truth, predicted, **options)
    for name, values in zip(("precision", "recall", "dice"), others, strict=False):
        assert found[name].tolist() == pytest.approx(values, rel=1e-12)
    means = pixels.pixel_metrics(counts) | {"mean_dice": classes.mean_dice(counts)}
    macro = {"average": "macro", "zero_division": 0}
    expected = {
        "pixel_accuracy": metrics.accuracy_score(truth, predicted),
        "mean_iou": metrics.jaccard_score(truth, predicted, **macro),
        "mean_dice": metrics.f1_score(truth, predicted, **macro),
    }
    assert means == pytest.approx(expected, rel=1e-12)


@pytest.fixture(scope="module")
def metrics_modules(tmp_path_factory):
    project = tmp_path_factory.mktemp("metrics") / "project"
    render_subset(project, Subset.of("metrics", task=TASK))
    package = project.rename(project.with_name("segmenting")) / PACKAGE
    names = ("pixel_metrics", "class_metrics")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(package.parent)
        for name in [n for n in sys.modules if n.partition(".")[0] == PACKAGE]:
            patch.delitem(sys.modules, name)
        modules = [importlib.import_module(f"{PACKAGE}.{name}") for name in names]
        for name in [n for n in sys.modules if n.partition(".")[0] == PACKAGE]:
            del sys.modules[name]
    return modules


@pytest.mark.proof
@pytest.mark.parametrize(("model", "steps"), [("unet", 60), ("smp:FPN:resnet18", 6)])
def test_an_exported_model_predicts_the_same_masks(model, steps, tmp_path, zygote):
    import onnxruntime

    tricks = ("folders", "predict", "export", "evaluate", "smp")
    project = render_subset(tmp_path / "project", Subset.of(*tricks, task=TASK))
    make_leaves(project / "leaves")
    flags = (*FLAGS[:-2], *FOLDER, "--model", model, "--max-steps", steps)
    flags += ("--run-dir", "run")
    run(zygote, project, "train.py", *flags)
    assert "differ by" in run(zygote, project, "export.py", "run/model.pt")
    # Those that are square, which are resized and cropped to themselves.
    names = [f"{number}.png" for number in range(0, COUNT, 3)]
    images = [project / "leaves/images" / name for name in names]
    weights = ("--weights", "run/model.pt", "--device", "cpu", "--out", "out")
    run(zygote, project, "predict.py", *images, *weights)
    session = onnxruntime.InferenceSession(project / "run/model.onnx")
    pixels = np.stack(read(images)).transpose(0, 3, 1, 2)
    [probabilities] = session.run(None, {"images": pixels})
    assert probabilities.shape == (len(names), 3, 16, 16)
    assert probabilities.sum(axis=1) == pytest.approx(1, abs=1e-5)
    predicted = np.stack(read(project / "out/masks" / name for name in names))
    assert (probabilities.argmax(axis=1) == predicted).mean() > 0.9999


@pytest.mark.proof
@pytest.mark.long
@pytest.mark.parametrize(
    ("flags", "least"),
    [(("--epochs", "2"), 0.25), pytest.param((), 0.85, marks=pytest.mark.share)],
    ids=["two epochs", "defaults"],
)
def test_shapes_are_learned(flags, least, tmp_path):
    """A model that finds the background alone has a mean IoU of 0.12 to 0.14."""
    project = tmp_path / "project"
    render(project, {"task": TASK, "preset": "recommended"})
    command = [sys.executable, "train.py", "--device", "cpu", "--run-dir", "run"]
    subprocess.run([*command, *flags], check=True, cwd=project)
    assert training.read_metrics(project / "run")[-1]["val_mean_iou"] > least


TASK_FILE, METRICS_FILE, NETWORKS, DATASETS, SETTINGS = (
    f"{PACKAGE}/{name}.py"
    for name in (
        "task",
        "pixel_metrics",
        "models/networks",
        "data/datasets",
        "settings",
    )
)

PAIRS = '''def open_pairs(settings: Settings, _size: int) -> tuple[FileImages, FileImages]:
    """Opens images with their masks beside them: leaf.jpg and leaf.png."""
    files = sorted(settings.data_dir.glob("*.jpg"))
    masks = [file.with_suffix(".png") for file in files]
    found, names = open_masks(files, masks, settings.data_dir)
    images = FileImages(files, found, names)
    share, seed = settings.val_share, settings.split_seed
    return split_by_share(images, settings.data_dir, share, seed)


HALF = ('''
IMPORTED = """from .mask_files import open_masks
from .own_images import FileImages, describe_images, split_by_share
"""
ROW = """DATASETS = {
    "pairs": DatasetSpec(open_pairs, 224, crop_and_mirror, 1.0, HALF, HALF),
"""

DICE = """    ious = class_ious(confusion)
    return {
        "mean_dice": mean_of_known(2 * ious / (1 + ious), confusion),
"""

CHANGES = {
    # arXiv:1708.02002.
    "focal loss": {
        TASK_FILE: [
            (
                "        return losses\n",
                "        return (1 - (-losses).exp()) ** 2 * losses\n",
            ),
            ('"""Returns the cross-entropy of', '"""Returns the focal loss of'),
        ]
    },
    "data set": {
        DATASETS: [
            (
                "from .own_images import FileImages, describe_images\n",
                IMPORTED,
            ),
            ("HALF = (", PAIRS),
            ("DATASETS = {\n", ROW),
        ],
        SETTINGS: [('default="shapes"', 'default="pairs"')],
    },
    "metric": {
        TASK_FILE: [
            ('"mean_iou": ".2%"}', '"mean_iou": ".2%", "mean_dice": ".2%"}'),
            ('RESULT = "mean_iou"', 'RESULT = "mean_dice"'),
        ],
        METRICS_FILE: [("    return {\n", DICE)],
    },
}
"""What owners change: replacements by file."""

BROKEN = {
    "focal loss": {
        "tests/test_task.py::test_loss_is_a_mean_over_the_valid_pixels_of_each_image"
    },
    "data set": set(),
    "metric": set(),
}
"""The tests that each of them breaks: those of what it changes."""


@pytest.mark.proof
@pytest.mark.share
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_an_owner_breaks_its_own_tests_alone(name, project, zygote):
    check_small_change(CHANGES[name], project, zygote, BROKEN[name])
    pairs = project / "pairs"
    pairs.mkdir()
    shutil.copy(project / "leaves/classes.txt", pairs)
    for path in (project / "leaves/images").iterdir():
        Image.open(path).save(pairs / f"{path.stem}.jpg")
        shutil.copy(project / "leaves/masks" / path.name, pairs)
    flags = ("--image-size", 16, "--data-dir", "pairs", *FLAGS[-4:])
    flags += ("--max-steps", 3, "--run-dir", "run")
    output = run(zygote, project, "train.py", *flags)
    last = training.read_metrics(project / "run")[-1]
    assert ("val_mean_dice" in last) == (name == "metric")
    assert ("3 classes (share of pixels): ground" in output) == (name == "data set")
