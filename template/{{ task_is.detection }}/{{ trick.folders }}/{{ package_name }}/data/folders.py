"""Your own images with boxes, in the layout of YOLO, Pascal VOC or COCO."""

from ..errors import UserError
from ..settings import Settings
from .coco_files import find_coco
from .own_images import OwnImages
from .voc_files import find_voc
from .yolo_files import find_yolo


def find_folders(settings: Settings) -> OwnImages:
    """Finds images and boxes by the files of their layout."""
    directory = settings.data_dir
    if not directory.is_dir():
        raise UserError(f"{directory} is not a directory: check --data-dir")
    search = {"YOLO": find_yolo, "Pascal VOC": find_voc, "COCO": find_coco}
    found = {name: find(directory) for name, find in search.items()}
    layouts = {name: images for name, images in found.items() if images is not None}
    if not layouts:
        raise UserError(
            f"{directory} has no boxes in a known layout: add data.yaml with images and "
            "labels (YOLO), Annotations/*.xml with JPEGImages (Pascal VOC), or a JSON file "
            "of annotations (COCO)"
        )
    if len(layouts) > 1:
        raise UserError(
            f"{directory} has the layouts of {' and '.join(layouts)}: move one of them "
            "elsewhere"
        )
    [images] = layouts.values()
    return images
