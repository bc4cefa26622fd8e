"""Files that end with their SHA-256, so that a damaged one is known.

Most flipped bits would load silently wrong: torch.load() checks no sums of its archive.
"""

import hashlib
from pathlib import Path
from typing import Any, BinaryIO

import torch

from ..errors import UserError
from ..files import load_safely, write_atomically


def save_with_checksum(path: Path, content: Any) -> None:
    """Saves tensors and plain types, whole or not at all."""

    def write(file: BinaryIO) -> None:
        torch.save(content, file)
        size = file.tell()
        file.seek(0)
        file.write(sha256(file, size))  # torch.load() passes over it.

    write_atomically(path, write)


def load_with_checksum(path: Path) -> Any:
    """Loads what was saved, if every byte is as it was written."""
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
    """Returns the digest of the next `size` bytes of a file."""
    digest = hashlib.sha256()
    while size > 0 and (chunk := file.read(min(size, 2**20))):
        digest.update(chunk)
        size -= len(chunk)
    return digest.digest()
