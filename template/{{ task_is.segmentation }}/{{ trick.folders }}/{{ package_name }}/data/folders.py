"""Your own images, with masks of the same names in another directory."""

import os
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import UserError
from ..settings import Settings
from .image_search import describe_left_out, find_image_files, keep_directories
from .mask_files import open_masks
from .own_images import SPLIT_NAMES, FileImages, OwnImages, join, name_splits

IMAGES, MASKS = "images", "masks"
"""Names of the directories of images and masks."""


@dataclass
class Folders(OwnImages):
    """Directories of the splits, or one directory."""

    directory: Path
    splits: dict[str, str]
    notes: list[str]

    def read(self, split: str) -> FileImages:
        directory = self.directory
        if split != "all":
            images = read_pairs(directory / self.splits.get(split, split), directory)
        else:
            places = [directory / name for name in self.splits.values()] or [directory]
            images = join([read_pairs(place, directory) for place in places])
        return replace(images, notes=[*self.notes, *images.notes])


def find_folders(settings: Settings) -> Folders:
    """Finds IMAGES and MASKS in train, val and test, or in the directory itself."""
    directory = settings.data_dir
    if not os.path.exists(directory):
        raise UserError(f"{directory} does not exist: check --data-dir")
    left_out: Counter[str] = Counter()
    names: list[str] = []
    with suppress(OSError):  # Reading the directory raises it again.
        with os.scandir(directory) as entries:
            found = [entry.name for entry in entries if entry.is_dir()]
        names = keep_directories(found, left_out)
    splits = name_splits(names, directory)
    if splits and {IMAGES, MASKS} & {*names}:
        raise UserError(
            f"{directory} has {IMAGES} or {MASKS} beside {', '.join(splits.values())}: put "
            f"{IMAGES} and {MASKS} into each of the splits"
        )
    used = {*splits.values()} or {IMAGES, MASKS}
    left_out.update(f"{name}/" for name in names if name not in used)
    return Folders(directory, splits, describe_left_out(directory, left_out))


def read_pairs(place: Path, directory: Path) -> FileImages:
    """Finds the images of a directory, and the mask of each.

    Args:
        directory: directory of the file with the names of the classes.
    """
    left_out: Counter[str] = Counter()
    try:
        images = by_name(place / IMAGES, left_out)
        masks = by_name(place / MASKS, left_out)
    except OSError as error:
        raise UserError(
            f"cannot read {error.filename}: put images into {place / IMAGES} and masks of "
            f"the same names into {place / MASKS} ({error.strerror})"
        ) from error
    if not images:
        raise UserError(f"{place / IMAGES} holds no images: add some")
    ending = common_ending([*images], masks)
    named = {name: name + ending for name in images}
    if lacking := [name for name in images if named[name] not in masks]:
        there = f" (there are {', '.join([*masks][:3])})" if masks else ""
        refuse(f"images without a mask of their name{there}", lacking)
    if others := masks.keys() - {*named.values()}:
        left_out["masks without an image"] += len(others)
    files = [*images.values()]
    paths = [masks[name] for name in named.values()]
    targets, names = open_masks(files, paths, directory)
    notes = describe_left_out(place, left_out)
    if ending:
        notes.append(f"masks in {place} are named as images, with {ending} at the end")
    return FileImages(files, targets, names, notes=notes)


def common_ending(images: Sequence[str], masks: Collection[str]) -> str:
    """Returns the ending, such as `_mask`, of the masks of all images, or none."""
    first = images[0]
    endings = [n.removeprefix(first) for n in masks if n.startswith(first)]
    fitting = [e for e in endings if all(name + e in masks for name in images)]
    return fitting[0] if len(fitting) == 1 else ""


def by_name(place: Path, left_out: Counter[str]) -> dict[str, Path]:
    """Finds the images below a directory, by relative path without suffix."""
    files: dict[str, Path] = {}
    twice = []
    for file in find_image_files(place, left_out):
        name = file.relative_to(place).with_suffix("").as_posix()
        if name in files:
            twice.append(f"{files[name]} and {file.name}")
        files[name] = file
    refuse(f"images in {place} that differ in their suffixes alone", twice)
    parts = {name.partition("/")[0].lower() for name in files if "/" in name}
    if splits := parts & {*SPLIT_NAMES}:
        raise UserError(
            f"{place} holds splits ({', '.join(sorted(splits))}): put {IMAGES} and {MASKS} "
            "below the splits, and not splits below them"
        )
    return files


def refuse(what: str, found: Sequence[str]) -> None:
    """Raises an error with the number of faults, and the first three."""
    if found:
        more = ", ..." if len(found) > 3 else ""
        names = ", ".join(sorted(found)[:3])
        raise UserError(f"there are {what} ({len(found)}): fix {names}{more}")
