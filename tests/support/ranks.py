"""Runs train.py as a rank that something happens to; torchrun starts this in its place.

    torchrun ... ranks.py EVENTS FLAGS...

EVENTS are separated by commas, one for each attempt of torchrun: NAME:RANK:STEP happens
to that rank, or to any where there is no number, right before the optimizer takes that
step of the attempt; `none` is nothing. Of an event that is about saving, the step is that
of the checkpoint. `comparable` is for all attempts: see below.
"""

import ctypes
import math
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SCRIPT = str(Path(__file__).absolute())
PR_SET_PDEATHSIG = 1

KILL_ON_SIGTERM = """
import os, re, signal, sys, time
rank = int(sys.argv[1])
pending = 0
while not pending & 1 << signal.SIGTERM - 1:
    time.sleep(0.1)
    with open(f"/proc/{rank}/status") as status:
        pending = int(re.search(r"ShdPnd:\\s*(\\w+)", status.read())[1], 16)
os.kill(rank, signal.SIGKILL)
"""


def main() -> None:
    _, events, *flags = sys.argv
    # Whatever ends the agent, a timeout too, leaves no rank behind.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    sys.path.insert(0, os.getcwd())
    names = events.split(",")
    if "comparable" in names:
        make_comparable()
        names.remove("comparable")
    attempt = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    if attempt < len(names):
        name, rank, step = f"{names[attempt]}::".split(":")[:3]
        if rank in ("", os.environ.get("RANK")):
            EVENTS[name](int(step or 0))
    sys.argv = ["train.py", *flags]
    runpy.run_path("train.py", run_name="__main__")


def make_comparable() -> None:
    """Makes results independent of how images are shared, up to the order of sums.

    The model is linear, in float64. Images are not augmented: projects whose ranks share
    the batches draw for each image alone, and the others for a batch at a time.
    """
    import torch
    import torch.distributed.fsdp
    from leaf_diseases.data import datasets
    from leaf_diseases.models import networks

    class Linear(torch.nn.Module):
        def __init__(self, classes: int, numbers: int) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(numbers, classes).double()

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.linear(images.double().flatten(1))

    networks.build_model = lambda _, classes, preprocessing: Linear(
        classes, math.prod(preprocessing.shape)
    )
    # Weights of float64 keep their type, as in autocast.
    same_types = torch.distributed.fsdp.MixedPrecisionPolicy()
    torch.distributed.fsdp.MixedPrecisionPolicy = lambda *_, **__: same_types
    load_data = datasets.load_data

    def load_plain(settings: Any) -> Any:
        data = load_data(settings)
        prepared = data.preprocessing.transform(), data.preprocessing
        plain = {"train": datasets.TransformedDataset(data.train.dataset, *prepared)}
        if hasattr(data, "augment"):
            plain["augment"] = type(data.augment)()
        return data._replace(**plain)

    datasets.load_data = load_plain


def before_step(number: int, act: Callable[[], None]) -> None:
    """Does something right before the optimizer takes its step of that number."""
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    steps: list[Any] = []

    def counted(optimizer: Any, *_: Any) -> None:
        # Muon's step begins that of an AdamW.
        if not steps or optimizer is steps[0]:
            steps.append(optimizer)
            if len(steps) == number:
                act()

    register_optimizer_step_pre_hook(counted)


def kill(step: int) -> None:
    before_step(step, lambda: os.kill(os.getpid(), signal.SIGKILL))


def kill_saving(step: int) -> None:
    """Dies when a file or directory of a checkpoint is about to get its name."""
    replace = os.replace

    def killed(source: Any, target: Any, **keywords: Any) -> None:
        if f"step-{step:08d}" in os.fspath(target):
            os.kill(os.getpid(), signal.SIGKILL)
        replace(source, target, **keywords)

    os.replace = killed


def kill_machine(step: int) -> None:
    """Kills the agent, which is all there is of the machine besides, and the rank."""

    def act() -> None:
        os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    before_step(step, act)


def hang(step: int) -> None:
    """Stops, and is killed as soon as the agent tells it to end, not 30 seconds later."""

    def act() -> None:
        rank = str(os.getpid())
        subprocess.Popen([sys.executable, "-S", "-c", KILL_ON_SIGTERM, rank])
        os.kill(os.getpid(), signal.SIGSTOP)

    before_step(step, act)


def interrupt(step: int) -> None:
    """Signals the agent as Ctrl-C does."""
    before_step(step, lambda: os.kill(os.getppid(), signal.SIGINT))


def terminate(step: int) -> None:
    before_step(step, lambda: os.kill(os.getppid(), signal.SIGTERM))


def stop(step: int) -> None:
    """Signals the process itself, which saves after that step and stops."""
    before_step(step, lambda: os.kill(os.getpid(), signal.SIGTERM))


def run_out_of_time(step: int) -> None:
    """Signals the job script, as Slurm does, and waits until that has an effect."""

    def act() -> None:
        os.kill(int(os.environ["JOB_SCRIPT"]), signal.SIGUSR1)
        while signal.getsignal(signal.SIGTERM) != signal.SIG_IGN:
            time.sleep(0.1)

    before_step(step, act)


def fail(step: int) -> None:
    """Fails as a mistake in the code does."""

    def act() -> None:
        raise ZeroDivisionError("a mistake")

    before_step(step, act)


EVENTS: dict[str, Callable[[int], None]] = {
    "none": lambda _: None,
    **{
        function.__name__.replace("_", "-"): function
        for function in (kill, kill_saving, kill_machine, hang)
        + (interrupt, terminate, stop, run_out_of_time, fail)
    },
}

if __name__ == "__main__":
    main()
