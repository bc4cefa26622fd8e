"""Other tasks than classification, as owners write them with the README in hand.

`own_tasks` has the files that the README lists: task.py, a data set, the targets of the tests
and the tests of the task. Masks and keypoints have a network and a small world, too.
"""

import csv
import io
import json
import re
import shutil
from collections.abc import Callable
from math import dist
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import training
from rendering import PACKAGE, render_subset
from subsets import Subset, everything
from test_covering import ENVIRONMENT, OWN_TESTS, RECOMMENDED, python
from zygote import Zygote

FILES = Path(__file__).with_name("own_tasks")

TASKS = {"two_numbers": "r2", "labels": "f1", "masks": "iou", "keypoints": "found"}
"""Each with the metric that decides, which is 1 at best."""

OF_A_KIND = """        self.length = 22 if train else 10
        self.names = NAMES

    def __getitem__(self, index: int) -> Any:
        image, kind = super().__getitem__(index)
        return image, small_target(kind)
"""
"""Gives the few shapes of the tests the targets of the task."""

OF_PIXELS = ("masks", "keypoints")
"""Those whose models have outputs for each pixel."""

IMPORT = "from ..settings import Settings\n"
MODEL = "        model: nn.Module = SmallCNN(outputs)\n"
BRANCH = """    elif name == "pixels":
        model = PixelCNN(outputs)
"""

FLAGS = (
    *("--data", "own", "--image-size", 16, "--batch-size", 16, "--epochs", 6),
    *("--num-workers", 0, "--device", "cpu", "--amp-dtype", "none"),
)
STEPS = 72


def replace(path: Path, *pairs: tuple[str, str]) -> None:
    text = path.read_text(encoding="utf-8")
    for old, new in pairs:
        assert text.count(old) == 1, f"{path} has not one {old!r}"
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")


def change_task(
    project: Path, task: str, augmentation: str = "shift_and_mirror"
) -> None:
    """Makes a project one of another task."""
    files, package = FILES / task, project / PACKAGE
    shutil.copy(files / "task.py", package / "task.py")
    shutil.copy(files / "own_data.py", package / "data/own_data.py")
    shutil.copy(files / "own_test_task.py", project / "tests/test_task.py")
    row = f'    "own": DatasetSpec(open_own, 16, {augmentation}, 1.0, HALF, HALF),\n'
    replace(
        package / "data/datasets.py",
        ("DATASETS = {\n", f"DATASETS = {{\n{row}"),
        ("from .own_images", "from .own_data import open_own\nfrom .own_images"),
    )
    shutil.copy(files / "small_targets.py", project / "tests/small_targets.py")
    if task not in OF_PIXELS:
        replace(
            project / "tests/small_world.py",
            ("        self.length = 22 if train else 10\n", OF_A_KIND),
            ("import partial\n", "import partial\nfrom typing import Any\n"),
        )
        return
    labels = package / "data/labels.py"
    if task == "keypoints" and labels.exists():
        replace(
            labels,
            ("return FileImages(", "return PointFiles("),
            ("from .own_images", "from .own_data import PointFiles\nfrom .own_images"),
        )
    shutil.copy(files / "small_world.py", project / "tests/small_world.py")
    shutil.copy(FILES / "pixel_cnn.py", package / "models/pixel_cnn.py")
    replace(
        package / "models/networks.py",
        (IMPORT, f"{IMPORT}from .pixel_cnn import PixelCNN\n"),
        (MODEL, MODEL + BRANCH),
    )


@pytest.fixture(params=TASKS)
def task(request):
    return request.param


@pytest.fixture
def project(task, tmp_path):
    project = render_subset(tmp_path / "project", RECOMMENDED)
    # A shift would make the numbers wrong.
    none = "Preprocessing.transform"
    change_task(project, task, none if task == "two_numbers" else "shift_and_mirror")
    return project


