"""Runs the scripts of many projects in forks of one process that has imported torch.

A new Python process spends seconds on imports; a fork of a warm one needs none. The
parent runs no tensor operation, so that no thread can be caught in the middle of one by
a fork. This file is both sides: `Zygote` talks to a server, which is this file as a
script, under any interpreter that has the dependencies of the projects.
"""

import _imp
import faulthandler
import gc
import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Mapping
from contextlib import suppress
from importlib.abc import SourceLoader
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import IO, Any, Self
from unittest import mock

import pytest

PRELOADED = (
    "PIL.Image",
    "PIL.PngImagePlugin",
    "h5py",
    "matplotlib.backends.backend_agg",
    "matplotlib.figure",
    "mlflow.store.db.utils",
    "mlflow.store.tracking.sqlalchemy_store",
    "numpy",
    "pydantic.main",
    "pydantic.types",
    "pytest",
    "sklearn.model_selection",
    "timm",
    "torch",
    "torch._dynamo",  # Imported by the first step of an optimizer.
    "torch.distributed.checkpoint",  # The next three: only in some projects.
    "torch.distributed.checkpoint.state_dict",
    "torch.distributed.fsdp",
    "torch.optim.swa_utils",
    "torch.utils.data",
    "torch.utils.tensorboard",
    "torchvision",
    "torchvision.transforms.v2",
    "tqdm",
    "typeguard",  # Imported by tyro.cli().
    "tyro",
    "wandb",
)

VARIABLES = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_LOGGING_LEVEL": "ERROR"}
"""Variables that MLflow reads as it is imported, as a project sets them."""

WITHOUT_PLUGINS = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""The plugins of this repository's tests take longer to import than pytest."""

OF_TORCH = "TypedStorage is deprecated"
"""A warning that torch 2.7 and 2.8 cause themselves when they save sharded checkpoints."""

OF_FEW_CORES = "This DataLoader will create"
"""A warning of torch where more processes load data than the machine has cores."""

OF_TORCHVISION = "The image decoding"
"""A warning of torchvision 0.29 in each image that it decodes."""

OF_MLFLOW = "The ``noload`` loader"
"""A warning that MLflow 3.17 causes in SQLAlchemy 2.1 when it opens a database."""


class Zygote:
    """A warm server process of a Python interpreter; use it in a `with` statement."""

    def __init__(self, python: str | Path = sys.executable) -> None:
        self.server = subprocess.Popen(
            [str(python), "-P", __file__],
            encoding="utf-8",
            env=os.environ | {"COLUMNS": "80", "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with self.server:
            self.server.stdin.close()

    def run(
        self,
        project: Path,
        script: str,
        *arguments: object,
        timeout: int = 300,
        kill_after: float | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a script in its project as `python -W error SCRIPT ARGUMENTS` would.

        After `kill_after` seconds it is killed with SIGKILL, if it still runs.

        Args:
            environment: variables besides those of the zygote.
        """
        request = {
            "project": str(project),
            "arguments": [script, *map(str, arguments)],
            "timeout": timeout,
            "kill_after": kill_after,
            "environment": dict(environment or {}),
        }
        print(json.dumps(request), file=self.server.stdin, flush=True)
        answer = self.server.stdout.readline()
        if not answer:
            raise RuntimeError(f"the zygote ended with {self.server.wait()}")
        return subprocess.CompletedProcess(request["arguments"], **json.loads(answer))

    def output(self, project: Path, *command: object, **options: Any) -> str:
        """Returns what a script prints, which must succeed."""
        result = self.run(project, *command, **options)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    def pytest(
        self,
        project: Path,
        *arguments: object,
        environment: Mapping[str, str] | None = None,
        **options: Any,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a project's own tests as `run` would a script."""
        environment = {**WITHOUT_PLUGINS, **(environment or {})}
        script = str(Path(pytest.__file__).with_name("__main__.py"))
        return self.run(project, script, *arguments, environment=environment, **options)


def serve() -> None:
    """Answers each request on standard input by the outcome of a fork."""
    with mock.patch.dict(os.environ, VARIABLES):
        for name in PRELOADED:
            importlib.import_module(name)
    SourceFileLoader.source_to_code = source_to_code
    # Else the forks' garbage collectors would copy the parent's memory.
    gc.freeze()
    for line in sys.stdin:
        print(json.dumps(run_forked(**json.loads(line))), flush=True)


def run_forked(
    project: str,
    arguments: list[str],
    timeout: int,
    kill_after: float | None,
    environment: dict[str, str],
) -> dict[str, Any]:
    """Returns the exit status, output and errors of a script that runs in a fork."""
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        compile_modules(Path(project))
        child = os.fork()
        if child == 0:
            os.environ.update(environment)
            redirect(stdout, stderr)
            # Says where it hangs, and then does what the signal does.
            faulthandler.register(signal.SIGALRM, file=2, chain=True)
            signal.alarm(timeout)
            leave(run_script(project, arguments))
        if kill_after is not None:
            time.sleep(kill_after)
            # One that has ended is not yet waited for: its id is no other process's.
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        return {
            "returncode": os.waitstatus_to_exitcode(status),
            "stdout": read_all(stdout),
            "stderr": read_all(stderr),
        }


_compiled: dict[bytes, CodeType] = {}
"""The code of each module of the projects, by its source: most modules are in many."""


def compile_modules(project: Path) -> None:
    """Compiles the modules of a project before the fork, so that later forks need not.

    A module with an error or a warning is left to the fork, which shows it.
    """
    with warnings.catch_warnings(action="error"):
        for package in project.glob("*/__init__.py"):
            for path in package.parent.rglob("*.py"):
                source = path.read_bytes()
                if source not in _compiled:
                    with suppress(SyntaxError, ValueError):
                        _compiled[source] = compile(source, path, "exec")


def source_to_code(
    loader: SourceFileLoader, source: bytes, path: str, **options: Any
) -> CodeType:
    """Stands in for the method of `SourceFileLoader`."""
    if source not in _compiled:
        return SourceLoader.source_to_code(loader, source, path, **options)
    _imp._fix_co_filename(_compiled[source], path)
    return _compiled[source]


def redirect(stdout: IO[bytes], stderr: IO[bytes]) -> None:
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(stdout.fileno(), 1)
    os.dup2(stderr.fileno(), 2)


def run_script(project: str, arguments: list[str]) -> int:
    """Runs a script as the main module and returns the status Python would exit with."""
    os.chdir(project)
    sys.path.insert(0, project)
    sys.argv = arguments
    warnings.simplefilter("error")
    for text in (OF_TORCH, OF_FEW_CORES, OF_TORCHVISION, OF_MLFLOW):
        warnings.filterwarnings("ignore", text)
    try:
        runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:  # noqa: BLE001 - nothing may escape into the server's code.
        traceback.print_exc()
        return 1
    return 0


def leave(status: int) -> None:
    """Ends a process at once: a fork must not clean up what belongs to its parent."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def read_all(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


if __name__ == "__main__":
    serve()
    leave(0)
