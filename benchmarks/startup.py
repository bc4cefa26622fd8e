"""How long `python train.py` takes to its first step, beside the import of torch."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from measure import Row, interleave, render

FIRST_STEP = """
import os, sys
import train

step = train.train_step

def step_and_leave(run, batch):
    step(run, batch)
    os._exit(0)

train.train_step = step_and_leave
sys.argv += ["--device", "cpu", "--num-workers", "0"]
train.main(train.parse_settings(train.__doc__))
"""
PROGRAMS = {
    "import of train.py": "import os, train; os._exit(0)",
    "first step": FIRST_STEP,
    "import of torch and torchvision": (
        "import os, torch, torchvision.transforms.v2; os._exit(0)"
    ),
}
"""Programs, each timed in a new process; the last is the reference. Each skips the
clean-up of torch, which takes most of a second."""
REPETITIONS = 5


def measure_startup() -> Iterator[Row]:
    """Times the programs in the projects with nothing and with everything."""
    with tempfile.TemporaryDirectory(prefix="bench-startup-") as directory:
        for preset in ("minimal", "everything"):
            project = render(Path(directory), f"{preset}_project", preset)
            calls = [partial(run, project, program) for program in PROGRAMS.values()]
            for call in calls:
                call()  # Compiles the modules, and reads the files of all.
            *names, reference = PROGRAMS
            for name, times in zip(
                names, interleave([calls], REPETITIONS), strict=True
            ):
                yield Row(
                    f"{preset}, {name} / {reference}",
                    f"{times.ours:.2f} s",
                    f"{times.reference:.2f} s",
                    f"{times.ratio:.2f}",
                    f"{times.cpu_ratio:.2f}",
                )


def run(project: Path, program: str) -> None:
    """Runs a program in a project, and waits for its end."""
    subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        check=True,
        cwd=project,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
