"""HDF5 files give what their source gives, in any number and kind of processes."""

import os
import subprocess
import sys
from pathlib import Path

import training
from rendering import render


def test_files_equal_their_source(tmp_path, folder, zygote):
    project = render(tmp_path / "project", {"preset": "everything"})
    directories = []
    for shards in (1, 4):
        directories.append(tmp_path / f"{shards}")
        result = zygote.run(
            *(project, "convert.py", directories[-1], "--data", "folder"),
            *("--data-dir", folder, "--image-size", training.IMAGE_SIZE),
            *("--shards", shards),
        )
        assert result.returncode == 0, result.stderr
    script = Path(__file__).with_name("hdf5_order.py")
    arguments = [script, folder, training.IMAGE_SIZE, *directories]
    result = subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        check=False,
        encoding="utf-8",
        env=os.environ | {"PYTHONPATH": str(project)},
    )
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) == 3 + 4
