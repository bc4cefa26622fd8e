"""Rendering everything against rendering an empty template, as whole processes."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from measure import ROOT, Row, copy_command, interleave

BOUND = 1.6


def measure_rendering() -> Iterator[Row]:
    """Neither template is in git: asking it for versions would cost both the same."""
    with tempfile.TemporaryDirectory(prefix="bench-rendering-") as directory:
        template, empty = Path(directory, "template"), Path(directory, "empty")
        template.mkdir()
        shutil.copy(ROOT / "copier.yml", template)
        shutil.copytree(ROOT / "template", template / "template")
        empty.mkdir()
        (empty / "copier.yml").touch()

        def render(template: Path, *options: str) -> None:
            destination = Path(directory, "project")
            shutil.rmtree(destination, ignore_errors=True)
            subprocess.run(copy_command(template, destination, *options), check=True)

        def render_everything() -> None:
            render(template, "--data=project_name=Bench", "--data=preset=everything")

        def render_empty() -> None:
            render(empty)

        times = interleave(render_everything, render_empty, repetitions=15)
        yield Row(
            "copier copy, everything / an empty template",
            f"{times.ours:.2f} s",
            f"{times.reference:.2f} s",
            f"{times.ratio:.2f}",
            f"{times.cpu_ratio:.2f}",
            f"<= {BOUND}",
            times.ratio <= BOUND,
        )
