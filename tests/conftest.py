"""Warm processes, tiny data, and the table of where the proof's time goes.

A machine with a GPU may have no more than a project needs: what needs more is imported
where it is used.
"""

import os
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from zygote import Zygote

if TYPE_CHECKING:
    from updating import Workshop

Phase = Callable[[str], AbstractContextManager[None]]


MEMORY = Path("/dev/shm")


def pytest_configure() -> None:
    """Keeps files in memory if there is room: thousands of saves wait for the disk."""
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 8 * 2**30:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


@pytest.hookimpl(optionalhook=True, wrapper=True)
def pytest_xdist_auto_num_workers() -> Iterator[None]:
    """One more than there would be: tests that wait for processes leave a CPU idle."""
    return 1 + (yield)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the longest tests first, so that no process is left alone with them."""
    items.sort(key=lambda item: item.get_closest_marker("learns") is None)


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    with Zygote() as zygote:
        yield zygote


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> "Workshop":
    """Several versions of the template, and a maker of projects of them."""
    from updating import Workshop

    return Workshop(tmp_path_factory.mktemp("workshop"))


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image folder for --data folder."""
    import training

    return training.make_image_folder(tmp_path_factory.mktemp("folder"))


@pytest.fixture(scope="session")
def hdf5(
    tmp_path_factory: pytest.TempPathFactory, folder: Path, zygote: Zygote
) -> Path:
    """The image folder as HDF5 files of two shards, made by a project's convert.py."""
    import training
    from rendering import render

    directory = tmp_path_factory.mktemp("hdf5")
    project = render(directory / "project", {"preset": "everything"})
    result = zygote.run(
        *(project, "convert.py", directory / "data", "--data", "folder"),
        *("--data-dir", folder, "--image-size", training.IMAGE_SIZE, "--shards", 2),
    )
    assert result.returncode == 0, result.stderr
    return directory / "data"


@pytest.fixture
def phase(request: pytest.FixtureRequest) -> Phase:
    """Times a part of a test for the table: `with phase("train"): ...`."""

    @contextmanager
    def measure(name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - start
            part = (request.node.originalname, name)
            request.node.user_properties.append(("phase", (*part, seconds)))

    return measure


def pytest_terminal_summary(terminalreporter: "pytest.TerminalReporter") -> None:
    """Prints the seconds of each phase, summed over the tests and all processes."""
    totals: dict[tuple[str, str], list[float]] = defaultdict(list)
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            for key, value in report.user_properties:
                if key == "phase":
                    test, name, seconds = value
                    totals[test, name].append(seconds)
    if totals:
        terminalreporter.section("seconds by phase, summed over all processes")
    for (test, name), seconds in totals.items():
        terminalreporter.write_line(
            f"{test:45} {name:10} {len(seconds):5} x {sum(seconds):8.1f} s"
        )
