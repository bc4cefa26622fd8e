"""Statements about torch: several processes and torchrun."""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import torch

from claimed.claim import claim, folder, printed, python


def torchrun(script: Path, processes: int) -> list[str]:
    """Runs a script under torchrun, and returns the words of its output."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*command, f"--nproc-per-node={processes}", script],
        capture_output=True,
        text=True,
        env={k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"},
        check=True,
    )
    return done.stdout.split()


@claim(
    "torch",
    "docs/several-processes.md",
    "torchrun sets `OMP_NUM_THREADS=1` unless you set it.",
)
def _() -> object:
    with folder() as place:
        (place / "a.py").write_text("import os; print(os.environ['OMP_NUM_THREADS'])")
        seen = torchrun(place / "a.py", processes=2)
    assert seen == ["1", "1"], seen
    return seen


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


ALONE = """
    import torch, torch.distributed as dist
    from torch import nn
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
"""


def alone(code: str) -> str:
    """Runs code in a process group of one process, and returns its output."""
    return printed(textwrap.dedent(ALONE) + textwrap.dedent(code))


@claim(
    "torch",
    "docs/tricks/freeze.md",
    "Freeze before wrapping: `DistributedDataParallel` waits for the gradients of all weights that "
    "were trained when it was made.",
)
def _() -> object:
    seen = alone("""
        model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        wrapped = nn.parallel.DistributedDataParallel(model)
        model[0].requires_grad_(False)
        try:
            for _ in range(2):
                wrapped(torch.ones(1, 2)).sum().backward()
        except RuntimeError as error:
            print(str(error)[:80])
    """)
    assert "finished reduction" in seen, seen
    return seen


@claim(
    "torch",
    "docs/tricks/grad_clipping.md",
    "With FSDP2, `clip_grad_norm_` returns a DTensor.",
)
@claim(
    "torch",
    "docs/tricks/fused_optimizer.md",
    "With `fsdp`, SGD stays plain, because torch (2.7 to 2.15) has no fused SGD for split weights.",
)
@claim(
    "torch",
    "template/**/optimizer.py.jinja",
    "torch has no fused SGD for sharded weights.",
)
def _() -> object:
    norm, *error = alone("""
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        model = fully_shard(nn.Linear(2, 2), mesh=init_device_mesh("cpu", (1,)))
        model(torch.ones(1, 2)).sum().backward()
        print(type(nn.utils.clip_grad_norm_(model.parameters(), 1.0)).__name__)
        torch.optim.AdamW(model.parameters(), fused=True).step()
        try:
            torch.optim.SGD(model.parameters(), lr=1.0, fused=True).step()
        except Exception as error:
            print(type(error).__name__, str(error).splitlines()[0][:80])
    """).splitlines()
    assert norm == "DTensor" and error, (norm, error)
    return f"{norm}; {error[0]}"


@claim(
    "torch",
    "docs/tricks/channels_last.md",
    "FSDP2 refuses these weights (torch 2.7 to 2.15), so this trick is not for `fsdp`.",
)
def _() -> object:
    seen = alone("""
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        model = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
        try:
            fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
            model(torch.zeros(1, 3, 8, 8))
        except Exception as error:
            print(type(error).__name__, str(error)[:80])
    """)
    assert seen
    return seen


@claim(
    "torch",
    "docs/tricks/parallel.md",
    "Do not use `torch.inference_mode()`: its buffers cannot be trained with.",
)
def _() -> object:
    seen = alone("""
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        model = fully_shard(nn.Linear(2, 2), mesh=init_device_mesh("cpu", (1,)))
        try:
            with torch.inference_mode():
                model(torch.ones(1, 2))
            model(torch.ones(1, 2)).sum().backward()
        except RuntimeError as error:
            print(str(error)[:90])
    """)
    assert "nference" in seen, seen
    return seen


@claim(
    "torch",
    "docs/tricks/parallel.md",
    "`DistributedDataParallel` averages gradients over the ranks.",
)
@claim(
    "torch",
    "docs/tricks/parallel.md",
    "`DistributedSampler` pads the validation images, so some count twice.",
)
@claim(
    "torch",
    "docs/tricks/class_balance.md",
    "`WeightedRandomSampler` ignores ranks and resumed runs, and draws from the global generator.",
)
def _() -> object:
    from torch.utils.data import DistributedSampler, WeightedRandomSampler

    shares = [
        list(DistributedSampler(range(5), 2, rank, shuffle=False)) for rank in (0, 1)
    ]
    assert shares == [[0, 2, 4], [1, 3, 0]], shares
    before = torch.get_rng_state()
    list(WeightedRandomSampler([1.0, 2.0], 5))
    assert not torch.equal(before, torch.get_rng_state())
    with folder() as place:
        (place / "a.py").write_text(
            textwrap.dedent("""
                import torch, torch.distributed as dist
                dist.init_process_group("gloo")
                layer = torch.nn.Linear(1, 1, bias=False)
                model = torch.nn.parallel.DistributedDataParallel(layer)
                model(torch.full((1, 1), float(dist.get_rank()))).sum().backward()
                print(layer.weight.grad.item())
            """)
        )
        seen = torchrun(place / "a.py", processes=2)
    assert seen == ["0.5", "0.5"], seen
    return f"inputs 0 and 1 give the gradients {seen}; the shares of five are {shares}"


@claim(
    "torch",
    "docs/resuming.md",
    "torchrun sends SIGINT, SIGTERM and SIGHUP to all processes.",
)
def _() -> object:
    seen = []
    with folder() as place:
        (place / "a.py").write_text(
            textwrap.dedent(f"""
                import os, pathlib, signal, time
                def note(number, frame):
                    name = signal.Signals(number).name + os.environ["RANK"]
                    (pathlib.Path({str(place)!r}) / name).touch()
                    raise SystemExit
                for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                    signal.signal(number, note)
                print("up", flush=True)
                time.sleep(60)
            """)
        )
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
            with subprocess.Popen(
                [*command, "--nproc-per-node=2", place / "a.py"],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            ) as process:
                assert process.stdout.readline() and process.stdout.readline()
                process.send_signal(number)
                process.wait(60)
            seen += [p.name for p in place.glob(f"{number.name}*")]
            assert len(list(place.glob(f"{number.name}*"))) == 2, (number, seen)
    return sorted(seen)


@claim(
    "torch",
    "docs/several-processes.md",
    "With `ddp` on a CPU, this variable crashes torch 2.15 itself, also in a script that only wraps a "
    "layer.",
)
def _() -> object:
    done = python(
        textwrap.dedent(ALONE)
        + "model = nn.parallel.DistributedDataParallel(nn.Linear(1, 1))\n"
        + "model(torch.ones(1, 1)).sum().backward()\n",
        TORCH_DISTRIBUTED_DEBUG="DETAIL",
    )
    assert done.returncode not in (0, 1), (done.returncode, done.stderr[-300:])
    return f"exit code {done.returncode}"


@claim(
    "torch",
    "docs/guides/memory.md",
    "`DataLoader worker ... is killed by signal: Killed` means that the machine's memory was full, "
    "not the GPU's.",
)
def _() -> object:
    done = python("""
        import os, signal
        from torch.utils.data import DataLoader
        class Images:
            def __len__(self):
                return 4
            def __getitem__(self, index):
                os.kill(os.getpid(), signal.SIGKILL)
        list(DataLoader(Images(), num_workers=1))
    """)
    assert "is killed by signal: Killed" in done.stderr, done.stderr[-300:]
    return done.stderr.strip().splitlines()[-1][:100]


@claim(
    "torch",
    "docs/several-processes.md",
    "If a process fails or is killed, torchrun ends the others and restarts all, up to three times.",
)
@claim(
    "torch",
    "docs/guides/several-gpus.md",
    "Write the output of each rank to a file: `torchrun --log-dir logs --redirects 3 ...`.",
)
def _() -> object:
    with folder() as place:
        (place / "a.py").write_text(
            textwrap.dedent("""
                import os, signal, time
                attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
                print("attempt", attempt, flush=True)
                if os.environ["RANK"] == "1":
                    os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(60)
            """)
        )
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        options = ["--nproc-per-node=2", "--max-restarts=3", "--log-dir", place]
        done = subprocess.run(
            [*command, *options, "--redirects", "3", place / "a.py"],
            capture_output=True,
            timeout=120,
            check=False,
        )
        logs = [path.read_text().strip() for path in place.rglob("0/stdout.log")]
    attempts = [f"attempt {number}" for number in range(4)]
    assert done.returncode and sorted(logs) == attempts, logs
    return sorted(logs)


@claim(
    "torch",
    "docs/tricks/seeding.md",
    "Another machine, version of torch or number of threads sums in another order.",
)
def _() -> object:
    seen = printed("""
        import torch
        x = torch.randn(10_000_001, generator=torch.Generator().manual_seed(0))
        for threads in (1, 2):
            torch.set_num_threads(threads)
            print(x.sum().item())
    """).split()
    assert seen[0] != seen[1]
    return f"{seen[0]} with one thread, {seen[1]} with two"
