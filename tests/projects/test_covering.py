"""Rows of covering arrays: trained in forks, and as their users run them.

Those with `ddp` or `fsdp` are a world of one in a fork. In new processes two ranks train
them under torchrun, with warnings as errors.
"""

import math
import re
import subprocess
import sys

import pytest
import training
from covering import FORMS
from processes import call_any
from rendering import render_subset
from subsets import (
    PROOF_SEED,
    SEED_OF_PAIRS,
    TASKS,
    Subset,
    covering_array,
    everything,
    questions,
    recommended,
)
from zygote import OF_FEW_CORES, OF_MLFLOW, OF_TORCHVISION, WITHOUT_PLUGINS

TRIPLES = covering_array()
PAIRS = covering_array(2, SEED_OF_PAIRS)
OF_THE_PROOF = covering_array(3, PROOF_SEED)
PAIRS_OF_THE_PROOF = covering_array(2, PROOF_SEED)

RECOMMENDED = recommended()
RECOMMENDED_OF_TASKS = [recommended(task) for task in TASKS]
EVERYTHING_OF_TASKS = [everything(task=task, parallel="ddp") for task in TASKS[1:]]


def rows(*subsets):
    return pytest.mark.parametrize("subset", subsets, ids=str)


def rows_of_the_proof(subsets):
    return lambda test: pytest.mark.proof(pytest.mark.share(rows(*subsets)(test)))


@pytest.fixture
def project(subset, tmp_path):
    return render_subset(tmp_path / "project", subset)


IGNORED = (OF_FEW_CORES, OF_TORCHVISION, OF_MLFLOW)
"""Warnings of the libraries and of the machine, which no project causes."""

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    **WITHOUT_PLUGINS,
    # Unlike -W, it reaches the processes that torchrun starts, too.
    "PYTHONWARNINGS": ",".join(["error", *(f"ignore:{text}" for text in IGNORED)]),
}
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2)
OWN_TESTS = (
    *("-q", "-Werror", "-p", "no:cacheprovider"),
    *(f"-Wignore:{text}" for text in IGNORED),
)


def python(project, *arguments):
    """Runs Python in a project, with warnings as errors, and returns what it prints."""
    result = call_any(sys.executable, *arguments, cwd=project, **ENVIRONMENT)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stderr == ""
    return result.stdout


@rows(*PAIRS)
def test_a_row_trains_and_resumes(subset, project, tmp_path, zygote, folder, hdf5):
    train_and_resume(subset, project, tmp_path, zygote, folder, hdf5)


@rows_of_the_proof(TRIPLES)
def test_a_row_of_triples_trains_and_resumes(
    subset, project, tmp_path, zygote, folder, hdf5
):
    train_and_resume(subset, project, tmp_path, zygote, folder, hdf5)


def train_and_resume(subset, project, tmp_path, zygote, folder, hdf5):
    flags = training.flags(subset, folder, hdf5)
    run = tmp_path / "run"
    training.train_and_resume(zygote.run, subset, project, run, flags)
    training.evaluate(zygote.run, project, run)


@pytest.mark.proof
@pytest.mark.share
@pytest.mark.parametrize("form", questions()[FORMS])
def test_none_is_a_run_without_amp_to_the_last_bit(
    form, tmp_path, zygote, folder, hdf5
):
    runs = []
    plain = everything(parallel=form, amp=False)
    for amp in (False, True):
        subset = everything(parallel=form, amp=amp)
        project = render_subset(tmp_path / f"project-{amp}", subset)
        runs.append(tmp_path / f"run-{amp}")
        flags = [*training.flags(plain, folder, hdf5), "--run-dir", runs[-1]]
        off = ("--amp-dtype", "none") if amp else ()
        training.train(zygote.run, project, *flags, *off)
    training.check_same_files(*runs)
    without, turned_off = map(training.reproducible, runs)
    assert [line | {"skipped_steps": 0} for line in without] == turned_off


@rows(RECOMMENDED)
def test_the_command_line(subset, project, folder, zygote):
    """Training in a new process, as users run it, which spends seconds on imports."""
    check_the_command_line(subset, project, folder, zygote.run)


@rows_of_the_proof(OF_THE_PROOF)
def test_the_command_line_of_every_row(subset, project, folder, zygote):
    check_the_command_line(subset, project, folder, zygote.run)


@pytest.mark.proof
@rows(everything())
def test_every_script_in_a_new_process(subset, project, folder):
    check_the_command_line(subset, project, folder, in_a_new_process)


