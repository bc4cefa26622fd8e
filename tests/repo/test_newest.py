"""The newest versions of the dependencies, under the newest Python that is installed here."""

import os
import re
import shutil
import site
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from processes import call
from rendering import render

OF_GIGABYTES = {"timm", "torch", "torchvision"}
"""Their types are read where the tests run: an x86-64 build of torch takes 5 GB."""

UV = shutil.which("uv", path=Path(sys.executable).parent)


@pytest.mark.proof
def test_the_newest_versions_have_types_that_fit(tmp_path):
    minor, newest = newest_python()
    if minor == sys.version_info.minor:
        pytest.skip(f"no Python newer than 3.{minor}, of these tests, is here")
    project = render(tmp_path / "project", {"preset": "everything"})
    manifest = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))
    metadata = manifest["project"]
    lines = [*metadata["dependencies"], *metadata["optional-dependencies"]["dev"]]
    wanted = [line for line in lines if Requirement(line).name not in OF_GIGABYTES]
    environment = tmp_path / "environment"
    python = environment / "bin" / "python"
    call(UV, "venv", "--quiet", "--python", newest, environment)
    call(UV, "pip", "install", "--quiet", "--python", python, *wanted)
    # Found after what is installed there.
    [packages] = environment.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text("\n".join(site.getsitepackages()))
    call(python, "-m", "mypy", cwd=project)


def newest_python() -> tuple[int, Path]:
    """Returns the newest Python on the path, or under pyenv, after its minor version."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    # Those of pyenv first: on the path it has scripts that refuse all but one version.
    folders = [*pyenv.glob("versions/*/bin"), *map(Path, os.get_exec_path())]
    found = {sys.version_info.minor: Path(sys.executable)}
    for path in (path for folder in folders for path in folder.glob("python3.*")):
        if match := re.fullmatch(r"python3\.(\d+)", path.name):
            found.setdefault(int(match[1]), path)
    return max(found.items())
