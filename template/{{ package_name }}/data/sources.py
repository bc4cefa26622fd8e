"""Your own images: where their files lie, their classes, and the split of each."""

import csv
import hashlib
import os
import posixpath
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from torchvision.datasets.folder import IMG_EXTENSIONS, ImageFolder

from ..errors import UserError
from .images import FileImages

Splits = tuple[FileImages, FileImages]
"""For training and for validation."""

NAMES_OF_SPLITS = {"train", "training", "val", "valid", "validation", "test", "testing"}


EXTENSIONS = (*IMG_EXTENSIONS, ".gif")
"""Of the files that are images; of those that move, the first frame is."""


class Folder(ImageFolder):
    """A directory of images for each class, but for those that programs hide."""

    def find_classes(self, directory: str | Path) -> tuple[list[str], dict[str, int]]:
        found, _ = super().find_classes(directory)
        classes = [name for name in found if not name.startswith(".")]
        return classes, {name: number for number, name in enumerate(classes)}


class Row(NamedTuple):
    """A row of labels.csv."""

    path: str
    """From the directory of the list."""
    label: str
    split: str = ""
    """`train` or `val`; empty where the list has no such column."""


def open_folders(directory: Path, val_share: float, seed: int = 0) -> Splits:
    """Opens train and val in a directory, or splits the classes that lie there.

    Raises:
        UserError: there are no images, or none of a class.
    """
    train, val = directory / "train", directory / "val"
    if os.path.isdir(train) and not os.path.lexists(val):
        raise UserError(
            f"there is no {val}: put images into {val}/CLASS/*.jpg, or pass "
            f"--data-dir {train} to have those split by --val-share"
        )
    if os.path.isdir(train) or os.path.isdir(val):
        return open_folder(train), open_folder(val)
    images = open_folder(directory)
    if {name.lower() for name in images.classes} <= NAMES_OF_SPLITS:
        raise UserError(
            f"{directory} holds {', '.join(images.classes)}, which look like splits, "
            "not classes: call those train and val"
        )
    return split_by_share(images, directory, val_share, seed)


def open_folder(path: Path) -> FileImages:
    """Opens a directory that holds a directory of images for each class."""
    remedy = f"put them into {path}/CLASS/*.jpg, at least one image for every class"
    try:
        found = Folder(
            str(path),
            is_valid_file=lambda name: is_image(Path(name).relative_to(path)),
            allow_empty=True,
        )
    except (OSError, ValueError) as error:
        raise UserError(f"{path} holds no images: {remedy}") from error
    used = set(found.targets)
    empty = [name for name, target in found.class_to_idx.items() if target not in used]
    if empty:
        names = ", ".join(str(path / name) for name in empty)
        raise UserError(f"{names} holds no images: remove it, or {remedy}")
    files = [Path(name) for name, _ in found.samples]
    return FileImages(files, found.targets, found.classes)


def is_image(path: Path) -> bool:
    """Returns whether a file has the name of an image, and no program hides it.

    Args:
        path: from the directory that is searched.
    """
    hidden = any(part.startswith(".") for part in path.parts)
    return not hidden and path.suffix.lower() in EXTENSIONS


def open_labels(directory: Path, val_share: float, seed: int = 0) -> Splits:
    """Opens the images that labels.csv lists, split as it says, or by share.

    Raises:
        UserError: the list, or an image that it names, cannot be used.
    """
    rows = read_labels(directory / "labels.csv")
    if not rows[0].split:
        images = list_images(directory, rows)
        return split_by_share(images, directory, val_share, seed)
    train, val = (
        list_images(directory, [row for row in rows if row.split == split])
        for split in ("train", "val")
    )
    return train, val


def list_images(directory: Path, rows: Sequence[Row]) -> FileImages:
    """Returns the images of some rows."""
    classes = sorted({row.label for row in rows})
    numbers = {name: number for number, name in enumerate(classes)}
    files = [directory / row.path for row in rows]
    return FileImages(files, [numbers[row.label] for row in rows], classes)


