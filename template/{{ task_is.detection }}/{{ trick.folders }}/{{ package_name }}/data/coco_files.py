"""Images with boxes in COCO's format: https://cocodataset.org/#format-data."""

import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..names import plain
from .box_files import BoxChecks, Corners, DrawnBox, upright_size
from .image_search import describe_left_out, find_image_files
from .own_images import SPLIT_NAMES, FileImages, OwnImages, join
from .polygons import POLYGON, outline


@dataclass
class CocoImages(OwnImages):
    """Images of annotation files, one for each split."""

    directory: Path
    files: dict[str, Path]
    """The annotation file of each split, or of `all`."""
    splits: dict[str, str]

    def read(self, split: str) -> FileImages:
        if split == "all" and self.splits:
            return join([self.read(name) for name in self.splits])
        if split not in self.files:
            raise UserError(
                f"{self.directory} has no annotations of the split {split}: add them"
            )
        return read_annotations(self.files[split], self.directory)


def find_coco(directory: Path) -> CocoImages | None:
    """Finds annotation files, also in the directories of splits."""
    paths = [*sorted(directory.glob("*.json")), *sorted(directory.glob("*/*.json"))]
    found = [path for path in paths if has_images(path)]
    # Beside them, COCO has captions and keypoints.
    paths = [path for path in found if path.name.startswith("instances")] or found
    files: dict[str, Path] = {}
    for path in paths:
        words = [path.parent.name.lower(), *re.split("[^a-z]+", path.stem.lower())]
        if path.parent == directory:
            del words[0]
        named = [SPLIT_NAMES[word] for word in words if word in SPLIT_NAMES]
        split = named[0] if named else "all"
        if split in files:
            raise UserError(
                f"{files[split]} and {path} are both for {split}: name the splits train "
                "and val, or move one of them elsewhere"
            )
        files[split] = path
    if not files:
        return None
    if "all" in files and len(files) > 1:
        raise UserError(
            f"{files['all']} is of no split, beside {' and '.join({*files} - {'all'})}: "
            "move it elsewhere"
        )
    splits = {name: name for name in files if name != "all"}
    return CocoImages(directory, files, splits)


def has_images(path: Path) -> bool:
    """Returns whether a JSON file has a list of images or annotations near its start."""
    with suppress(OSError), path.open("rb") as file:
        return bool(re.search(rb'"(images|annotations)"\s*:\s*\[', file.read(1 << 20)))
    return False


def read_annotations(path: Path, directory: Path) -> FileImages:
    """Reads the images of an annotation file, and their boxes."""
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
        images = {
            each["id"]: (
                str(each["file_name"]),
                (float(each.get("height") or 0), float(each.get("width") or 0)),
            )
            for each in content["images"]
        }
        annotations = defaultdict(list)
        for each in content["annotations"]:
            annotations[each["image_id"]].append(each)
        names, numbers = number_categories(
            content["categories"], content["annotations"]
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path} is no file of annotations in COCO's format: fix or remove it "
            f"({type(error).__name__}: {error})"
        ) from error
    if len({*names}) < len(names):
        raise UserError(f"{path} has a name for two categories: rename one of them")
    checks = BoxChecks()
    unnamed = sorted({plain(c["name"]) for c in content["categories"]} - {*names})
    checks.note("categories of other categories, without boxes, left out", *unnamed)
    known = annotations.keys() - images.keys()
    alone = [f"image {n} of {path}" for n in known for _ in annotations[n]]
    checks.note("annotations without an image, left out", *alone)
    find = ImageFinder(path, directory)
    files, targets = [], []
    for number, (name, size) in images.items():
        file = find(name)
        if file is None:
            checks.note("images that do not exist, left out", name)
            continue
        drawn = read_boxes(path, annotations[number], numbers, checks)
        files.append(file)
        targets.append(checks.check(drawn, size if all(size) else upright_size(file)))
    checks.refuse()
    if not files:
        raise UserError(f"no image of {path} exists below {directory}: add them")
    left_out: Counter[str] = Counter()
    for place in sorted({file.parent for file in files}):
        others = {*find_image_files(place, left_out)} - {*files}
        left_out[".json"] -= place == path.parent  # The annotations.
        kind = f"images in {place} without an entry in {path.name}, left out"
        checks.note(kind, *sorted(map(str, others)))
    layout = f"boxes of {path.parent} are in COCO's format: {path.name}"
    notes = [layout, *describe_left_out(directory, +left_out), *checks.notes()]
    return FileImages(files, targets, names, notes=notes)


def number_categories(
    categories: Sequence[Mapping[str, Any]], annotations: Sequence[Mapping[str, Any]]
) -> tuple[list[str], dict[Any, int]]:
    """Returns the names of the classes, and the class number of each category.

    Roboflow adds a category of all others, without boxes, which is left out.
    """
    used = {each["category_id"] for each in annotations}
    above = {each.get("supercategory") for each in categories}
    kept = {
        each["id"]: plain(each["name"])
        for each in sorted(categories, key=lambda each: each["id"])
        if each["id"] in used
        or each["name"] not in above
        or each["name"] == each.get("supercategory")
    }
    return [*kept.values()], {number: place for place, number in enumerate(kept)}


def read_boxes(
    path: Path,
    annotations: Sequence[Mapping[str, Any]],
    numbers: Mapping[Any, int],
    checks: BoxChecks,
) -> Iterator[DrawnBox]:
    """Reads the annotations of an image."""
    for each in annotations:
        place = f"{path} annotation {each.get('id')}"
        if each["category_id"] not in numbers:
            kind = "annotations of categories that are not in the file"
            checks.wrong[kind].append(f"{place} ({each['category_id']})")
            continue
        corners = find_corners(each)
        if corners is None:
            checks.wrong["annotations without a box or a polygon"].append(place)
            continue
        if not each.get("bbox"):
            checks.note(POLYGON, place)
        crowd = bool(each.get("iscrowd"))
        yield DrawnBox(numbers[each["category_id"]], corners, place, crowd)


def find_corners(annotation: Mapping[str, Any]) -> Corners | None:
    """Returns the corners of a box, or of that around polygons."""
    try:
        if annotation.get("bbox"):
            x, y, width, height = map(float, annotation["bbox"])
            return x, y, x + width, y + height
        return outline([*map(float, chain(*annotation["segmentation"]))])
    except (KeyError, TypeError, ValueError):
        return None


class ImageFinder:
    """Finds the images of an annotation file: beside it, or in directories of images."""

    def __init__(self, path: Path, directory: Path) -> None:
        stem = path.stem.rpartition("_")[2]  # As in instances_train2017.json.
        images = directory / "images"
        self.places = [path.parent, directory, images / stem, images, directory / stem]
        self.places += [images / split for split in SPLIT_NAMES if split in path.stem]

    def __call__(self, name: str) -> Path | None:
        """Returns the file of a name, which may be that on another machine."""
        name = name.replace("\\", "/")
        while name.startswith("../"):
            name = name[3:]
        for place in self.places:
            if os.path.isfile(os.path.join(place, name)):
                # The next image is probably there, too.
                self.places.remove(place)
                self.places.insert(0, place)
                return place / name
        return None
