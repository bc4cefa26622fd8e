"""HDF5 files give what their source gives, in any number and kind of processes."""

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
    script = str(Path(__file__).with_name("programs") / "hdf5_order.py")
    result = zygote.run(project, script, folder, training.IMAGE_SIZE, *directories)
    assert result.returncode == 0, result.stderr
    assert len([x for x in result.stdout.splitlines() if x.endswith("equal")]) == 7
