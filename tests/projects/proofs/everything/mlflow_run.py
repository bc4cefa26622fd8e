"""Runs in an MLflow database."""

import subprocess
import sys
from pathlib import Path

BEGIN = """
from pathlib import Path
from leaf_diseases.mlflow_run import MLflowRun
from leaf_diseases.settings import Settings
MLflowRun(Path("run"), Settings()).begin()
"""


def test_first_runs_may_begin_at_once(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-c",
        f"import sys; sys.path.insert(0, {str(Path.cwd())!r}){BEGIN}",
    ]
    processes = [subprocess.Popen(command, cwd=tmp_path) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
