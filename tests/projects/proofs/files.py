"""Files that are written whole or not at all."""

import errno
import os
import stat
from contextlib import nullcontext
from pathlib import Path
from unittest import mock

import pytest
from leaf_diseases.errors import UserError
from leaf_diseases.files import write_atomically


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EIO])
def test_not_all_file_systems_flush_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def flush(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(number, "no flush")

    monkeypatch.setattr(os, "fsync", flush)
    lost = pytest.raises(UserError, match="cannot write .*no flush")
    with nullcontext() if number == errno.EINVAL else lost:
        write_atomically(tmp_path / "model.pt", lambda file: file.write(b"new"))
    assert (tmp_path / "model.pt").read_bytes() == b"new"


def test_failure_of_something_else_is_not_that_of_a_file(tmp_path: Path) -> None:
    # When a data loading process dies, torch raises this wherever the program is.
    killed = mock.Mock(side_effect=RuntimeError("DataLoader worker (pid 1) is killed"))
    with pytest.raises(RuntimeError, match="DataLoader worker"):
        write_atomically(tmp_path / "model.pt", killed)
