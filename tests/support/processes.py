"""Commands in processes of their own."""

import os
import subprocess
from pathlib import Path


def call(
    *command: object, cwd: Path | None = None, code: int = 0, **variables: str
) -> str:
    """Runs a command, which must end with that code, and returns what it prints.

    Args:
        variables: the environment besides that of this process.
    """
    result = call_any(*command, cwd=cwd, **variables)
    assert result.returncode == code, result.stdout + result.stderr
    return result.stderr if code else result.stdout


def call_any(
    *command: object, cwd: Path | None = None, **variables: str
) -> "subprocess.CompletedProcess[str]":
    """Runs a command, however it ends."""
    return subprocess.run(
        [*map(str, command)],
        capture_output=True,
        check=False,
        cwd=cwd,
        encoding="utf-8",
        env=os.environ | variables,
    )
