"""Writer for large .npz files: https://numpy.org/doc/stable/reference/routines.io.html."""

import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from ..errors import UserError
from ..files import write_atomically

Header = dict[str, Any]
"""Header of a .npy file: `descr`, the type; `fortran_order`; and `shape`."""


def write_npz(
    path: Path, batches: Iterable[Mapping[str, np.ndarray]]
) -> dict[str, tuple[int, ...]]:
    """Writes arrays batch by batch, with one batch in memory at a time.

    A .npz file is a ZIP file of .npy files, whose headers hold the number of rows.
    Until the last batch, the rows are in unnamed temporary files beside `path`.

    Returns:
        The shape of each array. Without batches, no file is written.
    """
    rows: dict[str, IO[bytes]] = {}
    headers: dict[str, Header] = {}
    with ExitStack() as stack:
        for batch in batches:
            for name, array in batch.items():
                if name not in rows:
                    rows[name] = stack.enter_context(open_beside(path))
                    descr = npy.dtype_to_descr(array.dtype)
                    shape = (0, *array.shape[1:])
                    headers[name] = {"descr": descr, "shape": shape}
                array.tofile(rows[name])
                count, *rest = headers[name]["shape"]
                headers[name]["shape"] = (count + len(array), *rest)
        if headers:
            write_atomically(path, partial(write_members, rows, headers))
    return {name: header["shape"] for name, header in headers.items()}


def open_beside(path: Path) -> IO[bytes]:
    """Opens an unnamed temporary file in the directory of another file."""
    try:
        return tempfile.TemporaryFile(dir=path.parent)
    except OSError as error:
        raise UserError(
            f"cannot write {path}: name a file in another directory ({error})"
        ) from error


def write_members(
    rows: Mapping[str, IO[bytes]], headers: Mapping[str, Header], file: BinaryIO
) -> None:
    """Writes a .npz file from temporary files of rows."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, header in headers.items():
            rows[name].seek(0)
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                npy.write_array_header_1_0(member, header | {"fortran_order": False})
                shutil.copyfileobj(rows[name], member)
