"""A Slurm of one machine, with daemons and a configuration of its own."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import processes
from machines import free_port

COMMANDS = ("slurmctld", "slurmd", "sbatch", "srun", "scontrol", "squeue")

SLURM_CONF = """
ClusterName=torch-tricks
SlurmctldHost={host}
SlurmctldPort={controller}
SlurmdPort={daemon}
SlurmUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
GresTypes=gpu
SlurmdParameters=config_overrides
NodeName={host} CPUs=8 RealMemory=1000 Gres=gpu:2
PartitionName=all Nodes=ALL Default=YES
"""

NEEDS = "only root can start Slurm's daemons, and they must be installed (slurm-wlm)"


def can_run() -> bool:
    """Returns whether Slurm is installed, and may be started here."""
    return os.geteuid() == 0 and all(map(find, COMMANDS))


def find(command: str) -> str | None:
    return shutil.which(command, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


@contextmanager
def cluster(directory: Path) -> Iterator[dict[str, str]]:
    """Starts the daemons, and leaves none; yields the variables that lead to them."""
    host = socket.gethostname()
    (directory / "state").mkdir()
    (directory / "spool").mkdir()
    (directory / "gres.conf").write_text(
        "Name=gpu File=/dev/null\nName=gpu File=/dev/zero\n"
    )
    (directory / "cgroup.conf").write_text("")
    (directory / "slurm.conf").write_text(
        SLURM_CONF.format(
            host=host, directory=directory, controller=free_port(), daemon=free_port()
        )
    )
    own = {"SLURM_CONF": str(directory / "slurm.conf")}
    daemons = []
    try:
        for command in ("slurmctld", "slurmd"):
            with (directory / f"{command}.log").open("w") as log:
                daemons.append(
                    subprocess.Popen(
                        [find(command), "-D"],
                        env=os.environ | own,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                    )
                )
        wait_until(lambda: "idle" in call(own, "sinfo", "-h", "-o", "%t"), 60)
        yield own
    finally:
        with suppress(OSError, AssertionError):
            call(own, "scancel", "--state=PENDING", "--user=root")
            call(own, "scancel", "--signal=KILL", "--full", "--user=root")
            wait_until(lambda: not call(own, "squeue", "-h"), 30)
        for daemon in reversed(daemons):
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


def call(own: dict[str, str], *command: object, cwd: Path | None = None) -> str:
    """Runs one of Slurm's commands, and returns what it prints."""
    return processes.call("timeout", 60, *command, cwd=cwd, **own)


def wait_until(condition, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not so within {seconds:g} seconds")
        time.sleep(0.2)
