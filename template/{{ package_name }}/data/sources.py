"""Your own images: where their files lie, their classes, and the split of each."""

import csv
import hashlib
import os
import posixpath
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from torchvision.datasets.folder import IMG_EXTENSIONS, ImageFolder

from ..errors import UserError
from ..settings import Settings
from .images import FileImages

Splits = tuple[FileImages, FileImages]
"""For training and for validation."""

SPLITS = ("train", "val", "test")
NAMES_OF_SPLITS = {*SPLITS, "training", "valid", "validation", "testing"}

EXTENSIONS = (*IMG_EXTENSIONS, ".gif")
"""Of the files that are images; of those that move, the first frame is."""


class Folder(ImageFolder):
    """A directory of images for each class, but for those that programs hide."""

    def find_classes(self, directory: str | Path) -> tuple[list[str], dict[str, int]]:
        found, _ = super().find_classes(directory)
        classes = [name for name in found if not name.startswith(".")]
        return classes, {name: number for number, name in enumerate(classes)}


class Row(NamedTuple):
    """A row of a list of labels."""

    path: str
    """From the directory of the data."""
    label: str
    split: str = ""
    """`train`, `val` or `test`; empty where the list has no such column."""


def open_folders(settings: Settings) -> Splits:
    """Opens train and val in a directory, or splits the classes that lie there.

    Raises:
        UserError: there are no images, or none of a class.
    """
    directory = settings.data_dir
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
    return split_by_share(images, directory, settings.val_share, settings.split_seed)


def open_folders_alone(settings: Settings, split: str) -> FileImages:
    """Opens the images of one split, whatever others there are, or `all` of them.

    Raises:
        UserError: there is no such split, or it holds no images.
    """
    directory = settings.data_dir
    found = splits_in_folders(settings)
    if split in found:
        return open_folder(directory / split)
    if split == "all":
        names = found or ["."]
        return join([open_folder(directory / name) for name in names])
    if found or split == "test":
        raise no_split(directory, split, found)
    train, val = open_folders(settings)
    return train if split == "train" else val


def splits_in_folders(settings: Settings) -> list[str]:
    """Returns the splits that have a directory of their own."""
    return [name for name in SPLITS if os.path.isdir(settings.data_dir / name)]


def no_split(place: Path, split: str, found: Iterable[str]) -> UserError:
    """Returns the error of a split that there is not."""
    splits = ", ".join(found) or "none"
    return UserError(
        f"{place} has no split {split} (it has {splits}): pass another --split, such as all"
    )


def join(parts: Sequence[FileImages]) -> FileImages:
    """Returns the images of several parts, which may have different classes."""
    classes = sorted({name for part in parts for name in part.classes})
    files = [file for part in parts for file in part.files]
    targets = [
        # Numbers to be told have no classes.
        classes.index(part.classes[int(target)]) if classes else target
        for part in parts
        for target in part.targets
    ]
    return FileImages(files, targets, classes)


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


def open_labels(settings: Settings) -> Splits:
    """Opens the images that a list names, split as it says, or by share.

    Raises:
        UserError: the list, or an image that it names, cannot be used.
    """
    rows = read_labels(settings)
    if rows[0].split:
        train, val = (list_images(settings, rows, split) for split in ("train", "val"))
        return train, val
    images = list_images(settings, rows)
    return split_by_share(
        images, settings.data_dir, settings.val_share, settings.split_seed
    )


def open_labels_alone(settings: Settings, split: str) -> FileImages:
    """Opens the images of one split, whatever others there are, or `all` of them.

    Raises:
        UserError: there is no such split, or the list cannot be used.
    """
    rows = read_labels(settings)
    found = sorted({row.split for row in rows} - {""})
    if split in found:
        return list_images(settings, rows, split)
    if split == "all":
        return list_images(settings, rows)
    if found or split == "test":
        raise no_split(list_of(settings), split, found)
    train, val = open_labels(settings)
    return train if split == "train" else val


