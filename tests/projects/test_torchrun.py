"""Runs of several processes that are killed, hang, fail, are stopped, and go on."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest
import ranks
import slurm
import training
from machines import free_port, is_free, two_machines
from parts import at_once
from processes import call_any
from rendering import render

KINDS = ("ddp", "fsdp")
ANSWERS = {
    "preset": "custom",
    "tricks": ["folders", "seeding", "accumulation", "amp", "swa", "mixup", "resume"],
}
FLAGS = (
    *("--data", "folder", "--device", "cpu", "--image-size", training.IMAGE_SIZE),
    *("--num-workers", 0, "--batch-size", 4, "--accumulation-steps", 2),
    *("--epochs", 4, "--swa-start", 0.5, "--checkpoint-every", 5, "--log-every", 1),
    *("--keep-checkpoints", 99, "--resume", "auto"),
)
"""12 steps, with checkpoints after 3, 5, 6, 9, 10 and 12 of them."""

SOON_DEAD = "keep_alive_interval=1,keep_alive_max_attempt=5"
"""A rendezvous gives a silent agent up after 5 seconds, not after 15."""

WITHOUT_CHANCE = ("--mixup-alpha", 0, "--cutmix-alpha", 0)


@pytest.fixture(scope="session")
def projects(tmp_path_factory):
    """A project for each way to use several GPUs."""
    directory = tmp_path_factory.mktemp("torchrun")
    return {
        kind: render(directory / kind, ANSWERS | {"parallel": kind})
        for kind in ("none", "dp", *KINDS)
    }


@pytest.fixture(scope="session")
def launch(zygote, projects, folder):
    """Runs two ranks of a project, or more."""

    def launch(kind, directory, *flags, **options):
        flags = (*FLAGS, "--data-dir", folder, "--run-dir", directory, *flags)
        return training.run_ranks(zygote.run, projects[kind], *flags, **options)

    return launch


@pytest.fixture(scope="session")
def unbroken(launch, tmp_path_factory):
    """Returns the directory of a run of two ranks that nothing happened to."""

    @cache
    def unbroken(kind):
        directory = tmp_path_factory.mktemp("unbroken") / kind
        result = launch(kind, directory)
        assert (result.returncode, result.stderr) == (0, "")
        return directory

    return unbroken


@pytest.mark.parametrize("kind", at_once(KINDS, "ddp"))
def test_killed_ranks_start_again(kind, launch, unbroken, tmp_path):
    events = "kill:1:5,kill-saving:0:6"
    run = tmp_path / "run"
    result = launch(kind, run, events=events, options=("--max-restarts", 3))
    assert result.returncode == 0, result.stderr
    resumed = re.findall(r"resuming from .*, step (\d+)\n", result.stdout)
    assert resumed == ["3", "5"]
    training.check_same_run(unbroken(kind), run)


@pytest.mark.proof
@pytest.mark.share
@pytest.mark.parametrize("kind", KINDS)
def test_a_rank_that_hangs_ends_the_run(kind, launch, tmp_path):
    result = launch(kind, tmp_path / "run", "--timeout", 5, events="hang:1:4")
    assert result.returncode == 1
    assert "This was rank 0 of 2.\n" in result.stderr


@pytest.mark.proof
@pytest.mark.share
@pytest.mark.parametrize("kind", KINDS)
def test_a_refusal_of_all_ranks_is_one_line(kind, launch, tmp_path):
    result = launch(kind, tmp_path / "run", "--batch-size", 1)
    assert result.returncode == 1
    assert errors(result.stderr) == [
        "error: --batch-size 1 is less than an image for each of 2 processes: pass 2 or more"
    ]
    assert not (tmp_path / "run").exists()


@pytest.mark.proof
@pytest.mark.parametrize("kind", ["none", "dp"])
def test_a_project_of_one_process_refuses_two(kind, launch, tmp_path):
    result = launch(kind, tmp_path / "run")
    assert result.returncode == 1
    lines = set(errors(result.stderr))
    # The second process may meet the lock of the first.
    (line,) = (line for line in lines if "another process is training in" not in line)
    assert line.startswith("error: torchrun has started 2 processes that would all do")
    assert line.endswith(": run python train.py, or torch-tricks add parallel=ddp")
    assert not (tmp_path / "run").exists()


@pytest.mark.proof
def test_a_project_of_one_process_runs_as_one_under_torchrun(launch, tmp_path):
    result = launch("none", tmp_path / "run", processes=1)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.proof
def test_a_mistake_in_the_code_is_shown_with_the_rank(launch, tmp_path):
    result = launch("fsdp", tmp_path / "run", events="fail:1:4")
    assert result.returncode == 1
    assert errors(result.stderr) == []
    assert "ZeroDivisionError: a mistake\n" in result.stderr
    assert "This was rank 1 of 2.\n" in result.stderr


def errors(text):
    return [line for line in text.splitlines() if line.startswith("error: ")]


@pytest.mark.proof
@pytest.mark.share
@pytest.mark.parametrize(
    ("kind", "event", "name"),
    [("ddp", "terminate", "SIGTERM"), ("fsdp", "interrupt", "SIGINT")],
)
def test_a_signal_to_torchrun_stops_all_ranks(
    kind, event, name, launch, unbroken, tmp_path
):
    run = tmp_path / "run"
    stopped = launch(kind, run, events=f"{event}:1:7")
    assert stopped.returncode != 0
    (step,) = re.findall(
        rf"stopped by {name} after step (\d+): to continue", stopped.stderr
    )
    assert errors(stopped.stderr) == []
    (newest,) = [
        path for path in (run / "checkpoints").iterdir() if f"{step:0>8}" in path.name
    ]
    assert newest == max((run / "checkpoints").iterdir())
    resumed = launch(kind, run)
    assert (resumed.returncode, resumed.stderr) == (0, "")
    assert f"resuming from {newest}, step {step}\n" in resumed.stdout
    training.check_same_run(unbroken(kind), run)


@pytest.fixture
def begin(projects, folder, tmp_path):
    """Starts a long run with data loading processes, and waits until all are there."""
    with ExitStack() as stack:

        def begin(kind, **variables):
            launcher = ["-m", "torch.distributed.run", "--standalone"]
            command = [sys.executable, *(launcher if kind in KINDS else [])]
            flags = ("--epochs", 10**6, "--num-workers", 2, "--keep-checkpoints", 3)
            paths = ("--data-dir", folder, "--run-dir", tmp_path)
            run = subprocess.Popen(
                [*command, "train.py", *map(str, (*FLAGS, *flags, *paths))],
                cwd=projects[kind],
                encoding="utf-8",
                env=os.environ | {"OMP_NUM_THREADS": "1"} | variables,
                stderr=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
            )
            stack.callback(run.wait)
            stack.callback(run.kill)
            # After two epochs, for the first evaluation starts processes too.
            slurm.wait_until(
                lambda: newest_checkpoint(tmp_path) >= "step-00000006", 120
            )
            return run

        yield begin


def newest_checkpoint(run):
    return max((path.name for path in run.glob("checkpoints/step-*")), default="")


def family(process):
    """Returns a process and all that come from it, children first."""
    paths = Path(f"/proc/{process}/task").glob("*/children")
    children = [int(child) for path in paths for child in path.read_text().split()]
    return [member for child in children for member in family(child)] + [process]


@pytest.mark.proof
@pytest.mark.share
@pytest.mark.parametrize("kind", ["none", *KINDS])
def test_a_signal_to_all_processes_loses_no_step(kind, begin, tmp_path):
    """As systemd sends it, and Slurm: data loading processes and torchrun get it too."""
    run = begin(kind)
    processes = family(run.pid)
    assert len(processes) >= (3 if kind == "none" else 4)
    for process in processes:
        os.kill(process, signal.SIGTERM)
    _, said = run.communicate(timeout=120)
    assert "to continue" in said, said
    (step,) = re.findall(r"stopped by SIGTERM after step (\d+): to continue", said)
    assert f"step-{step:0>8}" in max((tmp_path / "checkpoints").iterdir()).name
    if kind == "none":
        assert (run.returncode, said.count("\n")) == (143, 1)


@pytest.mark.proof
@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_data_loading_processes_end_with_the_run(begin, tmp_path_factory, method):
    """Also with forkserver, which is the default from Python 3.14 on."""
    place = tmp_path_factory.mktemp("start")
    text = f"import multiprocessing\nmultiprocessing.set_start_method({method!r})\n"
    (place / "sitecustomize.py").write_text(text)
    run = begin("none", PYTHONPATH=str(place))
    *loading, _ = family(run.pid)
    run.kill()
    for process in loading:
        slurm.wait_until(lambda process=process: not is_alive(process), 30)


def is_alive(process):
    try:
        return " Z " not in Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.proof
def test_a_machine_dies_and_comes_back(projects, folder, unbroken, tmp_path):
    """The other one keeps the rendezvous, which would die with its own machine."""
    run = tmp_path / "run"
    with two_machines() as machines, ExitStack() as stack:
        endpoint = f"{machines[0].address}:{free_port()}"

        def start(number, events):
            machine = machines[number]
            command = machine.command(
                *(sys.executable, "-m", "torch.distributed.run", "--nnodes", 2),
                *("--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint),
                *("--rdzv-id", "test", "--local-addr", machine.address),
                *("--rdzv-conf", f"is_host={number == 0},{SOON_DEAD}"),
                *("--max-restarts", 3, ranks.SCRIPT, events),
                *(*FLAGS, "--data-dir", folder, "--run-dir", run),
            )
            own = {
                "OMP_NUM_THREADS": "1",
                "GLOO_SOCKET_IFNAME": machine.interface,
                "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
            }
            agent = subprocess.Popen(
                command,
                cwd=projects["ddp"],
                env=os.environ | own,
                stdout=stack.enter_context((tmp_path / f"{number}-{events}").open("w")),
                stderr=subprocess.STDOUT,
            )
            # Its ranks die with it.
            stack.callback(agent.wait)
            stack.callback(agent.kill)
            return agent

        staying, dying = start(0, "none"), start(1, "kill-machine::5")
        assert dying.wait(120) == -signal.SIGKILL
        returned = start(1, "none")
        assert (returned.wait(120), staying.wait(120)) == (0, 0)
    training.check_same_run(unbroken("ddp"), run)
    if machines[0].namespace is None:
        pytest.skip("on loopback only: network namespaces cannot be made here")


SLURM = {
    "scontrol": """
        case $1 in
        show) printf 'localhost\\nanother\\n' ;;
        requeue) echo "$2" >>requeued ;;
        esac
    """,
    "scancel": """
        test "$*" = "--signal=TERM $SLURM_JOB_ID"
        for agent in $(cat agents); do
            pkill -TERM --parent "$agent" || true
            kill -TERM "$agent"
        done
    """,
    "srun": """
        test "$1 $2" = "--cpus-per-task $SLURM_CPUS_PER_TASK"
        export JOB_SCRIPT=$PPID
        arguments=()
        for argument in "${@:3}"; do
            test "$argument" != train.py || arguments+=("$RANKS" "$EVENTS")
            test "$argument" = train.py || arguments+=("$argument")
        done
        "${arguments[@]}" & first=$!
        "${arguments[@]}" & second=$!
        echo $first $second >agents
        status=0
        wait $first || status=$?
        wait $second || status=$?
        exit $status
    """,
}
"""Stand-ins for the commands that slurm.sh calls. Both of its two machines are this one."""


@pytest.mark.proof
def test_slurm_script_goes_on_when_its_time_was_up(
    projects, folder, unbroken, tmp_path
):
    for name, script in SLURM.items():
        (tmp_path / name).write_text(f"#!/bin/bash\nset -e\n{script}")
        (tmp_path / name).chmod(0o755)
    job = next(job for job in range(7000, 8000) if is_free(29500 + job % 1000))
    project = shutil.copytree(projects["ddp"], tmp_path / "project")

    def start(events):
        own = {
            "EVENTS": events,
            "OMP_NUM_THREADS": "1",
            "PATH": f"{tmp_path}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "RANKS": ranks.SCRIPT,
            "SLURM_CPUS_PER_TASK": "1",
            "SLURM_GPUS_ON_NODE": "1",
            "SLURM_JOB_ID": str(job),
            "SLURM_JOB_NAME": "first",
            "SLURM_JOB_NODELIST": "localhost,another",
            "SLURM_JOB_NUM_NODES": "2",
        }
        flags = (*FLAGS, "--data-dir", folder)
        return call_any("bash", "slurm.sh", *flags, cwd=project, **own)

    stopped = start("run-out-of-time:0:7")
    assert stopped.returncode == 0, stopped.stderr
    assert (project / "requeued").read_text() == f"{job}\n"
    (step,) = re.findall(
        r"stopped by SIGTERM after step (\d+): to continue", stopped.stderr
    )
    finished = start("none")
    assert finished.returncode == 0, finished.stderr
    assert re.search(rf"resuming from .*, step {step}\n", finished.stdout)
    training.check_same_run(unbroken("ddp"), project / "runs" / "first")


@pytest.mark.proof
@pytest.mark.skipif(not slurm.can_run(), reason=slurm.NEEDS)
def test_slurm_requeues_a_job_whose_time_is_up(projects, folder, tmp_path):
    project = shutil.copytree(projects["ddp"], tmp_path / "project")
    (tmp_path / "slurm").mkdir()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    flags = (*FLAGS, "--data-dir", folder, "--epochs", 10**6, "--keep-checkpoints", 1)
    one_machine = ("--nodes=1", "--gpus-per-node=2", "--cpus-per-task=2")
    with slurm.cluster(tmp_path / "slurm") as cluster:
        cluster |= {"OMP_NUM_THREADS": "1", "PATH": path}

        def call(*command):
            return slurm.call(cluster, *command, cwd=project)

        def submit():
            return call(
                "sbatch", "--parsable", *one_machine, "slurm.sh", *flags
            ).strip()

        first, second = submit(), submit()
        log = project / f"leaf_diseases-{first}.log"
        checkpoints = project / "runs" / "leaf_diseases" / "checkpoints"
        slurm.wait_until(lambda: list(checkpoints.glob("*.pt")), 120)
        assert "Dependency=singleton" in call("scontrol", "show", "job", second)
        # Now less is left than the three minutes before which Slurm gives a signal.
        call("scontrol", "update", f"JobId={first}", "TimeLimit=3")
        slurm.wait_until(
            lambda: "Restarts=1" in call("scontrol", "show", "job", first), 120
        )
        # Slurm itself waits two minutes: what the first start was allowed is taken back.
        time.sleep(5)
        call("scontrol", "update", f"JobId={first}", "StartTime=now", "TimeLimit=60")
        slurm.wait_until(lambda: "resuming from" in log.read_text(), 120)
        said = log.read_text()
        (step,) = re.findall(r"stopped by SIGTERM after step (\d+): to continue", said)
        assert re.search(rf"resuming from .*, step {step}\n", said)
        assert not list(project.glob(f"*-{second}.log"))


@pytest.mark.proof
def test_sharded_checkpoints_continue_on_more_ranks(launch, tmp_path):
    """Checkpoints of 2 ranks go to 4. A project's own tests cover 1 and 2 ranks."""
    whole, moved = tmp_path / "whole", tmp_path / "moved"
    flags = (*WITHOUT_CHANCE, "--batch-size", 8, "--checkpoint-every", 3)

    def train(run, processes, *more):
        result = launch(
            *("fsdp", run, *flags, *more), events="comparable", processes=processes
        )
        assert (result.returncode, result.stderr) == (0, "")

    train(whole, 2)
    train(moved, 4, "--resume", whole / "checkpoints/step-00000003")
    training.check_close_runs(whole, moved)


