"""Average precision of boxes, as COCO defines it.

https://cocodataset.org/#detection-eval
"""

import functools
import math

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

IOUS = np.linspace(0.5, 0.95, 10)
"""Thresholds of the overlap (IoU, intersection over union) with a true box."""
RECALLS = np.linspace(0, 1, 101)
"""Recalls of the precisions in a mean. torch.linspace rounds some of them differently."""
BINS = 2**11
"""Number of bins of the score, which are narrower near 0 and 1."""


def match(
    detections: Tensor, targets: Tensor, ignored: Tensor
) -> tuple[Tensor, Tensor]:
    """Matches detections with true boxes at each of IOUS.

    By falling score, each detection takes the free box of its class with the largest
    IoU. It takes an ignored box only if there is no other. Crowds stay free.

    Args:
        detections: x1 y1 x2 y2, score and class, or -1 for padding; by falling score,
            of shape (N, D, 6).
        targets: x1 y1 x2 y2, class or -1, and 1 for a crowd; of shape (N, M, 6).
        ignored: bool of shape (N, A, M), for each of A selections of true boxes.

    Returns:
        Whether a detection has a true box, and whether it has an ignored box: bool of
        shape (N, A, len(IOUS), D).
    """
    kind = torch.float32 if detections.is_mps else torch.float64
    # Of equal boxes, COCO takes the last, and max() the first. It needs one at least.
    targets = F.pad(targets.to(kind), (0, 0, 1, 0), value=-1).flip(1)
    ignored = F.pad(ignored, (1, 0)).flip(2).unsqueeze(2)
    crowd = (targets[..., 5] > 0)[:, None, None]
    lowest = thresholds(detections.device, kind)
    free = torch.ones_like(ignored).expand(-1, -1, len(IOUS), -1)
    numbers = torch.arange(targets.shape[1], device=targets.device)
    matches = []
    for overlap in overlaps(detections.to(kind), targets).unbind(1):
        overlap = overlap[:, None, None]
        worth = (overlap - 2.0 * ignored).where(free & (overlap >= lowest), -3)
        best, place = worth.max(dim=-1, keepdim=True)
        free = free & ~((numbers == place) & (best > -3)) | crowd
        matches.append(best.squeeze(-1))
    best = torch.stack(matches, dim=-1)
    return best > 0, (best > -3) & (best < 0)


@functools.cache
def thresholds(device: torch.device, kind: torch.dtype) -> Tensor:
    """Returns IOUS, of shape (10, 1); cached, as each copy waits for the device."""
    return torch.tensor(IOUS, dtype=kind, device=device).unsqueeze(1)


def overlaps(detections: Tensor, targets: Tensor) -> Tensor:
    """Returns the IoU of detections and true boxes, of shape (N, D, M).

    With a crowd, it is the share of the detection inside. Between classes, it is -1.
    """
    found, true = detections.unsqueeze(2), targets.unsqueeze(1)
    start = torch.maximum(found[..., :2], true[..., :2])
    end = torch.minimum(found[..., 2:4], true[..., 2:4])
    shared = (end - start).clamp(min=0).prod(dim=-1)
    rest = (areas(true) - shared).where(true[..., 5] <= 0, 0)
    same = (found[..., 5] == true[..., 4]) & (true[..., 4] >= 0)
    return (shared / (areas(found) + rest)).nan_to_num(0).where(same, -1)


def areas(boxes: Tensor) -> Tensor:
    """Returns the areas of boxes that begin with x1 y1 x2 y2."""
    return (boxes[..., 2:4] - boxes[..., :2]).prod(dim=-1)


def count_boxes(detections: Tensor, targets: Tensor, classes: int) -> dict[str, Tensor]:
    """Counts true and false detections by class, threshold and score, and true boxes.

    Args:
        detections: as for `match`.
        targets: as for `match`.

    Returns:
        `detections`, int32 of shape (2, classes, len(IOUS), BINS): those with a true
        box, and the others; and `boxes`, int64 of shape (classes,).
    """
    crowd = targets[..., 5] > 0
    right, ignored = (
        found[:, 0] for found in match(detections, targets, crowd[:, None])
    )
    score, label = detections[..., 4], detections[..., 5].long()
    # The arc sine spreads scores near 0 and 1, which are frequent.
    share = score.clamp(0, 1).sqrt().asin() * (2 / math.pi)
    step = (share * BINS).long().clamp(0, BINS - 1)
    threshold = torch.arange(len(IOUS), device=label.device).unsqueeze(1)
    rows = label.clamp(min=0)[:, None] * len(IOUS) + threshold
    cells = (rows * BINS + step[:, None]).flatten()
    counted = (label >= 0)[:, None] & ~ignored
    values = torch.stack([right, counted & ~right]).int().flatten(1)
    counts = values.new_zeros(2, classes * len(IOUS) * BINS).index_add_(
        1, cells, values
    )
    true = (targets[..., 4] >= 0) & ~crowd
    numbers = targets[..., 4].long().clamp(min=0).flatten()
    boxes = numbers.new_zeros(classes).index_add_(0, numbers, true.long().flatten())
    return {
        "detections": counts.view(2, classes, len(IOUS), BINS),
        "boxes": boxes,
    }


def average_precisions(detections: Tensor, boxes: Tensor) -> Tensor:
    """Returns the average precision of each class at each of IOUS; NaN without boxes.

    Args:
        detections: sums of `count_boxes`.
        boxes: sums of `count_boxes`.
    """
    steps = zip(detections.flip(-1).split(100, dim=1), boxes.split(100))
    parts = [
        precision_at_recalls(right, wrong, there.view(-1, 1, 1)).mean(dim=-1)
        for (right, wrong), there in steps  # Copies of all classes would be large.
    ]
    return torch.cat(parts)


def precision_at_recalls(right: Tensor, wrong: Tensor, there: Tensor) -> Tensor:
    """Returns the best precision from each of RECALLS on, of shape (..., 101).

    It is 0 for recalls that are never reached, and NaN without true boxes.

    Args:
        right: numbers of detections with a true box, in steps of falling score, of shape
            (..., steps).
        wrong: numbers of the other detections in each step.
        there: numbers of true boxes, of shape (..., 1).
    """
    right, wrong = right.double(), wrong.double()
    # In a step of several, the false ones lie evenly between the true ones.
    false = wrong.cumsum(dim=-1) - wrong / (right + 1)
    true = right.cumsum(dim=-1)
    precision = true / (true + false).clamp(min=1)
    best = precision.flip(-1).cummax(dim=-1).values.flip(-1)
    recalls = torch.from_numpy(RECALLS).expand(*right.shape[:-1], -1).contiguous()
    places = torch.searchsorted(true / there, recalls)
    return F.pad(best, (0, 1)).gather(-1, places).where(there > 0, torch.nan)
