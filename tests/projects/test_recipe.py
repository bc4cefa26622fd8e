"""The regression of a project's README, followed word for word."""

import csv
import io
import json
import re
import shlex
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from PIL import Image
from rendering import PACKAGE, render
from subsets import everything
from test_covering import python


@pytest.fixture
def leaves(tmp_path):
    """Images that are as bright as the number in their names says."""
    directory = tmp_path / "leaves"
    directory.mkdir()
    rng = np.random.default_rng(0)
    for index in range(60):
        number = rng.uniform(0, 1)
        pixels = np.full((8, 8, 3), 28 + 200 * number) + rng.normal(0, 5, (8, 8, 3))
        path = directory / f"{number:.3f}-{index}.jpg"
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path, quality=95)
    return directory


def blocks(readme: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)


def follow(project):
    """Makes the project one of the README's regression; returns how it is trained."""
    readme = (project / "README.md").read_text(encoding="utf-8")
    codes = blocks(readme, "python")
    (task,) = (code for code in codes if code.startswith('"""The task'))
    (project / PACKAGE / "task.py").write_text(task, encoding="utf-8")
    (opened,) = (code for code in codes if "def open_ages" in code)
    path = project / PACKAGE / "data/datasets.py"
    text = path.read_text(encoding="utf-8")
    for old, new in (
        ("DATASETS = {\n", opened),
        (
            "import FileImages, describe_images, find_folders\n",
            "import FileImages, describe_images, find_folders, split_by_share\n",
        ),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")
    (command,) = (block for block in blocks(readme, "sh") if "--data ages" in block)
    return shlex.split(command.replace("\\\n", ""))[2:]


@pytest.mark.parametrize("preset", ["custom", "recommended", "everything"])
def test_the_regression_of_the_readme(preset, leaves, tmp_path, mypy, zygote):
    answers = {"preset": preset, "parallel": "none"}
    if preset == "custom":
        answers["tricks"] = ["folders", "evaluate", "predict"]
    elif preset == "everything":
        # The README says to remove it first.
        answers = everything(metrics=False).answers
    project = render(tmp_path / "project", answers)
    flags = follow(project)
    python(project, "-m", "ruff", "check", "--quiet")
    python(project, "-m", "ruff", "format", "--quiet")
    python(project, *mypy, PACKAGE, "train.py")
    flags[flags.index("leaves")] = leaves
    flags += ["--image-size", 8, "--epochs", 3, "--batch-size", 8, "--num-workers", 0]

    def run(*command):
        result = zygote.run(project, *command, "--device", "cpu")
        assert (result.returncode, result.stderr) == (0, ""), result.stderr
        return result.stdout

    run("train.py", "--run-dir", tmp_path / "run", *flags)
    weights = tmp_path / "run/model.pt"
    measured = json.loads(run("evaluate.py", weights, "--json"))
    assert 0 < measured["images"] < 60
    both = [
        json.loads(run("evaluate.py", weights, "--json", "--split", split))
        for split in ("train", "val")
    ]
    table = run("predict.py", leaves, "--weights", weights, "--format", "csv")
    errors = [
        abs(float(row["value_1"]) - float(Path(row["path"]).name.partition("-")[0]))
        for row in csv.DictReader(io.StringIO(table))
    ]
    # What is measured is what is predicted, whatever the precision.
    mean = sum(part["images"] * part["error"] for part in both) / 60
    assert fmean(errors) == pytest.approx(mean, rel=0.02)
    if preset == "everything":
        assert "values differ by" in python(project, "export.py", weights)
