"""Average precision of boxes is that of pycocotools."""

import contextlib
import importlib
import io
import sys

import numpy as np
import pytest
import torch
from rendering import PACKAGE, render_subset
from subsets import Subset

CLASSES, MOST = 4, 12


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    """`box_metrics` and `coco_metrics` of a project."""
    project = tmp_path_factory.mktemp("detection") / "project"
    render_subset(project, Subset.of("evaluate", task="detection"))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(project)
        names = ("box_metrics", "coco_metrics")
        yield [importlib.import_module(f"{PACKAGE}.{name}") for name in names]
    for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
        del sys.modules[name]


def draw_boxes(rng, count, grid):
    """Boxes of all sizes; in a grid, many have equal overlaps, or the size of a limit."""
    if grid:
        start = 4 * rng.integers(0, 9, (count, 2))
        return np.hstack([start, start + rng.choice([32, 32, 36, 96], (count, 1))])
    start, size = rng.random((count, 2)) * 150, np.exp(rng.uniform(1, 5, (count, 2)))
    return np.hstack([start, start + size])


def draw_image(rng, grid):
    """Detections and true boxes of an image: there may be none, crowds and duplicates."""
    true = draw_boxes(rng, rng.integers(0, MOST), grid)
    kinds = rng.integers(0, CLASSES - 1, len(true)), rng.random(len(true)) < 0.15
    targets = np.column_stack([true, *kinds])
    targets[1:2] = targets[:1] if rng.random() < 0.3 else targets[1:2]
    found = draw_boxes(rng, rng.integers(0, 100), grid)
    classes = rng.integers(0, CLASSES, len(found))
    if len(true):
        near = rng.integers(0, len(true), len(found))
        shift = rng.normal(0, 4, found.shape) * (rng.random((len(found), 1)) < 0.7)
        shift = 4 * np.tile(rng.integers(-1, 2, (len(found), 2)), 2) if grid else shift
        moved = targets[near, :4] + shift
        moved[:, 2:] = np.maximum(moved[:, 2:], moved[:, :2] + 1)
        is_near = rng.random(len(found)) < 0.6
        found = np.where(is_near[:, None], moved, found)
        classes = np.where(is_near, targets[near, 4], classes)
    scores = rng.random(len(found))
    scores = np.sort(scores.round(1) if grid else scores)[::-1]
    return np.column_stack([found, scores, classes]), targets


def padded(images, column):
    """The boxes of images as a tensor, with -1 for the class of padding."""
    boxes = torch.zeros(len(images), 100, 6)
    boxes[..., column] = -1
    for rows, image in zip(boxes, images, strict=True):
        rows[: len(image)] = torch.from_numpy(image.copy())
    return boxes


def by_pycocotools(detections, targets):
    """Its evaluation, and the precision by class, size, IoU and recall."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    found, true = [], []
    for number, (rows, boxes) in enumerate(zip(detections, targets, strict=True)):
        for x1, y1, x2, y2, score, label in rows[rows[:, 5] >= 0].double().tolist():
            box = {"image_id": number, "category_id": label, "score": score}
            found.append(box | {"bbox": [x1, y1, x2 - x1, y2 - y1]})
        for x1, y1, x2, y2, label, crowd in boxes[boxes[:, 4] >= 0].double().tolist():
            box = {"image_id": number, "category_id": label, "iscrowd": int(crowd)}
            width, height = x2 - x1, y2 - y1
            place = {"bbox": [x1, y1, width, height], "area": width * height}
            true.append(box | place | {"id": len(true) + 1})
    data = COCO()
    data.dataset = {
        "images": [{"id": number} for number in range(len(targets))],
        "categories": [{"id": float(label)} for label in range(CLASSES)],
        "annotations": true,
    }
    with contextlib.redirect_stdout(io.StringIO()):
        data.createIndex()
        evaluation = COCOeval(data, data.loadRes(found), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    precision = evaluation.eval["precision"][..., 2].transpose(2, 3, 0, 1)
    return evaluation.stats, torch.from_numpy(precision)


@pytest.mark.parametrize("seed", range(6))
def test_it_is_that_of_pycocotools(modules, seed):
    """The last class has detections, but no true boxes."""
    box_metrics, coco_metrics = modules
    rng = np.random.default_rng(seed)
    images = [draw_image(rng, grid=seed % 2 == 0) for _ in range(40)]
    found, true = zip(*images, strict=True)
    detections, targets = padded(found, 5), padded(true, 4)[:, :MOST]
    kept, sums = coco_metrics.KeptBoxes(), {}
    for rows, boxes in zip(detections.split(7), targets.split(7), strict=True):
        kept.note(None, ((None, rows), boxes), None)
        for name, value in box_metrics.count_boxes(rows, boxes, CLASSES).items():
            sums[name] = sums.get(name, 0) + value.double()
    stats, expected = by_pycocotools(detections, targets)
    matches = kept.by_class(CLASSES)
    precisions = torch.stack([of_class.precisions() for of_class in matches])
    torch.testing.assert_close(precisions.nan_to_num(-1), expected, rtol=0, atol=1e-12)
    metrics = coco_metrics.exact_metrics(matches)
    names = ("map", "map50", "map_small", "map_medium", "map_large")
    known = stats[[0, 1, 3, 4, 5]]
    assert [metrics[name] for name in names] == pytest.approx(known, abs=1e-12)
    if seed % 2:  # A bin takes equal scores together, and COCO one after the other.
        binned = box_metrics.average_precisions(*sums.values())
        assert binned.nanmean().item() == pytest.approx(stats[0], abs=0.001)
