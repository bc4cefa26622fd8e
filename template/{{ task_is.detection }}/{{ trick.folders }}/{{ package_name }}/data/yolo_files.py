"""Images with boxes in YOLO's layout: https://docs.ultralytics.com/datasets/detect/."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ..errors import UserError, one_line
from ..names import plain
from .box_files import LARGEST_SHARE, RELATIVE, BoxChecks, DrawnBox
from .image_search import describe_left_out, find_image_files, is_image
from .own_images import FileImages, OwnImages, name_splits
from .polygons import POLYGON, outline


@dataclass
class YoloImages(OwnImages):
    """Images in the directories or lists of data.yaml."""

    description: Path
    """The file with the names of the classes."""
    names: list[str]
    numbers: Mapping[int, int]
    """The place in `names` of each class number in the labels."""
    splits: dict[str, str]
    places: dict[str, list[Path]]
    """Directories and lists of images of each split, or of `all`."""
    notes: list[str]

    def read(self, split: str) -> FileImages:
        if split != "all" and split not in self.places:
            raise UserError(f"{self.description} has no split {split}: add it")
        used = self.places.values() if split == "all" else [self.places[split]]
        left_out: Counter[str] = Counter()
        lists = [list_images(place, left_out) for places in used for place in places]
        files = [*dict.fromkeys(file for each in lists for file in each)]
        if not files:
            raise UserError(f"{self.description} names no images of {split}: add some")
        checks = BoxChecks()
        labels = [label_of(str(file)) for file in files]
        targets, absent = [], []
        for file, label in zip(files, labels):
            if not os.path.isfile(label):
                absent.append(str(file))
            targets.append(checks.check(self.read_label(label, checks), RELATIVE))
        checks.refuse()
        if len(absent) == len(files):
            raise UserError(
                f"no image of {split} has labels: write those of {absent[0]} into "
                f"{labels[0]}"
            )
        checks.note("images without a file of labels, which have no boxes", *absent)
        unused = find_unused(files, labels)
        checks.note("files of labels without an image, left out", *unused)
        place = self.description.parent
        notes = [*self.notes, *describe_left_out(place, left_out), *checks.notes()]
        return FileImages(files, targets, self.names, notes=notes)

    def read_label(self, path: str, checks: BoxChecks) -> Iterator[DrawnBox]:
        """Reads the boxes in a file of labels, which need not exist."""
        try:
            with open(path, encoding="utf-8-sig") as file:
                lines = file.read().splitlines()
        except FileNotFoundError:
            return
        except (OSError, UnicodeError) as error:
            how = f"fix or remove it ({type(error).__name__})"
            raise UserError(f"cannot read {path}: {how}") from error
        for index, line in enumerate(lines, 1):
            if not line.strip():
                continue
            place = f"{path} line {index}"
            try:
                number, *values = map(float, line.split())
            except ValueError:
                checks.wrong["lines with text that is no number"].append(place)
                continue
            if number not in self.numbers:
                kind = f"classes that {self.description.name} does not name"
                checks.wrong[kind].append(f"{place} ({number:g})")
            elif max(values, default=0) > LARGEST_SHARE:
                kind = "boxes in pixels, and not in shares of the width and height"
                checks.wrong[kind].append(place)
            elif len(values) == 4:
                x, y, width, height = values
                ends = x + width / 2, y + height / 2
                corners = (x - width / 2, y - height / 2, *ends)
                yield DrawnBox(self.numbers[int(number)], corners, place)
            elif len(values) >= 6 and len(values) % 2 == 0:
                checks.note(POLYGON, place)
                yield DrawnBox(self.numbers[int(number)], outline(values), place)
            else:
                kind = "lines that are no class with x, y, width and height"
                checks.wrong[kind].append(f"{place} ({len(values) + 1} numbers)")


def find_yolo(directory: Path) -> YoloImages | None:
    """Finds data.yaml, or classes.txt and labels, if they are there."""
    contents = {path: read_yaml(path) for path in sorted(directory.glob("*.y*ml"))}
    found = {path: each for path, each in contents.items() if "names" in each}
    if len(found) > 1:
        some = " and ".join(path.name for path in found)
        raise UserError(f"{directory} has the names of classes in {some}: keep one")
    for path, content in found.items():
        return open_yaml(path, content)
    for path in (directory / "classes.txt", directory / "labels" / "classes.txt"):
        if path.is_file() and (directory / "labels").is_dir():
            lines = path.read_text(encoding="utf-8-sig").splitlines()
            names = [plain(line) for line in lines if line.strip()]
            return make_images(path, dict(enumerate(names)), {}, {})
    return None


def read_yaml(path: Path) -> dict[Any, Any]:
    """Reads a YAML file with a mapping; others are empty."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeError, yaml.YAMLError) as error:
        raise UserError(f"cannot read {path}: fix it ({one_line(error)})") from error
    return content if isinstance(content, dict) else {}


