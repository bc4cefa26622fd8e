"""Files that end with a digest of what is before it, so that a damaged one is known."""

import hashlib
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import torch

from ..errors import UserError
from ..files import load_safely, write_atomically


def save_sealed(path: Path, content: Any) -> None:
    """Saves tensors and plain types, whole or not at all.

    Raises:
        UserError: the file cannot be written; an old one stays as it was.
    """
    write_atomically(path, partial(write_with_digest, content))


def write_with_digest(content: Any, file: BinaryIO) -> None:
    """Writes tensors and plain types, then a SHA-256, which torch.load() passes over."""
    torch.save(content, file)
    size = file.tell()
    file.seek(0)
    file.write(sha256(file, size))


def load_sealed(path: Path) -> Any:
    """Loads what was saved, if every byte is as it was written.

    Raises:
        UserError: the file is missing or damaged, or was not saved like this.
    """
    try:
        with path.open("rb") as file:
            whole = sha256(file, path.stat().st_size - 32) == file.read()
    except OSError as error:
        raise UserError(f"there is no checkpoint {path} ({error.strerror})") from error
    if not whole:
        raise UserError(
            f"{path} is damaged, or no checkpoint: resume from an older one"
        )
    return load_safely(path)


def sha256(file: BinaryIO, size: int) -> bytes:
    """Returns the 32 bytes that stand for the next `size` bytes of a file."""
    digest = hashlib.sha256()
    while size > 0 and (chunk := file.read(min(size, 2**20))):
        digest.update(chunk)
        size -= len(chunk)
    return digest.digest()