SAVE = f"""
import csv
from pathlib import Path
from torchvision.transforms.functional import to_pil_image
from {PACKAGE}.data.own_data import make_images

Path("photos").mkdir()
with open("list.csv", "w") as file:
    writer = csv.writer(file)
    writer.writerow(["path", "label"])
    for index, (image, target) in enumerate(make_images(64, 16)):
        to_pil_image(image).save(f"photos/{{index:02}}.png")
        LABEL
        writer.writerow([f"{{index:02}}.png", label])
"""
"""Writes the validation images as files, with a list of their labels."""

LABELS = {
    "two_numbers": "label = ' '.join(map(str, target))",
    "labels": "label = ';'.join(n for n, on in zip(('red', 'green', 'blue'), target) if on) or 'none'",
    "masks": "label = str(target.float().mean().item())",
    "keypoints": "label = '; '.join('%d %d' % tuple(m.nonzero().double().mean(0).flip(0)) for m in target)",
}
"""How an owner would write a target in a list; of a mask, the share of its pixels."""

Row = dict[str, str]


def error(rows: list[Row], labels: list[str]) -> float:
    """Returns the mean error of predicted numbers."""
    return fmean(
        abs(float(row[name]) - float(number))
        for row, label in zip(rows, labels)
        for name, number in zip(("red", "green"), label.split())
    )


def macro_f1(rows: list[Row], labels: list[str]) -> float:
    scores = []
    for name in ("red", "green", "blue"):
        found = {n for n, row in enumerate(rows) if float(row[name]) > 0.5}
        there = {n for n, label in enumerate(labels) if name in label.split(";")}
        scores.append(2 * len(found & there) / (len(found) + len(there)))
    return fmean(scores)


def distance(rows: list[Row], labels: list[str]) -> float:
    """Returns the mean distance of predicted points."""
    return fmean(
        dist(
            (float(row[f"{name}_x"]), float(row[f"{name}_y"])),
            map(float, point.split()),
        )
        for row, label in zip(rows, labels)
        for name, point in zip(("green", "red"), label.split(";"))
    )


MEASURED: dict[str, tuple[str, Callable[[list[Row], list[str]], float]]] = {
    "two_numbers": ("error", error),
    "labels": ("f1", macro_f1),
    "keypoints": ("error", distance),
}
"""A metric of evaluate.py, and the same by what predict.py prints."""


def check_predictions(task: str, run: Callable[..., str], project: Path, measured: Any):
    """What is measured is what is predicted, from files and lists as well."""
    save = SAVE.replace("LABEL", LABELS[task])
    (project / "save.py").write_text(save, encoding="utf-8")
    run("save.py")
    with (project / "list.csv").open() as file:
        labels = [row["label"] for row in csv.DictReader(file)]
    table = run("predict.py", "photos", "--weights", "run/model.pt", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(table)))
    assert len(rows) == len(labels) == 64
    if task == "masks":
        areas = fmean(float(row["square"]) for row in rows)
        assert areas == pytest.approx(fmean(map(float, labels)), abs=0.03)
        return
    name, compute = MEASURED[task]
    assert compute(rows, labels) == pytest.approx(measured[name], rel=1e-4)
    listed = ("--data", "csv", "--data-dir", "photos", "--labels", "list.csv")
    found = json.loads(run("evaluate.py", "run/model.pt", *listed, "--json"))
    assert (found["split"], found["images"]) == ("all", 64)
    assert found[name] == pytest.approx(measured[name], rel=1e-5)


def runner(zygote: Zygote, project: Path) -> Callable[..., str]:
    """Returns a function that runs a script of a project, and returns what it prints."""

    def run(*command: object) -> str:
        result = zygote.run(project, *command)
        assert (result.returncode, result.stderr) == (0, ""), result.stderr
        return result.stdout

    return run


@pytest.mark.proof
def test_a_task_of_an_owner_passes_all_checks(project, mypy):
    python(project, "-m", "ruff", "check", "--quiet")
    python(project, "-m", "ruff", "format", "--check", "--quiet")
    python(project, *mypy)