def open_yaml(path: Path, content: Mapping[Any, Any]) -> YoloImages:
    """Finds the classes and the splits of data.yaml."""
    listed = content["names"]
    by_number = listed if isinstance(listed, dict) else dict(enumerate(listed or []))
    try:
        names = {int(n): plain(str(by_number[n])) for n in sorted(by_number, key=int)}
    except ValueError as error:
        raise UserError(
            f"{path} has names that are neither a list nor a mapping of class numbers: "
            f"fix them ({error})"
        ) from error
    if content.get("nc", len(names)) != len(names):
        raise UserError(
            f"{path} has nc: {content['nc']}, but {len(names)} names: fix one of them"
        )
    if "kpt_shape" in content:
        raise UserError(f"{path} describes keypoints (kpt_shape), and not boxes alone")
    keys = [key for key in content if isinstance(key, str) and content[key]]
    splits = name_splits(keys, path)
    entries = {split: content[key] for split, key in splits.items()}
    return make_images(path, names, splits, entries, str(content.get("path") or ""))


def make_images(
    path: Path,
    names: Mapping[int, str],
    splits: dict[str, str],
    entries: Mapping[str, Any],
    root: str = "",
) -> YoloImages:
    """Finds the directories and lists that a description names."""
    if len({*names.values()}) < len(names) or not all(names.values()):
        raise UserError(f"{path} has an empty name, or a name twice: fix it")
    notes = [f"boxes of {path.parent} are in YOLO's layout: {path.name}"]
    places: dict[str, list[Path]] = {}
    for split, entry in entries.items():
        texts = entry if isinstance(entry, list) else [entry]
        found = [find_place(path, root, str(text), notes) for text in texts]
        missing = [str(text) for text, place in zip(texts, found) if place is None]
        if missing and split != "test":
            raise UserError(
                f"{path} names {missing[0]}, which is not in {path.parent}: fix its path"
            )
        if missing:  # Roboflow names one that it does not export.
            notes.append(
                f"{path.name} names {missing[0]} for test, which does not exist"
            )
            continue
        places[split] = [place for place in found if place is not None]
    if "val" in places and places["val"] == places.get("train"):
        raise UserError(
            f"{path} has the same images for train and val: remove val, and --val-share "
            "holds out some of them"
        )
    places = places or {"all": [path.parent / "images"]}
    numbers = {number: place for place, number in enumerate(names)}
    splits = {split: name for split, name in splits.items() if split in places}
    return YoloImages(path, [*names.values()], numbers, splits, places, notes)


def find_place(path: Path, root: str, text: str, notes: list[str]) -> Path | None:
    """Finds a directory or list, whose path may be that of another machine."""
    inner = text
    while inner.startswith(("../", "./")):
        inner = inner.partition("/")[2]
    own = path.parent
    tries = [own / root / text, own / text, own / root / inner, own / inner]
    found = next((place for place in tries if place.exists()), None)
    if found not in (None, tries[0]):
        notes.append(f"{path.name} names {tries[0]}, which is read from {found}")
    return found


def list_images(place: Path, left_out: Counter[str]) -> list[Path]:
    """Finds the images in a directory, or those in the lines of a file."""
    try:
        if place.is_dir():
            return find_image_files(place, left_out)
        lines = place.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeError) as error:
        raise UserError(
            f"cannot read images of {place}: fix its path in data.yaml "
            f"({type(error).__name__})"
        ) from error
    listed = [line.strip() for line in lines if line.strip()]
    files = [find_listed(place.parent, name) for name in listed]
    missing = [name for name, file in zip(listed, files) if file is None]
    if missing:
        raise UserError(
            f"{place} lists images that do not exist ({len(missing):,}): fix {missing[0]}"
        )
    return [file for file in files if file is not None]


def find_listed(directory: Path, name: str) -> Path | None:
    """Finds an image below a directory, from which a list may omit or add parents."""
    parts = Path(name).parts
    for start in range(len(parts)):
        file = directory.joinpath(*parts[start:])
        if file.is_file():
            return file
    return None


def label_of(image: str) -> str:
    """Returns the path of the labels of an image: `labels` instead of `images`."""
    before, images, after = image.rpartition(f"{os.sep}images{os.sep}")
    label = f"{before}{os.sep}labels{os.sep}{after}" if images else image
    return os.path.splitext(label)[0] + ".txt"


def find_unused(files: Sequence[Path], labels: Sequence[str]) -> list[str]:
    """Returns the files of labels without an image of their name."""
    places = {os.path.dirname(label): file.parent for file, label in zip(files, labels)}
    unused = []
    for place, images in places.items():
        if not os.path.isdir(place):
            continue
        stems = {os.path.splitext(n)[0] for n in os.listdir(images) if is_image(n)}
        for name in sorted(os.listdir(place)):
            stem, suffix = os.path.splitext(name)
            if suffix == ".txt" and stem not in stems and name != "classes.txt":
                unused.append(os.path.join(place, name))
    return unused