def splits_in_labels(settings: Settings) -> list[str]:
    """Returns the splits that a list names."""
    return sorted({row.split for row in read_labels(settings)} - {""})


def list_of(settings: Settings) -> Path:
    """Returns where the list of labels is."""
    return settings.labels or settings.data_dir / "labels.csv"


def list_images(
    settings: Settings, rows: Sequence[Row], split: str | None = None
) -> FileImages:
    """Returns the images of some rows: of a split, or of all.

    Raises:
        UserError: there are none.
    """
    rows = [row for row in rows if split in (None, row.split)]
    if not rows:
        raise UserError(f"{list_of(settings)} lists no images of the split {split}")
    classes = sorted({row.label for row in rows})
    numbers = {name: number for number, name in enumerate(classes)}
    files = [settings.data_dir / row.path for row in rows]
    return FileImages(files, [numbers[row.label] for row in rows], classes)


def read_labels(settings: Settings) -> list[Row]:
    """Reads the rows of a list, in the order of their paths.

    Raises:
        UserError: a row cannot be used.
    """
    path, directory = list_of(settings), settings.data_dir
    lines = read_table(path, settings)
    incomplete = [f"line {line}" for line, cells in lines if not all(cells)]
    refuse(path, "rows with an empty cell", incomplete)
    rows = [Row(posixpath.normpath(name), *others) for _, (name, *others) in lines]
    other = {row.split for row in rows} - {"", *SPLITS}
    refuse(path, f"splits besides {', '.join(SPLITS)}", sorted(other))
    rows.sort()
    counts = Counter(row.path for row in rows)
    twice = [name for name, count in counts.items() if count > 1]
    refuse(path, "images in more than one row", twice)
    missing = [name for name in counts if not os.path.isfile(directory / name)]
    refuse(path, f"images that are not in {directory}", missing)
    return rows


def read_table(path: Path, settings: Settings) -> list[tuple[int, list[str]]]:
    """Reads path, label and, where there is one, split of each row, with its line."""
    try:
        # Without the mark that spreadsheets put before the first name.
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(
                file, restval="", skipinitialspace=True, strict=True
            )
            columns = [settings.path_column, settings.label_column]
            named = [name.strip() for name in reader.fieldnames or []]
            reader.fieldnames = named
            if settings.split_column or "split" in named:
                columns.append(settings.split_column or "split")
            if absent := [name for name in columns if name not in named]:
                raise UserError(
                    f"{path} has no column {absent[0]}: name one of {', '.join(named)} "
                    "by --path-column, --label-column or --split-column"
                )
            lines = [
                (reader.line_num, [row[name].strip() for name in columns])
                for row in reader
            ]
    except csv.Error as error:
        raise UserError(f"cannot read {path} ({error}): mend its quotes") from error
    except UnicodeDecodeError as error:
        raise UserError(f"cannot read {path} ({error}): write it in UTF-8") from error
    except OSError as error:
        raise UserError(
            f"cannot read {path} ({error.strerror}): pass --labels, or another --data"
        ) from error
    if not lines:
        raise UserError(f"{path} lists no images: add a row for each")
    return lines


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
        directory: of the data, from which paths are taken.
        share: above 0 and below 1.
        seed: of the draw; other seeds hold other images out.

    Raises:
        UserError: a class has one image only.
    """
    drawn = defaultdict(list)
    for index, (file, target) in enumerate(zip(images.files, images.targets)):
        inside = file.is_relative_to(directory)
        name = file.relative_to(directory) if inside else file
        # Numbers to be told are no classes: all images are drawn from alike.
        group = target if images.classes else None
        drawn[group].append((draw(f"{seed}/{name.as_posix()}"), index))
    single = [
        images.classes[int(group)]
        for group, one in drawn.items()
        if group is not None and len(one) == 1
    ]
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
