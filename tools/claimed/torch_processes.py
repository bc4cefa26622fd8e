"""Statements about torch: several processes and torchrun."""

import contextlib
import os
import signal
import subprocess
import sys

from claimed.claim import claim, folder


@claim(
    "torch",
    "docs/several-processes.md",
    "torchrun sets `OMP_NUM_THREADS=1` unless you set it.",
)
def _() -> object:
    environment = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
    with folder() as place:
        (place / "a.py").write_text("import os; print(os.environ['OMP_NUM_THREADS'])")
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        done = subprocess.run(
            [*command, "--nproc-per-node=2", place / "a.py"],
            capture_output=True,
            text=True,
            env=environment,
            check=True,
        )
    assert done.stdout.split() == ["1", "1"], done.stdout
    return done.stdout.split()


@claim(
    "torch",
    "docs/several-processes.md",
    "torchrun gives a process 30 seconds to end, or the seconds in "
    "`TORCH_ELASTIC_SHUTDOWN_TIMEOUT`.",
)
def _() -> object:
    import inspect

    from torch.distributed.launcher import api

    default = '"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "30"'
    assert default in inspect.getsource(api)
    return default


@claim(
    "torch",
    "docs/resuming.md",
    "SIGUSR1, SIGUSR2 and SIGXCPU kill torchrun itself.",
)
def _() -> object:
    seen = []
    with folder() as place:
        (place / "a.py").write_text(
            "import time; print('up', flush=True); time.sleep(60)"
        )
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU):
            command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
            process = subprocess.Popen(
                [*command, "--nproc-per-node=1", str(place / "a.py")],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
            )
            try:
                assert process.stdout is not None and process.stdout.readline()
                process.send_signal(number)
                seen.append(process.wait(20))
                assert seen[-1] == -number, seen
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
    return f"exit codes {seen}"
