"""Rows of a covering array, as their users run them: fresh processes, warnings as errors.

Those with `ddp` or `fsdp` are trained by two ranks under torchrun.
"""

import math
import os
import re
import subprocess
import sys

import pytest
import training
from rendering import render_subset
from subsets import covering_array

ROWS = covering_array()


@pytest.fixture(params=ROWS, ids=str)
def subset(request):
    return request.param


@pytest.fixture
def project(subset, tmp_path):
    return render_subset(tmp_path / "project", subset)


@pytest.fixture(scope="session")
def mypy_cache(tmp_path_factory):
    """What mypy knows of the dependencies; each test process has its own."""
    return tmp_path_factory.mktemp("mypy")


ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    # The plugins of this repository's tests take longer to import than pytest.
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    # Unlike -W, it reaches the processes that torchrun starts, too.
    "PYTHONWARNINGS": "error",
}
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2)


def python(project, *arguments):
    """Runs Python in a project, with warnings as errors, and returns what it prints."""
    result = subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        check=False,
        cwd=project,
        encoding="utf-8",
        env=os.environ | ENVIRONMENT,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stderr == ""
    return result.stdout


def test_the_command_line(subset, project, folder, zygote, phase):
    data, images, batch = ["--image-size", 16], "8,192 + 2,048", 128
    if subset not in ROWS[:2]:  # To draw the shapes takes a while.
        data, batch = [*data, "--data", "folder", "--data-dir", folder], 4
        images = f"{training.TRAIN_IMAGES} + {training.VAL_IMAGES}"
    # Nothing in convert.py and predict.py depends on the tricks: one new process is enough.
    run = in_a_new_process if subset == ROWS[1] else zygote.run
    if "hdf5" in subset.tricks:
        with phase("convert"):
            result = run(project, "convert.py", "data", *data, "--shards", 2)
        assert result.stderr == "", result.stderr
        assert result.stdout == f"{images} images in data\n"
        assert len(list((project / "data").iterdir())) == 4
        data = ["--data", "hdf5"]
    flags = [*data, "--device", "cpu", "--run-dir", "run", "--max-steps", 3]
    flags += ["--num-workers", 2 * (ROWS.index(subset) % 2), "--log-every", 1]
    flags += ["--batch-size", batch]
    if "swa" in subset.tricks:
        flags += ["--swa-start", 0]
    launcher = TORCHRUN if subset.chosen & {"ddp", "fsdp"} else ()
    with phase("train"):
        said = python(project, *launcher, "train.py", *flags)
    (line,) = training.read_metrics(project / "run")
    assert line["step"] == 3
    assert math.isfinite(line["train_loss"])
    assert math.isfinite(line["val_loss"])
    # Machine, model, data, an epoch and the result: once, however many ranks there are.
    *_, last = lines = said.splitlines()
    assert len(lines) == 5, said
    assert last == (
        f"validation accuracy {line['val_accuracy']:.2%}, weights in run/model.pt"
    )
    with phase("predict"):
        image = folder / "val" / "a" / "0.png"
        result = run(project, "predict.py", image, "--weights", "run/model.pt")
    assert result.returncode == 0, result.stderr
    classes = re.escape(str(image)) + r": \w+ [\d.]+%, \w+ [\d.]+%, \w+ [\d.]+%\n"
    assert re.fullmatch(classes, result.stdout)


def in_a_new_process(project, *arguments):
    stdout = python(project, *arguments)
    return subprocess.CompletedProcess(arguments, 0, stdout, "")


def test_the_types_check(project, mypy_cache, phase):
    with phase("mypy"):
        said = python(project, "-m", "mypy", "--cache-dir", mypy_cache)
    assert said.startswith("Success: no issues found in ")


def test_the_projects_own_tests_pass(subset, project, phase):
    with phase("tests"):
        said = python(project, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    summary = said.splitlines()[-1]
    assert " passed in " in summary
    assert "skipped" not in summary
