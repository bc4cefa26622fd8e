"""Warm processes, tiny data, and the table of where the time of the tests goes.

A machine with a GPU may have no more than a project needs: what needs more is imported
where it is used.
"""

import gc
import hashlib
import os
import secrets
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from zygote import Zygote

if TYPE_CHECKING:
    from updating import Workshop

ROOT = Path(__file__).parents[1]

MEMORY = Path("/dev/shm")

FLOOR = ".venv-floor/bin/python"
"""A Python with the oldest versions, which `make proof` installs."""

SEED, SHARE = "TORCH_TRICKS_SEED", "TORCH_TRICKS_SHARE"
"""The variables of `make proof`: a seed, and a share. A share of 3 runs a third of the
tests that are marked `share`; another seed runs another third."""


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Sets what all processes share: one thread each, and files in memory if there is room.

    Saves and clones wait for the disk. The proof gets a seed, unless it has one.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # A shell that starts the tests in the background ignores it, and so would their runs.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if (ROOT / FLOOR).exists():
        os.environ.setdefault("TORCH_TRICKS_FLOOR_PYTHON", FLOOR)
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 8 * 2**30:
        os.environ.setdefault("TMPDIR", str(MEMORY))
        tempfile.tempdir = None  # Else it stays where it was first asked for.
    # Torch's profiler notes on stderr when it starts, and that it finds no GPU.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    # Where many projects are parsed, looking for garbage took a sixth of the time.
    gc.set_threshold(100_000)
    if config.option.markexpr == "proof" and not os.environ.get(SEED):
        os.environ[SEED] = str(secrets.randbelow(10**6))
    if os.environ.get(SEED):
        config.option.hypothesis_seed = os.environ[SEED]


def share() -> int:
    return int(os.environ.get(SHARE) or 1)


def pytest_report_header(config: pytest.Config) -> str | None:
    if config.option.markexpr == "proof":
        return f"make proof SHARE={share()} SEED={os.environ[SEED]} repeats this"
    return None


def how_to_repeat(node: str) -> str:
    """Returns the command that runs one test again, with the seed that it had."""
    ours = [(name, value) for name, value in os.environ.items() if value]
    given = [
        f"{name}={shlex.quote(value)}"
        for name, value in sorted(ours)
        if name.startswith("TORCH_TRICKS_") and name != SHARE and value != FLOOR
    ]
    return " ".join([*given, ".venv/bin/python -m pytest", shlex.quote(node)])


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Leaves out what is not in the share, and puts the longest tests first.

    So no process is left alone with them. What belongs to the proof is marked as such.
    """
    left_out = outside_of_the_share(items)
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def outside_of_the_share(items: list[pytest.Item]) -> set[pytest.Item]:
    """Takes every Nth of each test that is marked, in an order that looks random.

    So N seeds in a row, such as 1, 2 and 3, take all of them.
    """
    turns = defaultdict(list)
    for item in items:
        if item.get_closest_marker("share"):
            turns[item.path, item.originalname].append(item)
    turn = int(os.environ.get(SEED) or 0) % share()
    return {
        item
        for marked in turns.values()
        for place, item in enumerate(sorted(marked, key=digest))
        if place % share() != turn
    }


def digest(item: pytest.Item) -> str:
    return hashlib.sha256(item.nodeid.encode()).hexdigest()


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    with Zygote() as zygote:
        yield zygote


@pytest.fixture(scope="session")
def floor_python() -> Path:
    return ROOT / os.environ["TORCH_TRICKS_FLOOR_PYTHON"]


@pytest.fixture(scope="session")
def floor_zygote(floor_python: Path) -> Iterator[Zygote]:
    with Zygote(floor_python) as zygote:
        yield zygote


@pytest.fixture(scope="session")
def mypy(worker_id: str) -> tuple[object, ...]:
    """The command that checks types.

    mypy spends most of its time on the dependencies: its cache is kept for the next run.
    """
    return ("-m", "mypy", "--cache-dir", ROOT / "build" / f"mypy-{worker_id}")


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> "Workshop":
    """Several versions of the template, and a maker of projects of them."""
    from updating import Workshop

    return Workshop(tmp_path_factory.mktemp("workshop"))


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image folder for --data folder, clips in it, and digits for --data mnist."""
    import training

    return training.make_folder(tmp_path_factory.mktemp("folder"))


@pytest.fixture(scope="session")
def hdf5(
    tmp_path_factory: pytest.TempPathFactory, folder: Path, zygote: Zygote
) -> Path:
    """The image folder as HDF5 files of two shards, made by a project's convert.py."""
    import training
    from rendering import render

    directory = tmp_path_factory.mktemp("hdf5")
    project = render(directory / "project", {"preset": "everything"})
    for place, source in {"data": "folder", "data/digits": "mnist"}.items():
        zygote.output(
            *(project, "convert.py", directory / place, "--data", source),
            *("--data-dir", folder, "--image-size", training.IMAGE_SIZE, "--shards", 2),
        )
    return directory / "data"


def pytest_terminal_summary(terminalreporter: "pytest.TerminalReporter") -> None:
    """Prints times by file, and below them how to repeat each failure."""
    files: dict[str, float] = defaultdict(float)
    for outcome in ("", "passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            files[report.nodeid.partition("::")[0]] += report.duration
    terminalreporter.section("time by file, summed over all processes")
    for file, seconds in sorted(files.items(), key=lambda item: -item[1]):
        terminalreporter.write_line(f"{file:45} {seconds / 60:8.2f} min")
    failed = [
        *terminalreporter.getreports("failed"),
        *terminalreporter.getreports("error"),
    ]
    if failed:
        terminalreporter.section("how to repeat what failed")
    for report in failed:
        terminalreporter.write_line(how_to_repeat(report.nodeid))


@pytest.fixture
def small_disk(tmp_path):
    """A function that mounts a file system of some bytes, and returns where."""
    place = tmp_path / "small"
    place.mkdir()

    def mount(size: int) -> Path:
        options = ("-t", "tmpfs", "-o", f"size={size}", "tmpfs", place)
        if subprocess.run(["mount", *options], check=False).returncode:
            pytest.skip("only root can mount a file system")
        return place

    yield mount
    subprocess.run(["umount", place], check=False, capture_output=True)