def check_the_command_line(subset, project, folder, run):
    data, images, batch = ["--image-size", 16], "8,192 + 2,048", 128
    if subset != Subset.of():  # To draw the shapes takes a while.
        source, place = "mnist", folder
        if "folders" in subset.tricks:
            # With nothing beside the splits, which evaluate.py would print.
            source, place = "folder", project / "photos"
            place.mkdir()
            for split in ("train", "val"):
                (place / split).symlink_to(folder / split)
        data, batch = [*data, "--data", source, "--data-dir", place], 4
        images = f"{training.TRAIN_IMAGES} + {training.VAL_IMAGES}"
    if "hdf5" in subset.tricks:
        result = run(project, "convert.py", "data", *data, "--shards", 2)
        assert result.stderr == "", result.stderr
        assert result.stdout.endswith(f"{images} images in data\n")
        assert len(list((project / "data").iterdir())) == 4
        data = ["--data", "hdf5"]
    flags = [*data, "--device", "cpu", "--run-dir", "run", "--max-steps", 3]
    flags += ["--num-workers", 2 * (len(str(subset)) % 2), "--log-every", 1]
    flags += ["--batch-size", batch]
    if "swa" in subset.tricks:
        flags += ["--swa-start", 0]
    if "sync_bn" in subset.tricks:
        flags += ["--no-sync-bn"]
    launcher = TORCHRUN if subset.chosen & {"ddp", "fsdp"} else ()
    said = python(project, *launcher, "train.py", *flags)
    (line,) = training.read_metrics(project / "run")
    assert line["step"] == 3
    assert math.isfinite(line["train_loss"])
    assert math.isfinite(line["val_loss"])
    # Machine, model, data, rate, run directory, the first step, three steps, an epoch, and
    # the result: once, however many ranks there are.
    *_, last = lines = said.splitlines()
    if "multichannel" in subset.tricks:  # Of image files, it says what it has measured.
        lines = [line for line in lines if not line.startswith("channels: ")]
    say_more = {"activation_checkpointing", "amp", "compile", "layerwise_lr", "summary"}
    say_more |= {"mlflow", "provenance", "wandb"}
    # Of a folder, its classes are printed, too.
    of_folder = "folder" in data
    assert len(lines) == 11 + of_folder + len(say_more & {*subset.tricks}), said
    decides_by_class = {"metrics", "class_balance"} <= {*subset.tricks}
    name = "balanced_accuracy" if decides_by_class else "accuracy"
    decides = f"{name} {line[f'val_{name}']:.2%}"
    files = "(run/model.pt)", "in epoch 1 (run/best.pt)"
    assert last == f"validation {decides} {files[0]}, best {decides} {files[1]}"
    if "evaluate" in subset.tricks:
        result = run(project, "evaluate.py", "run/model.pt", "--device", "cpu")
        assert result.returncode == 0, result.stderr
        assert f", accuracy {line['val_accuracy']:.2%}" in result.stdout
    if "export" in subset.tricks:
        result = run(project, "export.py", "run/model.pt")
        assert (result.returncode, result.stderr) == (0, ""), result.stderr
        assert (project / "run/model.onnx").exists()
    if "predict" not in subset.tricks:
        return
    image = folder / "val" / "a" / "0.png"
    result = run(project, "predict.py", image, "--weights", "run/model.pt")
    assert result.returncode == 0, result.stderr
    classes = (
        re.escape(str(image)) + r": [\w -]+ [\d.]+%, [\w -]+ [\d.]+%, [\w -]+ [\d.]+%\n"
    )
    assert re.fullmatch(classes, result.stdout)


def in_a_new_process(project, *arguments):
    stdout = python(project, *arguments)
    return subprocess.CompletedProcess(arguments, 0, stdout, "")


@pytest.mark.long
def test_the_types_check(tmp_path, mypy):
    # Two tricks more than none: so mypy reads torch once, see check_the_types().
    few = Subset.of("export", "tensorboard")
    check_the_types([everything(), few], tmp_path, mypy)
    project = tmp_path / str(everything())
    with (project / "train.py").open("a", encoding="utf-8") as file:
        file.write("\n\nmain(0)\n")
    with pytest.raises(AssertionError, match=r"\[arg-type\]"):
        python(project, *mypy)


@pytest.mark.proof
@pytest.mark.share
@pytest.mark.parametrize("part", range(8))
def test_the_types_of_every_row_check(part, tmp_path, mypy):
    subsets = [*EVERYTHING_OF_TASKS, *RECOMMENDED_OF_TASKS, *PAIRS_OF_THE_PROOF]
    check_the_types([*subsets, *OF_THE_PROOF][part::8], tmp_path, mypy)


def check_the_types(subsets, directory, mypy):
    # mypy reads the whole of torch again where the project before ignored other modules
    # that torch imports: onnxruntime or tensorboard.
    def ignored(subset):
        return "export" in subset.tricks, "tensorboard" in subset.tricks

    for subset in sorted(subsets, key=ignored):
        project = render_subset(directory / str(subset), subset)
        said = python(project, *mypy)
        assert said.startswith("Success: no issues found in ")


@pytest.mark.long
@rows(Subset.of(), RECOMMENDED)
def test_the_projects_own_tests_pass(subset, project, zygote):
    """In a fork, which need not import torch again; those of new processes are left out."""
    own_tests_in_a_fork(project, zygote, "-m", "not slow")


def own_tests_in_a_fork(project, zygote, *flags):
    result = zygote.pytest(
        *(project, *OWN_TESTS, *flags), timeout=900, environment=ENVIRONMENT
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stderr == ""
    check_summary(result.stdout)


@pytest.mark.long
@rows_of_the_proof([*PAIRS_OF_THE_PROOF, *RECOMMENDED_OF_TASKS, *EVERYTHING_OF_TASKS])
def test_the_own_tests_of_every_row_pass(subset, project):
    """In a new process, as its owner runs them."""
    check_summary(python(project, "-m", "pytest", *OWN_TESTS))


def check_summary(said):
    summary = said.splitlines()[-1]
    assert re.match(r"\d+ passed(, \d+ deselected)? in ", summary), said
    assert "skipped" not in summary
