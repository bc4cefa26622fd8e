"""Runs the benchmarks and prints one table; exits with 1 if a bound is missed."""

import argparse
import importlib
import platform
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch
from hdf5 import measure_hdf5
from images import measure_images
from listing import measure_listing
from loop import measure_loops
from measure import Row
from rendering import measure_rendering
from scaling import measure_scaling
from startup import measure_startup
from tricks import measure_tricks


def measure_others(name: str) -> Iterator[Row]:
    """Compares with what the extra `bench` installs, if that is there."""
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        install = f"{sys.executable} -m pip install --editable '.[bench]'"
        yield Row(f"{name}: left out, there is no {error.name}: {install}")
    else:
        yield from getattr(module, f"measure_{name}")()


PARTS: dict[str, Callable[[], Iterator[Row]]] = {
    "loop": measure_loops,
    "frameworks": partial(measure_others, "frameworks"),
    "hdf5": measure_hdf5,
    "images": measure_images,
    "listing": measure_listing,
    "recipes": partial(measure_others, "recipes"),
    "rendering": measure_rendering,
    "scaling": measure_scaling,
    "startup": measure_startup,
    "tricks": measure_tricks,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=PARTS, metavar="|".join(PARTS))
    only = parser.parse_args().only
    layout = "{:<50} {:>11} {:>11} {:>7} {:>7}  {}"
    print(layout.format("", "ours", "reference", "ratio", "cpu", "bound"))
    missed = 0
    for name, measure in PARTS.items():
        if only not in (None, name):
            continue
        for row in measure():
            verdict = row.bound if row.holds else f"{row.bound}  MISSED"
            print(
                layout.format(*row[:5], verdict if row.bound else ""),
                flush=True,
            )
            missed += not row.holds
    print(describe_machine())
    sys.exit(1 if missed else 0)


def describe_machine() -> str:
    """Returns one line on the hardware and the versions."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = info.read_text(encoding="utf-8").splitlines()
        names = [line.partition(": ")[2] for line in lines if "model name" in line]
        cpu = f"{names[0]}, {len(names)} cores" if names else cpu
    if torch.cuda.is_available():
        cpu = f"{torch.cuda.get_device_name()}, {cpu}"
    return (
        f"{cpu}, {torch.get_num_threads()} thread used, "
        f"Python {platform.python_version()}, torch {torch.__version__}"
    )


if __name__ == "__main__":
    main()
