"""Sharded checkpoints: directories with a file of parts for each rank.

The parts of rank 0 are in rank-0.pt, and so on. Everything else is in state.pt, with
tensors without data (device `meta`) as placeholders of split tensors.
"""

import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from glob import glob
from hashlib import file_digest
from itertools import count
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from tqdm import tqdm

from .errors import UserError
from .files import (
    DiskFullError,
    cannot_write,
    flush_directory,
    load_safely,
    write_atomically,
)
from .processes.distributed import gather, on_rank_0


def checkpoint_path(directory: Path, step: int) -> Path:
    """Returns the path of the checkpoint of a step."""
    return directory / "checkpoints" / f"step-{step:08d}"


def saved_checkpoints(directory: Path) -> list[Path]:
    """Returns the checkpoints in a run directory, newest first."""
    place = directory / "checkpoints"
    # Unlike Path.glob(), it accepts too long names.
    names = sorted(glob("step-*", root_dir=place), reverse=True)
    return [place / name for name in names if "." not in name]


def save_state(path: Path, state: dict[str, Any], keep: int) -> None:
    """Writes the newest checkpoint, and removes the oldest beyond `keep`.

    Call it on all ranks.
    """
    while True:
        try:
            write_parts(path, state, keep)
            break
        except DiskFullError:  # On any rank, and known to all.
            if not make_room(path):
                raise


def write_parts(path: Path, state: dict[str, Any], keep: int) -> None:
    """Writes a temporary checkpoint with the parts of this rank, and renames it."""
    parts: list[Tensor] = []

    def take_out(tensor: Tensor) -> Tensor:
        if not isinstance(tensor, DTensor):
            return tensor
        parts.append(tensor.to_local())
        return torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")

    state = change_tensors(state, take_out)
    aside = path.with_name(f"{path.name}.tmp")
    make_empty(aside)
    own = aside / f"rank-{dist.get_rank()}.pt"
    written: str | UserError
    try:
        write_atomically(own, partial(torch.save, parts))
        written = digest(own)
    except UserError as error:
        written = error
    digests = gather(written)
    for outcome in digests:
        if isinstance(outcome, UserError):
            raise outcome
    complete(aside, path, {"state": state, "digests": digests}, keep)


def change_tensors(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Replaces the tensors in nested dicts, in their order."""
    if isinstance(value, dict):
        return {name: change_tensors(item, change) for name, item in value.items()}
    return change(value) if isinstance(value, Tensor) else value


@on_rank_0
def make_empty(directory: Path) -> None:
    """Makes a temporary directory, and removes older ones."""
    try:
        for left in directory.parent.glob("*.tmp"):
            shutil.rmtree(left, ignore_errors=True)
        directory.parent.mkdir(exist_ok=True)
        directory.mkdir()
    except OSError as error:
        raise cannot_write(directory, error) from error


@on_rank_0
def complete(aside: Path, path: Path, state: dict[str, Any], keep: int) -> None:
    """Writes the state of rank 0, renames the directory, removes old checkpoints."""
    write_atomically(aside / "state.pt", partial(torch.save, state))
    old = path.with_name(f"{path.name}.old")
    try:
        if path.exists():
            path.replace(old)
        aside.replace(path)
        flush_directory(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error
    remove(old)
    # Later steps are damaged, or from before a resume at an older checkpoint.
    saved = saved_checkpoints(path.parents[1])
    newest = saved.index(path)
    for other in saved[:newest] + saved[newest + keep :]:
        remove(other)


@on_rank_0
def make_room(path: Path) -> bool:
    """Removes a spare checkpoint; returns False if only the last good one is left."""
    saved = saved_checkpoints(path.parents[1])
    older = [other for other in saved if other < path]
    spare = [other for other in saved if other > path] or older[1:]
    if not spare:
        return False
    if older:
        read_state(older[0])  # If it is damaged, the error keeps the spare ones.
    remove(spare[-1])
    tqdm.write(f"the disk is full: removed {spare[-1]}", file=sys.stderr)
    return True


def remove(path: Path) -> None:
    """Removes a checkpoint; no partial checkpoint keeps its name."""
    aside = path.with_name(f"{path.name}.tmp")
    with suppress(OSError):
        path.replace(aside)
        shutil.rmtree(aside)


def digest(path: Path) -> str:
    """Returns the SHA-256 of a file."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def read_state(path: Path) -> Any:
    """Reads a checkpoint without its parts, after checking the digests of all files."""
    if not (path / "state.pt").exists():
        raise UserError(f"there is no checkpoint {path}: pass another")
    try:
        saved = load_safely(path / "state.pt")
        for rank, expected in enumerate(saved["digests"]):
            if digest(path / f"rank-{rank}.pt") != expected:
                raise ValueError(f"the part of rank {rank} has another digest")
        return saved["state"] | {"parts": len(saved["digests"])}
    except Exception as error:  # A damaged file may raise anything.
        raise UserError(f"{path} is damaged: resume from an older one") from error


def with_parts(path: Path, state: dict[str, Any], device: torch.device) -> Any:
    """Returns a state with all tensors, split among the ranks.

    The files of all ranks are memory-mapped: one weight at a time is in memory.
    """
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    numbers = count()

    def put_back(tensor: Tensor) -> Tensor:
        if not tensor.is_meta:
            return tensor
        number = next(numbers)
        whole = torch.cat([file[number] for file in files])
        # No source rank, as each rank has read the whole weight.
        return distribute_tensor(whole, mesh, [Shard(0)], src_data_rank=None).clone()

    try:
        files = [
            torch.load(
                path / f"rank-{rank}.pt",
                map_location="cpu",
                mmap=True,
                weights_only=True,
            )
            for rank in range(state["parts"])
        ]
        return change_tensors(state, put_back)
    except Exception as error:  # A damaged file may raise anything.
        raise UserError(f"{path} is damaged: resume from an older one") from error
