"""Rendering everything beside rendering an empty template, as whole processes."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from measure import ROOT, Row, copy_command, interleave

BOUND, EMPTY = 7, 0.29
"""Milliseconds for each file above the empty template, whatever their number, on a machine on
which the empty template takes so many seconds. A slower one gets more."""

MEMORY = Path("/dev/shm")
"""Where projects are written if it is there: what a disk takes is no matter of the template."""


def measure_rendering() -> Iterator[Row]:
    """Both templates are cloned from a release in git, as those that people copy are."""
    where = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="bench-rendering-", dir=where) as directory:
        template, empty = Path(directory, "template"), Path(directory, "empty")
        template.mkdir()
        shutil.copy(ROOT / "copier.yml", template)
        shutil.copytree(ROOT / "template", template / "template")
        empty.mkdir()
        (empty / "copier.yml").touch()
        for path in (template, empty):
            release(path)

        destination = Path(directory, "project")

        def render(template: Path, *options: str) -> None:
            shutil.rmtree(destination, ignore_errors=True)
            source = f"git+{template.as_uri()}"
            subprocess.run(copy_command(source, destination, *options), check=True)

        def render_everything() -> None:
            render(template, "--data=project_name=Bench", "--data=preset=everything")

        def render_empty() -> None:
            render(empty)

        render_everything()
        files = sum(path.is_file() for path in destination.rglob("*"))
        (times,) = interleave([(render_everything, render_empty)], repetitions=15)
        yield Row(
            "copier copy, everything / an empty template",
            f"{times.ours:.2f} s",
            f"{times.reference:.2f} s",
            f"{times.ratio:.2f}",
            f"{times.cpu_ratio:.2f}",
        )
        per_file = times.difference / files * 1e3
        allowed = BOUND * times.reference / EMPTY
        yield Row(
            f"copier copy, a file of the {files} / the bound here",
            f"{per_file:.1f} ms",
            f"{allowed:.1f} ms",
            f"{per_file / allowed:.2f}",
            bound=f"<= 1, {BOUND} ms where empty takes {EMPTY} s",
            holds=per_file <= allowed,
        )


def release(template: Path) -> None:
    """Makes a directory a git repository with one tagged version."""
    identity = ["-c", "user.name=Bench", "-c", "user.email=bench@example.com"]
    for command in (["init"], ["add", "."], ["commit", "-m", "One"], ["tag", "v1.0.0"]):
        subprocess.run(
            ["git", *identity, *command], cwd=template, check=True, capture_output=True
        )
