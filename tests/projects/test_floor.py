"""The oldest versions that a project says it works with: it does."""

import json
import os
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from platform import python_version

import pytest
import training
import yaml
from packaging.requirements import Requirement
from packaging.version import Version
from processes import call, call_any
from rendering import render_files, render_subset
from subsets import ROOT, TASKS, TRICKS, covering_array, everything, seeded_forms
from test_proofs import ALL, add_proofs
from zygote import OF_FEW_CORES, OF_TORCH

FLOOR_PYTHON = os.environ.get("TORCH_TRICKS_FLOOR_PYTHON")
NEWEST_TORCH_FLOOR = Version("2.9")

FLOORS = [
    Requirement(line)
    for line in (ROOT / "tests" / "floor.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
]


def why_not() -> str:
    """Returns why there can be no tests with the floors, or nothing."""
    if not all(floor.marker is None or floor.marker.evaluate() for floor in FLOORS):
        return f"floor.txt has no versions for Python {python_version()}"
    if not FLOOR_PYTHON:
        return "TORCH_TRICKS_FLOOR_PYTHON names no Python with those of floor.txt"
    return ""


needs_floor = pytest.mark.skipif(bool(why_not()), reason=why_not())


WORKFLOW = ROOT / ".github" / "workflows" / "test.yml"
PYTHONS = yaml.safe_load(WORKFLOW.read_text("utf-8"))["jobs"]["test"]["strategy"][
    "matrix"
]["python"]


def test_the_readme_names_the_pythons_of_the_tests():
    readme = (ROOT / "README.md").read_text("utf-8")
    assert f"Python {PYTHONS[0]} to {PYTHONS[-1]}" in readme


@pytest.mark.proof
@pytest.mark.parametrize("python", PYTHONS)
def test_there_are_builds_of_all_floors(python):
    """Old versions have none for a new Python, where nobody can install them then."""
    uv = Path(sys.executable).with_name("uv")
    options = ("--no-deps", "--only-binary=:all:", "--python-version", python)
    floors = ROOT / "tests" / "floor.txt"
    found = call_any(uv, "pip", "compile", *options, "--quiet", floors)
    if "client error (Connect)" in found.stderr:
        pytest.skip("uv reaches no package index")
    assert found.returncode == 0, found.stderr


ROWS = covering_array()[:12]


@pytest.mark.proof
@pytest.mark.share
@needs_floor
@pytest.mark.parametrize("subset", ROWS, ids=str)
def test_a_subset_trains_and_resumes(subset, tmp_path, floor_zygote, folder, hdf5):
    project = render_subset(tmp_path / "project", subset)
    flags = training.flags(subset, folder, hdf5)
    run = tmp_path / "run"
    training.train_and_resume(floor_zygote.run, subset, project, run, flags)


@pytest.mark.proof
@needs_floor
def test_the_own_tests_of_everything_pass(tmp_path, floor_python):
    check_own_tests(render_subset(tmp_path / "project", everything()), floor_python)


@pytest.mark.proof
@pytest.mark.share
@needs_floor
@pytest.mark.parametrize("kind", ["proofs", "ranks"])
def test_more_tests_of_everything_pass(kind, tmp_path, floor_python):
    # Not in torch 2.7: its clipped gradients of two ranks are those of one to 3e-8
    # only, and the one test spoils a weight through a slice, which is a copy there.
    of_ranks = {"parallel": "fsdp", "grad_clipping": False}
    subset = everything(**of_ranks) if kind == "ranks" else everything()
    project = render_subset(tmp_path / "project", subset)
    if kind == "proofs":
        tests = add_proofs(project, ALL)
    else:
        tests = ["tests/processes", "tests/test_checkpoint.py"]
        tests += ["-k", "not test_what_is_not_finite_is_not_saved"]
    check_own_tests(project, floor_python, *tests)


@pytest.mark.proof
@pytest.mark.share
@needs_floor
@pytest.mark.parametrize("task", TASKS[1:])
def test_the_tests_of_other_tasks_pass(task, tmp_path, floor_python):
    project = render_subset(tmp_path / "project", everything(task=task))
    check_own_tests(project, floor_python, "-m", "not slow")


def check_own_tests(project, floor_python, *tests):
    """Runs tests of a project with the oldest versions."""
    ignored = [f"-Wignore:{text}" for text in (OF_FEW_CORES, OF_TORCH)]
    # torch has an optimizer to compare with from 2.9 on.
    newer = "tests/optim/test_muon.py::test_weights_take_the_steps_of_muon_or_adamw"
    flags = ("-q", *ignored, f"--deselect={newer}")
    command = (floor_python, "-W", "error", "-m", "pytest", *flags, *tests)
    said = call(*command, cwd=project, OMP_NUM_THREADS="1")
    assert "skipped" not in said.splitlines()[-1]


@pytest.mark.proof
@needs_floor
def test_gpu_tests_need_no_more_than_a_project(tmp_path, floor_python):
    """A machine with a GPU may have neither Copier nor the plugins of pytest."""
    for subset in {*covering_array(), *seeded_forms()}:
        (tmp_path / str(subset)).mkdir()
        answers = tmp_path / str(subset) / ".copier-answers.yml"
        answers.write_text(yaml.safe_dump(subset.answers), encoding="utf-8")
    command = (floor_python, "-m", "pytest", "--collect-only", "-q")
    tests = "tests/projects/test_gpu.py"
    call(*command, tests, cwd=ROOT, TORCH_TRICKS_RENDERED=str(tmp_path))


@pytest.mark.proof
@needs_floor
def test_the_environment_holds_the_floors(floor_python):
    program = (
        "import importlib.metadata, json, sys;"
        "print(json.dumps({n: importlib.metadata.version(n) for n in sys.argv[1:]}))"
    )
    floors = versions(FLOORS, "==")
    installed = json.loads(call(floor_python, "-c", program, *floors))
    # A build may add where it came from, as in 2.7.0+cu126.
    assert {n: Version(Version(v).public) for n, v in installed.items()} == floors


def test_the_floors_are_the_declared_ones():
    declared = set()
    answers = [{"task": task, "preset": "everything"} for task in TASKS]
    for trick in TRICKS:
        if trick.excludes:
            names = [*trick.needs, trick.name]
            answers.append({"preset": "custom", "tricks": names})
    for chosen in answers:
        metadata = tomllib.loads(render_files(chosen)["pyproject.toml"])["project"]
        declared |= {*metadata["dependencies"]}
        # What checks the code, and does not run it, is of the present.
        declared |= {
            requirement
            for requirement in metadata["optional-dependencies"]["dev"]
            if not requirement.startswith(("mypy", "ruff"))
        }
    floors = versions(FLOORS, "==")
    assert versions(map(Requirement, declared), ">=") == floors
    assert floors["torch"] <= NEWEST_TORCH_FLOOR


def test_a_python_can_have_all_floors_or_none():
    assert len({str(floor.marker) for floor in FLOORS}) == 1


def test_the_present_is_not_the_floor():
    """If they were the same, the other tests would not cover newer versions."""
    assert Version(Version(version("torch")).public) > versions(FLOORS, "==")["torch"]


def versions(requirements: Iterable[Requirement], operator: str) -> dict[str, Version]:
    """Maps the names in requirements such as `torch>=2.7` to versions."""
    found = {}
    for requirement in requirements:
        # Beside a bound that newer versions broke.
        [specifier] = [each for each in requirement.specifier if each.operator != "<"]
        assert specifier.operator == operator, requirement
        found[requirement.name] = Version(specifier.version)
    return found
