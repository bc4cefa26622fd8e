#!/bin/sh
# pycocotools 2.0.11
#
# COCOeval ignores boxes whose area is less than the lower or greater than the upper limit of a size:
# both limits belong to the size. So a box of exactly 32 x 32 pixels counts as small and as medium,
# and one of 96 x 96 as medium and as large. By COCO's page of its metrics, small objects are below
# 32 x 32, and medium ones between that and 96 x 96.
# Seen: with one box of 32 x 32, which is found, the average precision is 1 for small and for medium
# objects, and -1 (no objects) for large ones; with one of 96 x 96, it is -1, 1 and 1.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet pycocotools==2.0.11
"$work/venv/bin/python" - <<'EOF'
import contextlib
import io
from importlib.metadata import version

from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval


def precisions(side):
    """Returns the average precision of small, medium and large objects, for one found box."""
    box = [0, 0, side, side]
    truth = COCO()
    truth.dataset = {
        "info": {},
        "images": [{"id": 1, "width": 200, "height": 200}],
        "categories": [{"id": 1, "name": "cell"}],
        "annotations": [
            {"id": 1, "image_id": 1, "category_id": 1, "bbox": box, "area": side * side, "iscrowd": 0}
        ],
    }
    with contextlib.redirect_stdout(io.StringIO()):
        truth.createIndex()
        found = truth.loadRes([{"image_id": 1, "category_id": 1, "bbox": box, "score": 0.9}])
        evaluation = COCOeval(truth, found, "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return [round(float(number), 6) for number in evaluation.stats[3:6]]


seen = {}
for side in (31, 32, 33, 96):
    seen[side] = precisions(side)
    print(f"pycocotools {version('pycocotools')}, {side} x {side}: small, medium, large {seen[side]}")
assert seen == {31: [1, -1, -1], 32: [1, 1, -1], 33: [-1, 1, -1], 96: [-1, 1, 1]}, seen
EOF
