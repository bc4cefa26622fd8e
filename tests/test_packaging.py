"""Rendered projects, and the command line, install and declare what they import."""

import ast
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from rendering import PACKAGE, render
from subsets import ROOT
from updating import ANSWERS, read_files

OF_MODULE = {"PIL": "pillow"}
"""Distributions that are not called as the module that they bring."""


@pytest.fixture(params=["minimal", "recommended", "everything"])
def project(request, tmp_path):
    return render(tmp_path / "project", {"preset": request.param})


def imported(files):
    """The third-party distributions that Python files import."""
    names = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names.add(node.module)
    modules = {name.partition(".")[0] for name in names}
    modules -= {*sys.stdlib_module_names, PACKAGE, "train", "predict", "convert"}
    return {OF_MODULE.get(module, module) for module in modules}


def test_it_depends_on_what_it_imports(project):
    metadata = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    declared = {line.partition(">=")[0] for line in metadata["dependencies"]}
    code = {*project.glob("*.py"), *project.glob(f"{PACKAGE}/*.py")}
    assert imported(code) == declared
    tests = imported(project.glob("tests/*.py")) - declared
    dev = {line.partition(">=")[0] for line in metadata["optional-dependencies"]["dev"]}
    assert tests <= dev


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_it_installs(project, tmp_path, installer):
    target = tmp_path / "installed"
    command = [
        *([sys.executable, "-m", "pip"] if installer == "pip" else [find_uv(), "pip"]),
        *("install", "--no-deps", "--no-build-isolation", "--target", str(target)),
        *(["--python", sys.executable, "--offline"] if installer == "uv" else []),
        f"{project}[dev]",
    ]
    subprocess.run(command, check=True, capture_output=True)
    assert (target / PACKAGE / "settings.py").exists()
    # Its commands stay in the project's folder, where people edit them.
    assert not (target / "train.py").exists()


def find_uv():
    return shutil.which("uv", path=Path(sys.executable).parent)


def requirements(name):
    """Returns a distribution of this environment and all that it requires, by name."""
    found: dict[str, Distribution] = {}
    waiting = [name]
    while waiting:
        if (name := waiting.pop()) in found:
            continue
        found[name] = distribution(name)
        for line in found[name].requires or ():
            requirement = Requirement(line)
            if not requirement.marker or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)
    return found


@pytest.fixture(scope="module")
def empty_environment(tmp_path_factory):
    """A virtual environment with the wheel of `torch-tricks` and what it requires."""
    directory = tmp_path_factory.mktemp("wheel")
    run(
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-t",
        "wheel",
        "-d",
        directory,
        cwd=ROOT,
    )
    [wheel] = directory.glob("*.whl")
    environment = directory / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    python = environment / "bin" / "python"
    options = ("--offline", "--no-deps", "--python", python)
    run(find_uv(), "pip", "install", *options, wheel)
    [site] = environment.glob("lib/python*/site-packages")
    others = requirements("torch-tricks")
    del others["torch-tricks"]
    # Linked from where the tests run, as there may be no network to install them from.
    for other in others.values():
        for name in {file.parts[0] for file in other.files} - {"..", "__pycache__"}:
            if not (site / name).exists():
                (site / name).symlink_to(other.locate_file(name))
    return environment


def run(*command, cwd=None):
    result = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        check=False,
        cwd=cwd,
        encoding="utf-8",
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_wheel_makes_projects_in_an_empty_environment(
    empty_environment, workshop, tmp_path
):
    torch_tricks = empty_environment / "bin" / "torch-tricks"
    run(torch_tricks, "--help", cwd=tmp_path)
    clone = workshop.hub.directory / "work"
    run(
        *(torch_tricks, "new", "project", "--template", clone, "--ref", "v0.1.0"),
        *("--name", "Leaf Diseases", "--preset", "minimal"),
        cwd=tmp_path,
    )
    files = read_files(tmp_path / "project")
    fresh = dict(workshop.fresh("v0.1.0", {"preset": "minimal"}))
    assert f"_src_path: {clone}" in files.pop(ANSWERS).decode()
    del fresh[ANSWERS]
    assert files == fresh


def test_the_command_line_needs_no_torch():
    assert not {"torch", "numpy"} & requirements("torch-tricks").keys()
