#!/bin/sh
# uv 0.13.9
#
# A project has torch as a dependency, and an extra that takes torch from an index of CPU builds and excludes another
# extra, as in uv's guide for PyTorch. After `uv sync --extra cpu`, a plain `uv run` installs the other build over it before it runs the
# command, for torch of the size of gigabytes. It prints "Uninstalled 1 package" and exits with 0. `uv run` otherwise
# leaves alone what the last `uv sync` has installed beyond its own set: another package of the same extra stays.
# Seen: torch 1.0+cpu after the sync, 1.0 in the run; the second package of the extra is still there.
# Way out: pass the extra to each `uv run`, or set UV_NO_SYNC=1, or activate the environment.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet uv==0.13.9
uv="$work/venv/bin/uv"
export UV_CACHE_DIR="$work/cache" UV_PYTHON_DOWNLOADS=never
mkdir "$work/base" "$work/cpu" "$work/project"
cd "$work"
python3 - <<'PYTHON'
import zipfile

def wheel(index, name, version):
    about = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(f"{index}/{name}-{version}-py3-none-any.whl", "w") as file:
        file.writestr(f"{name}.py", f"version = {version!r}\n")
        file.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        file.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{about}/RECORD", "")

wheel("base", "torch", "1.0")
wheel("base", "helper", "1.0")
wheel("cpu", "torch", "1.0+cpu")
PYTHON
cat > project/pyproject.toml <<TOML
[project]
name = "project"
version = "0"
requires-python = ">=3.11"
dependencies = ["torch"]

[project.optional-dependencies]
cpu = ["torch", "helper"]
gpu = ["torch"]

[tool.uv]
conflicts = [[{ extra = "cpu" }, { extra = "gpu" }]]

[tool.uv.sources]
torch = [{ index = "cpu", extra = "cpu" }]

[[tool.uv.index]]
name = "cpu"
url = "$work/cpu"
format = "flat"
explicit = true

[[tool.uv.index]]
name = "base"
url = "$work/base"
format = "flat"
default = true
TOML
cd project
print='import torch, helper; print(torch.version)'
"$uv" sync --quiet --extra cpu
synced=$(.venv/bin/python -c "$print")
ran=$("$uv" run python -c "$print" 2> "$work/said")
echo "after uv sync --extra cpu: $synced"
echo "in a plain uv run: $ran"
grep "Uninstalled" "$work/said"
test "$synced" = "1.0+cpu"
test "$ran" = "1.0"