@pytest.mark.proof
def test_checkpoints_move_between_projects(launch, zygote, projects, folder, tmp_path):
    """Checkpoints of none, dp and ddp. The batch size divides the images: dp drops a smaller batch."""
    whole = tmp_path / "whole"
    flags = (*WITHOUT_CHANCE, "--batch-size", 11, "--accumulation-steps", 1)
    flags += ("--checkpoint-every", 1, "--keep-checkpoints", 99)

    def alone(kind, run, *part):
        settings = (*FLAGS, *flags, "--data-dir", folder, "--run-dir", run)
        return zygote.run(projects[kind], ranks.SCRIPT, "comparable", *settings, *part)

    def after(run, step):
        return ("--resume", run / f"checkpoints/step-{step:08d}.pt")

    runs = [tmp_path / name for name in ("one", "two", "three", "four")]
    one, two, three, four = runs
    results = [
        launch("ddp", whole, *flags, events="comparable"),
        alone("none", one),
        launch("ddp", two, *flags, *after(one, 1), events="comparable"),
        alone("dp", three, *after(two, 3)),
        launch("ddp", four, *flags, *after(three, 5), events="comparable"),
    ]
    for result in results:
        assert (result.returncode, result.stderr) == (0, "")
    training.check_close_runs(whole, four)
