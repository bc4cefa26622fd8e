#!/bin/sh
# torchvision 0.29.1, and 0.22.0
#
# `v2.CenterCrop` of an image that is smaller than the crop pads the image with the smaller half
# before it, and the larger half after it. Boxes do not follow: they move by half of the difference,
# rounded to an even number. If the difference is 3, 7, 11, ... pixels, boxes are one pixel to the
# right of their object, and one below, without a warning.
# Seen: a pixel of a 5 x 5 image at 2, 2 is at 3, 3 after a crop to 8 x 8, and its box begins at 4, 4.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet torchvision==0.29.1
"$work/venv/bin/python" - <<'EOF'
import torch
import torchvision
from torchvision import tv_tensors
from torchvision.transforms import v2

found = {}
for size in (6, 8, 10, 12):
    image = torch.zeros(1, 5, 5)
    image[0, 2, 2] = 1
    box = tv_tensors.BoundingBoxes([[2, 2, 3, 3]], format="XYXY", canvas_size=(5, 5))
    cropped, moved = v2.CenterCrop(size)(image, box)
    pixel = cropped[0].nonzero()[0].tolist()
    found[size] = moved[0, 0].item() - pixel[0]
    print(
        f"torchvision {torchvision.__version__}, 5 to {size}: "
        f"pixel at {pixel}, box at {moved[0].tolist()}"
    )
assert found == {6: 0, 8: 1, 10: 0, 12: 1}, found
EOF