def test_a_task_of_an_owner_trains(task, project, zygote):
    """It learns, goes on bit for bit, and is measured and predicted alike."""
    run = runner(zygote, project)
    model = ("--model", "pixels" if task in OF_PIXELS else "cnn")
    flags = (*FLAGS, *model, "--checkpoint-every", STEPS // 2, "--keep-checkpoints", 9)
    run("train.py", *flags, "--run-dir", "run")
    last = training.read_metrics(project / "run")[-1]
    assert last["step"] == STEPS
    assert last[f"val_{TASKS[task]}"] > 0.9
    checkpoint = f"run/checkpoints/step-{STEPS // 2:08d}.pt"
    run("train.py", *flags, "--run-dir", "resumed", "--resume", checkpoint)
    training.check_same_run(project / "run", project / "resumed")
    measured = json.loads(run("evaluate.py", "run/model.pt", "--json"))
    assert measured.pop("images") == 64
    assert (measured.pop("data"), measured.pop("split")) == ("own", "val")
    found = {f"val_{name}": value for name, value in measured.items()}
    assert found == {name: last[name] for name in last if name.startswith("val_")}
    check_predictions(task, run, project, measured)


@pytest.mark.proof
def test_a_task_of_an_owner_breaks_only_tests_of_the_task(task, project, zygote):
    result = zygote.pytest(
        *(project, *OWN_TESTS, "--tb=line"), timeout=900, environment=ENVIRONMENT
    )
    said = result.stdout + result.stderr
    assert result.returncode == 0, said
    assert re.search(r"\d+ passed", said), said


@pytest.mark.proof
@pytest.mark.parametrize("form", ["ddp", "fsdp"])
def test_two_ranks_of_a_task_agree_with_one(task, form, tmp_path, zygote):
    """Also where the last batch has one sample, and a rank has none."""
    subset = Subset.of("evaluate", "folders", parallel=form)
    project = render_subset(tmp_path / "project", subset)
    change_task(project, task)
    model = ("--model", "pixels" if task in OF_PIXELS else "cnn")
    flags = (*FLAGS[:-2], *model, "--max-steps", 4, "--run-dir", "run")
    result = training.run_ranks(zygote.run, project, *flags, "--batch-size", 7)
    assert result.returncode == 0, result.stderr
    last = training.read_metrics(project / "run")[-1]
    run = runner(zygote, project)
    alone = json.loads(run("evaluate.py", "run/model.pt", "--json"))
    assert alone["loss"] == pytest.approx(last["val_loss"], rel=1e-5)


@pytest.mark.proof
@pytest.mark.parametrize("task", ["two_numbers", "labels"], indirect=True)
def test_a_task_of_an_owner_goes_with_everything(task, tmp_path, zygote):
    """But with metrics of classes. Masks have no use for some tricks."""
    project = render_subset(tmp_path / "project", everything(metrics=False))
    change_task(project, task)
    run = runner(zygote, project)
    off = ("--mixup-alpha", 0, "--cutmix-alpha", 0, "--class-balance", "none")
    off += ("--label-smoothing", 0)
    flags = (*FLAGS, *off, "--max-steps", 8)
    run("convert.py", "stored", "--data", "own", "--image-size", 16)
    ignored = zygote.run(project, "train.py", *FLAGS, *off[:-1], 0.1)
    assert ignored.returncode == 1
    assert "has no smoothing" in ignored.stderr, ignored.stderr
    run(
        "train.py", *flags, "--data", "hdf5", "--data-dir", "stored", "--run-dir", "run"
    )
    measured = json.loads(run("evaluate.py", "run/model.pt", "--json"))
    last = training.read_metrics(project / "run")[-1]
    assert measured["loss"] == pytest.approx(last["val_loss"])
    assert "differ by" in run("export.py", "run/model.pt")
