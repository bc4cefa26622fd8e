"""Writes some of the built-in shapes as an image folder.

Run in a project, with the folder, the image size, and how many images of each class each
split gets, as JSON.
"""

import json
import sys
from pathlib import Path

from leaf_diseases.data.shapes import Shapes
from PIL import Image


def main():
    directory, size, wanted = sys.argv[1:]
    for split, counts in json.loads(wanted).items():
        shapes = Shapes(split == "train", int(size))
        left = dict(counts)
        for index in range(len(shapes)):
            image, target = shapes[index]
            name = shapes.names[target]
            if left[name]:
                left[name] -= 1
                path = Path(directory, split, name, f"{index}.png")
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(image.permute(1, 2, 0).numpy()).save(path)
        assert not any(left.values())


if __name__ == "__main__":
    main()
