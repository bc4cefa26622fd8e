"""Files that are never half-written."""

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from .errors import UserError


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Writes a file so that `path` is the old file or the whole new one.

    The file is written aside, flushed to disk and renamed; then so is the directory.

    Args:
        write: writes the content into an open file, which it may read again.

    Raises:
        UserError: it cannot be written, or not flushed.
    """
    aside = path.with_name(f"{path.name}.tmp")
    try:
        with aside.open("w+b") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
        flush_directory(path.parent)
    except (OSError, RuntimeError) as error:
        # torch.save() ends with a RuntimeError after what was wrong with the file.
        cause = error.__context__ if isinstance(error, RuntimeError) else error
        if not isinstance(cause, OSError):
            raise
        raise UserError(f"cannot write {path}, is the disk full? ({cause})") from error
    finally:
        with suppress(OSError):  # Nothing is left aside after a success.
            aside.unlink()


def append_line(path: Path, line: str) -> None:
    """Appends a line to a file, which may be a new one.

    It is not flushed to disk: a power cut may take the last lines.

    Raises:
        UserError: it cannot be written; the file stays as it was.
    """
    size: int | None = None
    try:
        with path.open("ab") as file:
            size = file.tell()
            file.write(f"{line}\n".encode())
    except OSError as error:
        if size is not None:
            with suppress(OSError):
                os.truncate(path, size)
        raise UserError(f"cannot write {path}, is the disk full? ({error})") from error


def flush_directory(path: Path) -> None:
    """Flushes the names of the files in a directory to disk, where that can be done."""
    if os.name != "posix":  # Elsewhere a directory cannot be opened.
        return
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    except OSError as error:
        # Some file systems over a network flush no directories.
        if error.errno not in (errno.EBADF, errno.EINVAL):
            raise
    finally:
        os.close(directory)