def read_labels(path: Path) -> list[Row]:
    """Reads the rows of labels.csv, in the order of their paths.

    Raises:
        UserError: a row cannot be used.
    """
    columns, lines = read_table(path)
    incomplete = [
        f"line {line}"
        for line, cells in lines
        if len(cells) != len(columns) or not all(cells)
    ]
    refuse(path, "rows with a cell too few, too many or empty", incomplete)
    rows = [Row(**dict(zip(columns, cells))) for _, cells in lines]
    other = {row.split for row in rows} - {"", "train", "val"}
    refuse(path, "splits besides train and val", sorted(other))
    absolute = [row.path for row in rows if os.path.isabs(row.path)]
    refuse(path, f"absolute paths, which should begin in {path.parent}", absolute)
    rows = sorted(row._replace(path=posixpath.normpath(row.path)) for row in rows)
    counts = Counter(row.path for row in rows)
    twice = [name for name, count in counts.items() if count > 1]
    refuse(path, "images in more than one row", twice)
    missing = [name for name in counts if not os.path.isfile(path.parent / name)]
    refuse(path, "images that are not there", missing)
    return rows


def read_table(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Reads the columns of labels.csv, and its cells with the line of each row."""
    remedy = "begin it with path,label or path,label,split"
    try:
        # Without the mark that spreadsheets put before the first name.
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, skipinitialspace=True, strict=True)
            columns = [name.strip() for name in next(reader, [])]
            lines = [
                (reader.line_num, [cell.strip() for cell in cells])
                for cells in reader
                if cells
            ]
    except csv.Error as error:
        raise UserError(f"cannot read {path} ({error}): mend its quotes") from error
    except (OSError, ValueError) as error:
        raise UserError(
            f"cannot read {path} ({error}): write it in UTF-8, and {remedy}"
        ) from error
    if sorted(columns) not in (["label", "path"], ["label", "path", "split"]):
        found = ",".join(columns) or "nothing"
        raise UserError(f"{path} begins with {found}: {remedy}")
    if not lines:
        raise UserError(f"{path} lists no images: add a row for each")
    return columns, lines


def refuse(path: Path, what: str, found: Sequence[str]) -> None:
    """Names the first few of what is wrong with a list, and says how many there are.

    Raises:
        UserError: there are some.
    """
    if found:
        more = ", ..." if len(found) > 3 else ""
        names = ", ".join(found[:3])
        raise UserError(f"{path} has {what} ({len(found)}): mend {names}{more}")


def split_by_share(
    images: FileImages, directory: Path, share: float, seed: int = 0
) -> Splits:
    """Holds a share of the images out for validation, the same ones every time.

    Each image is drawn by its path in the directory and the seed alone, so that images
    that are added later leave the others where they are. Only where all images of a
    class would be in one split, one goes to the other.

    Args:
        share: above 0 and below 1.

    Raises:
        UserError: a class has one image only.
    """
    drawn = defaultdict(list)
    for index, (file, target) in enumerate(zip(images.files, images.targets)):
        number = draw(f"{seed}/{file.relative_to(directory).as_posix()}")
        drawn[target].append((number, index))
    single = [images.classes[target] for target, one in drawn.items() if len(one) == 1]
    refuse(directory, "classes of one image, which cannot be in both splits", single)
    held_out = set()
    for numbers in drawn.values():
        numbers.sort()
        count = sum(number < share for number, _ in numbers)
        count = min(max(count, 1), len(numbers) - 1)
        held_out |= {index for _, index in numbers[:count]}
    chosen = [index in held_out for index in range(len(images))]
    return keep(images, [not held for held in chosen]), keep(images, chosen)


def draw(text: str) -> float:
    """Returns a number from 0 to 1 that looks random and depends on the text alone."""
    digest = hashlib.sha256(os.fsencode(text)).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def keep(images: FileImages, chosen: Sequence[bool]) -> FileImages:
    """Returns some of the images, with the same classes."""
    files = [file for file, kept in zip(images.files, chosen) if kept]
    targets = [target for target, kept in zip(images.targets, chosen) if kept]
    return FileImages(files, targets, images.classes)
