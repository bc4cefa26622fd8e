"""Images with boxes in the layout of Pascal VOC.

http://host.robots.ox.ac.uk/pascal/VOC/voc2012/htmldoc/devkit_doc.html
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from ..errors import UserError
from ..names import plain
from .box_files import BoxChecks, DrawnBox, upright_size
from .image_search import describe_left_out, find_image_files
from .own_images import FileImages, OwnImages, name_splits
from .polygons import POLYGON, outline

SIDES = ("xmin", "ymin", "xmax", "ymax")
"""Names of the corners of a box."""


class Annotated(NamedTuple):
    """An image and its annotation."""

    image: Path
    size: tuple[float, float] | None
    """Height and width in the annotation. None: it has none."""
    boxes: list[DrawnBox]
    """Their corners are those in the file."""


@dataclass
class VocImages(OwnImages):
    """Images with an annotation of the same name each."""

    directory: Path
    splits: dict[str, str]
    listed: Mapping[str, list[str]]
    """The names of the images of each split, by the name of the split."""
    images: Mapping[str, Annotated]
    """Images by name: their path below the directory, without its suffix."""
    names: list[str]
    first: int
    """Number of the first pixel of a row or column: 1, or 0 if a box begins there."""
    notes: list[str]

    def read(self, split: str) -> FileImages:
        if split == "all":
            used = [*self.images]
        elif split in self.splits:
            used = self.listed[self.splits[split]]
        else:
            raise UserError(
                f"{self.directory} has no list of the split {split}: add it"
            )
        checks = BoxChecks()
        files, targets = [], []
        for name in used:
            image, size, boxes = self.images[name]
            moved = []
            for box in boxes:
                # The last pixel is in the box.
                x1, y1, x2, y2 = box.corners
                start = x1 - self.first, y1 - self.first
                moved.append(box._replace(corners=(*start, x2, y2)))
            files.append(image)
            targets.append(checks.check(moved, size or upright_size(image)))
        checks.refuse()
        return FileImages(
            files, targets, self.names, notes=[*self.notes, *checks.notes()]
        )


def find_voc(directory: Path) -> VocImages | None:
    """Reads all annotations, if there are any."""
    annotations = directory / "Annotations"
    if not any(annotations.glob("**/*.xml")):
        return None
    left_out: Counter[str] = Counter()
    place = directory / "JPEGImages"
    if not place.is_dir():
        place = directory / "images"  # As Label Studio calls it.
    try:
        files = find_image_files(place, left_out)
    except OSError as error:
        raise UserError(
            f"cannot read {error.filename}: put images into {directory / 'JPEGImages'} "
            f"({error.strerror})"
        ) from error
    by_name = {f.relative_to(place).with_suffix("").as_posix(): f for f in files}
    checks = BoxChecks()
    numbers: dict[str, int] = {}
    images = {}
    alone = []
    for path in sorted(annotations.glob("**/*.xml")):
        name = path.relative_to(annotations).with_suffix("").as_posix()
        if name in by_name:
            images[name] = read_xml(path, by_name[name], numbers, checks)
        else:
            alone.append(str(path))
    without = [str(file) for name, file in by_name.items() if name not in images]
    checks.note("annotations without an image, left out", *alone)
    checks.note("images without an annotation, left out", *without)
    checks.refuse()
    if not images:
        raise UserError(
            f"no image in {place} has the name of an annotation: rename them"
        )
    corners = [box.corners[:2] for each in images.values() for box in each.boxes]
    first = int(min([1, *map(min, corners)]) >= 1)
    names = sorted(numbers)
    order = {number: names.index(name) for name, number in numbers.items()}
    images = {name: renumber(each, order) for name, each in images.items()}
    listed = read_lists(directory / "ImageSets" / "Main", images)
    splits = name_splits(listed, directory)
    layout = f"boxes of {directory} are in Pascal VOC's layout"
    notes = [f"{layout}: pixels are counted from {first}"]
    notes += [*describe_left_out(place, left_out), *checks.notes()]
    return VocImages(directory, splits, listed, images, names, first, notes)


def renumber(annotated: Annotated, order: Mapping[int, int]) -> Annotated:
    """Returns an image with other class numbers."""
    boxes = [box._replace(number=order[box.number]) for box in annotated.boxes]
    return annotated._replace(boxes=boxes)


def read_lists(place: Path, images: Mapping[str, Annotated]) -> dict[str, list[str]]:
    """Reads the lists of the splits, if they are there."""
    files = {path.stem: path for path in sorted(place.glob("*.txt"))}
    listed = {}
    for name in name_splits(files, place).values():
        lines = files[name].read_text(encoding="utf-8-sig").splitlines()
        listed[name] = [line.split()[0] for line in lines if line.split()]
        unknown = [n for n in listed[name] if n not in images]
        if unknown:
            raise UserError(
                f"{files[name]} lists images that are not there, or have no annotation "
                f"({len(unknown):,}): fix {', '.join(unknown[:3])}"
            )
    return listed


def read_xml(
    path: Path, image: Path, numbers: dict[str, int], checks: BoxChecks
) -> Annotated:
    """Reads an annotation.

    Args:
        numbers: class numbers by name, to which new ones are added.
    """
    try:
        root = ElementTree.parse(path).getroot()
        texts = [root.findtext(f"size/{side}") or 0 for side in ("height", "width")]
        height, width = map(float, texts)
    except (OSError, ElementTree.ParseError, ValueError) as error:
        raise UserError(
            f"{path} is no readable annotation: fix or remove it ({error})"
        ) from error
    boxes = [*read_objects(path, root, numbers, checks)]
    size = (height, width) if height > 0 and width > 0 else None
    return Annotated(image, size, boxes)


def read_objects(
    path: Path, root: ElementTree.Element, numbers: dict[str, int], checks: BoxChecks
) -> Iterator[DrawnBox]:
    """Reads the objects of an annotation."""
    for index, each in enumerate(root.findall("object"), 1):
        place = f"{path} object {index}"
        name = plain(each.findtext("name") or "")
        texts = [each.findtext(f"bndbox/{side}") or "" for side in SIDES]
        points = [point.text or "" for point in each.findall("polygon/*")]
        if not name:
            checks.wrong["objects without a name"].append(place)
            continue
        try:
            if not any(texts) and len(points) >= 6:
                corners = outline([*map(float, points)])
                checks.note(POLYGON, place)
            else:
                x1, y1, x2, y2 = map(float, texts)
                corners = x1, y1, x2, y2
        except ValueError:
            checks.wrong["objects without the four numbers of a box"].append(place)
            continue
        number = numbers.setdefault(name, len(numbers))
        yield DrawnBox(number, corners, place, each.findtext("difficult") == "1")
