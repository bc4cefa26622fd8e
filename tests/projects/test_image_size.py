"""Images of a height and width, for every script of the four tasks."""

import json
from functools import partial

import pytest
import training
from PIL import Image
from rendering import render_subset
from subsets import TASK, TASKS, TRICKS, Subset

SIZE = ("--image-size", 16, 40)
CHOSEN = {
    *("evaluate", "predict", "features", "latency", "export", "errors", "metrics"),
    *("hdf5", "device_augment", "augmentation", "mixup", "resume", "summary"),
    "tensorboard",
}


@pytest.mark.proof
@pytest.mark.parametrize("task", TASKS)
def test_every_script_takes_images_of_a_height_and_width(task, zygote, tmp_path):
    rows = (row for row in TRICKS if row.name in CHOSEN and row.works(TASK, task))
    subset = Subset.of(*(row.name for row in rows), task=task)
    project = render_subset(tmp_path / "project", subset)
    training.make_shapes_few(project)
    photo, run = tmp_path / "photo.png", tmp_path / "run"
    Image.effect_noise((70, 50), 50).convert("RGB").save(photo)
    script = partial(zygote.output, project)
    flags = ("--num-workers", 0, "--device", "cpu", "--batch-size", 8)
    flags += ("--epochs", 2, "--max-steps", 4)
    said = script("train.py", *SIZE, *flags, "--run-dir", run)
    assert " images of 16 x 40, " in said
    last = training.read_metrics(run)[-1]
    found = json.loads(script("evaluate.py", run / "model.pt", "--json"))
    assert found["loss"] == pytest.approx(last["val_loss"], rel=1e-4)
    again = script("train.py", *SIZE, *flags, "--resume", run, "--max-steps", 6)
    assert "step 6" in again
    script("predict.py", photo, "--weights", run / "model.pt")
    script("errors.py", run / "model.pt", "--output", tmp_path / "errors.html")
    if "features" in subset.tricks:
        script("features.py", photo, "--weights", run / "model.pt")
    if "export" in subset.tricks:
        script("export.py", run / "model.pt")
    said = script("latency.py", "--weights", run / "model.pt", "--seconds", 0.1)
    assert "height 16, width 40" in said
    if task != TASKS[0]:
        return
    script("convert.py", tmp_path / "files", *SIZE)
    stored = ("--data", "hdf5", "--data-dir", tmp_path / "files")
    said = script("train.py", *stored, *flags, "--run-dir", tmp_path / "stored")
    assert " images of 16 x 40, " in said
