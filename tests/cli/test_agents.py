"""AGENTS.md of a project: all commands of it run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from commands import custom


@pytest.mark.proof
def test_all_its_commands_run(project, monkeypatch):
    here = project(**custom("agents", "evaluate", "seeding"))
    text = (here / "AGENTS.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    installation, *commands = "".join(blocks).splitlines()
    assert installation == 'pip install -e ".[dev]"'  # It needs a package index.
    last = commands.pop()
    commands.append(last.replace("TRICK", "grad_clipping --repeats 2"))
    commands[-1] += " -- --max-steps 4 --image-size 8 --num-workers 0 --device cpu"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    for command in commands:
        subprocess.run(["bash", "-c", command], cwd=here, check=True)
