"""A rendered project installs with pip and with uv, and declares what it imports."""

import ast
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from rendering import PACKAGE, render

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
