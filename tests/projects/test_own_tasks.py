"""Another task, as owners write it with the README in hand: keypoints.

`own_tasks/keypoints` has the files that the README lists: targets.py, task.py, a data set, and the targets,
the small world and the tests of the task. What shared code has to know about targets, the tasks
of the template show: numbers, labels and masks.
"""

import csv
import io
import json
import re
import shutil
from collections.abc import Callable
from functools import partial
from math import dist
from pathlib import Path
from statistics import fmean

import pytest
import training
from commands import edit
from rendering import PACKAGE, render_subset
from test_covering import ENVIRONMENT, OWN_TESTS, RECOMMENDED, python

pytestmark = pytest.mark.proof

FILES = Path(__file__).with_name("own_tasks")

IMPORT = "from ..settings import Settings\n"
MODEL = "        model = SmallCNN(outputs)\n"
BRANCH = """    elif name == "pixels":
        model = PixelCNN(outputs)
"""

FLAGS = (
    *("--data", "own", "--image-size", 16, "--batch-size", 16, "--epochs", 6),
    *("--model", "pixels", "--num-workers", 0, "--device", "cpu"),
)
NO_AMP = ("--amp-dtype", "none")
STEPS = 72


def change_task(project: Path) -> None:
    """Makes a project one of keypoints."""
    files, package = FILES / "keypoints", project / PACKAGE
    for name in ("targets.py", "task.py"):
        shutil.copy(files / name, package / name)
    shutil.copy(files / "own_data.py", package / "data/own_data.py")
    shutil.copy(files / "own_test_task.py", project / "tests/test_task.py")
    shutil.copy(files / "small_targets.py", project / "tests/small_targets.py")
    shutil.copy(files / "small_world.py", project / "tests/small_world.py")
    shutil.copy(FILES / "pixel_cnn.py", package / "models/pixel_cnn.py")
    row = '    "own": DatasetSpec(open_own, 16, shift_and_mirror, SCALED),\n'
    datasets, labels = package / "data/datasets.py", package / "data/labels.py"
    edit(datasets, "DATASETS = {\n", f"DATASETS = {{\n{row}")
    imported = "from .own_images"
    edit(datasets, imported, f"from .own_data import open_own\n{imported}")
    if labels.exists():
        edit(labels, "return FileImages(", "return PointFiles(")
        edit(labels, imported, f"from .own_data import PointFiles\n{imported}")
    networks = package / "models/networks.py"
    edit(networks, IMPORT, f"{IMPORT}from .pixel_cnn import PixelCNN\n")
    edit(networks, MODEL, MODEL + BRANCH)


@pytest.fixture
def project(tmp_path):
    project = render_subset(tmp_path / "project", RECOMMENDED)
    change_task(project)
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
    for index, (image, target) in enumerate(make_images(64, (16, 16))):
        to_pil_image(image).save(f"photos/{{index:02}}.png")
        points = [m.nonzero().double().mean(0).flip(0) for m in target]
        label = "; ".join("%d %d" % tuple(point) for point in points)
        writer.writerow([f"{{index:02}}.png", label])
"""
"""Writes the validation images as files, with a list of their points."""


def distance(rows: list[dict[str, str]], labels: list[str]) -> float:
    """Returns the mean distance of predicted points."""
    return fmean(
        dist(
            (float(row[f"{name}_x"]), float(row[f"{name}_y"])),
            map(float, point.split()),
        )
        for row, label in zip(rows, labels, strict=True)
        for name, point in zip(("green", "red"), label.split(";"), strict=True)
    )


def check_predictions(run: Callable[..., str], project: Path, error: float) -> None:
    """What is measured is what is predicted, from files and lists as well."""
    (project / "save.py").write_text(SAVE, encoding="utf-8")
    run("save.py")
    with (project / "list.csv").open() as file:
        labels = [row["label"] for row in csv.DictReader(file)]
    table = run("predict.py", "photos", "--weights", "run/model.pt", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(table)))
    assert len(rows) == 64
    assert distance(rows, labels) == pytest.approx(error, rel=1e-4)
    listed = ("--data", "csv", "--data-dir", "photos", "--labels", "list.csv")
    found = json.loads(run("evaluate.py", "run/model.pt", *listed, "--json"))
    assert (found["split"], found["images"]) == ("all", 64)
    assert found["error"] == pytest.approx(error, rel=1e-5)


def test_it_passes_all_checks_and_breaks_no_other_test(project, zygote, mypy):
    python(project, "-m", "ruff", "check", "--quiet")
    python(project, "-m", "ruff", "format", "--check", "--quiet")
    python(project, *mypy)
    result = zygote.pytest(
        *(project, *OWN_TESTS, "--tb=line"), timeout=900, environment=ENVIRONMENT
    )
    said = result.stdout + result.stderr
    assert result.returncode == 0, said
    assert re.search(r"\d+ passed", said), said


def test_it_trains(project, zygote):
    """It learns, goes on bit for bit, and is measured and predicted alike."""
    run = partial(zygote.output, project)
    flags = (*FLAGS, *NO_AMP, "--checkpoint-every", STEPS // 2)
    flags += ("--keep-checkpoints", 9)
    run("train.py", *flags, "--run-dir", "run")
    last = training.read_metrics(project / "run")[-1]
    assert last["step"] == STEPS
    assert last["val_found"] > 0.9
    checkpoint = f"run/checkpoints/step-{STEPS // 2:08d}.pt"
    run("train.py", *flags, "--run-dir", "resumed", "--resume", checkpoint)
    training.check_same_run(project / "run", project / "resumed")
    measured = json.loads(run("evaluate.py", "run/model.pt", "--json"))
    assert measured.pop("images") == 64
    assert (measured.pop("data"), measured.pop("split")) == ("own", "val")
    found = {f"val_{name}": value for name, value in measured.items()}
    assert found == {name: last[name] for name in last if name.startswith("val_")}
    check_predictions(run, project, measured["error"])
