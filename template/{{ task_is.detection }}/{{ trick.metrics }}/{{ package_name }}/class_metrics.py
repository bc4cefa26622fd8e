"""Average precision, precision and recall of each class.

https://cocodataset.org/#detection-eval
"""

from typing import Any

from .coco_metrics import Matches


def scores_of_class(matches: Matches) -> dict[str, Any]:
    """Returns the metrics of a class: None, where it has no true boxes or detections.

    Precision and recall are those at an IoU of 0.5, and at the threshold of the score
    with the best F1.
    """
    boxes, scores = int(matches.boxes[0]), matches.scores
    scored = dict.fromkeys(("ap", "ap50", "threshold", "precision", "recall", "f1"))
    row: dict[str, Any] = {"boxes": boxes, **scored}
    if not boxes:
        return row
    precisions = matches.precisions()[0].mean(dim=-1)
    row |= {"ap": precisions.mean().item(), "ap50": precisions[0].item()}
    if not len(scores):
        return row
    right, wrong = (part[0, 0].double().cumsum(0) for part in matches[1:3])
    f1 = 2 * right / (right + wrong + boxes)
    # A threshold takes all detections of its score.
    best = (f1 * scores.diff(append=scores.new_tensor([-1])).ne(0)).argmax()
    row |= {"threshold": scores[best].item(), "recall": (right[best] / boxes).item()}
    precision = right[best] / (right[best] + wrong[best]).clamp(min=1)
    return row | {"precision": precision.item(), "f1": f1[best].item()}
