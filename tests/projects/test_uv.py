"""Environments by uv: each extra installs its own build of torch.

uv is real. The indexes are served here, with tiny wheels of the versions.
"""

import base64
import hashlib
import re
import shutil
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from browsing import served
from processes import call_any
from rendering import render_subset
from subsets import Subset

UV = Path(sys.executable).with_name("uv")
BUILDS = {"cpu": "cpu", "cu126": "cu126", "cu130": "cu130", "rocm": "rocm7.2"}
OF_PYTORCH = "https://download.pytorch.org/whl/"


def write_wheel(index: Path, name: str, version: str, *requires: str) -> None:
    """Writes a wheel with one module that knows its version, for an index."""
    module = name.replace("-", "_")
    about = f"{module}-{version}.dist-info"
    lines = [*("Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}")]
    lines += [f"Requires-Dist: {required}" for required in requires]
    files = {
        f"{module}.py": f"__version__ = {version!r}\n",
        f"{about}/METADATA": "".join(f"{line}\n" for line in lines),
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for path, text in files.items():
        digest = hashlib.sha256(text.encode()).digest()
        encoded = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        record += f"{path},sha256={encoded},{len(text)}\n"
    folder = index / name
    folder.mkdir(parents=True)
    wheel = folder / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        for path, text in {**files, f"{about}/RECORD": record}.items():
            file.writestr(path, text)


@pytest.fixture
def address(tmp_path):
    """The address of a server of files below `served`."""
    (tmp_path / "served").mkdir()
    with served(tmp_path / "served") as address:
        yield address


@pytest.fixture
def project(tmp_path, address):
    """A project whose indexes are served, with every package that it needs."""
    project = render_subset(tmp_path / "project", Subset.of("uv"))
    path = project / "pyproject.toml"
    text = path.read_text(encoding="utf-8")
    assert text.count(OF_PYTORCH) == len(BUILDS)
    path.write_text(text.replace(OF_PYTORCH, address), encoding="utf-8")
    about = tomllib.loads(text)["project"]
    needed = [*about["dependencies"], *about["optional-dependencies"]["dev"]]
    indexes = tmp_path / "served"
    for package in {re.match(r"[\w-]+", line)[0] for line in needed}:
        write_wheel(indexes / "pypi", package, "9999.0")
    for build, folder in BUILDS.items():
        version = f"9999.0+{folder}"
        needs = ["triton-rocm"] if build == "rocm" else []
        write_wheel(indexes / folder, "torch", version, *needs)
        write_wheel(indexes / folder, "torchvision", version, "torch")
    write_wheel(indexes / "rocm7.2", "triton-rocm", "9999.0")
    return project


def test_each_extra_installs_its_build(project, tmp_path, address):
    def uv(*arguments, place=project):
        environment = {
            "UV_DEFAULT_INDEX": f"{address}pypi",
            "UV_CACHE_DIR": str(tmp_path / "cache"),
            "UV_PYTHON": sys.executable,
            "VIRTUAL_ENV": "",
            "NO_PROXY": "127.0.0.1",
        }
        return call_any(UV, *arguments, cwd=place, **environment)

    def versions(place):
        code = "import torch, torchvision as v; print(torch.__version__, v.__version__)"
        found = call_any(place / ".venv/bin/python", "-c", code, cwd=place)
        return found.stdout.split()

    install = "sync", "--no-install-project", "--extra"
    assert uv("lock").returncode == 0
    for build, local in BUILDS.items():
        result = uv(*install, build, "--extra", "dev")
        assert result.returncode == 0, result.stderr
        assert versions(project) == 2 * [f"9999.0+{local}"]
    assert uv(*install[:-1]).returncode == 0
    assert versions(project) == 2 * ["9999.0"]
    both = uv(*install, "cpu", "--extra", "cu130")
    assert both.returncode == 2
    assert "`cpu` and `cu130` are incompatible" in both.stderr
    shutil.copytree(project, other := tmp_path / "other", ignore=lambda *_: {".venv"})
    result = uv(*install, "cu126", "--locked", place=other)
    assert result.returncode == 0, result.stderr
    assert versions(other) == 2 * ["9999.0+cu126"]
