"""Only one run at a time trains in a run directory."""

import errno
import sys
from pathlib import Path

import pytest
from leaf_diseases.locking import locked


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")
def test_file_system_without_locks_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.lockf", refuse)
    with locked(tmp_path / "run"):
        pass
    line = f"{tmp_path / 'run'} cannot be locked, start no second run in it "
    assert capsys.readouterr().err == f"{line}(No locks available)\n"
