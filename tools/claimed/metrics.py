"""Statements about scikit-learn."""

import runpy
import warnings

from claimed.claim import ROOT, claim


@claim(
    "scikit-learn",
    "docs/tasks/regression.md",
    "If all targets are the same, `r2` is 1 for exact predictions and else 0, as in "
    "scikit-learn.",
)
def _() -> object:
    from sklearn.metrics import r2_score

    seen = r2_score([3, 3, 3], [3, 3, 3]), r2_score([3, 3, 3], [3, 3, 4])
    assert seen == (1, 0), seen
    return seen


@claim(
    "scikit-learn",
    "template/**/class_metrics.py",
    "As in scikit-learn, the balanced accuracy is the mean recall of classes with images.",
)
def _() -> object:
    from sklearn.metrics import balanced_accuracy_score

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seen = balanced_accuracy_score([0, 0, 1], [0, 2, 1])
    assert seen == 0.75, seen
    return seen


@claim(
    "scikit-learn",
    "docs/tricks/metrics.md",
    "A class without images counts with 0 if it is predicted, as in scikit-learn.",
)
def _() -> object:
    from sklearn.metrics import f1_score

    seen = f1_score([0, 0, 1], [0, 2, 1], average="macro", zero_division=0)
    assert abs(seen - (2 / 3 + 1 + 0) / 3) < 1e-12, seen
    return f"{seen:.4f}"


@claim(
    "scikit-learn",
    "docs/tasks/multilabel.md",
    "the average precision is that of scikit-learn for the numbers of the bins.",
)
def _() -> object:
    import torch
    from sklearn.metrics import average_precision_score

    path = "template/{{ task_is.multilabel }}/{{ package_name }}/average_precision.py"
    module = runpy.run_path(str(ROOT / path))
    logits, there = torch.randn(2000, 1) / 10 + 7, torch.rand(2000, 1) < 0.05
    ours = module["average_precisions"](module["count_scores"](logits, there)).item()
    bins = module["bin_of"](logits)
    theirs = average_precision_score(there[:, 0], bins[:, 0])
    exact = average_precision_score(there[:, 0], logits[:, 0])
    assert abs(ours - theirs) < 1e-6
    return f"{ours:.4f}, and {exact:.4f} of the logits"


@claim(
    "scikit-learn",
    "docs/tricks/kfold.md",
    "scikit-learn begins with groups of unequal classes. There, groups of one class each, of "
    "different sizes, give the same folds for each seed.",
)
def _() -> object:
    import numpy as np
    from sklearn.model_selection import StratifiedGroupKFold

    def results(sizes: list[int], mixed: bool) -> int:
        groups = np.repeat(np.arange(len(sizes)), sizes)
        classes = np.arange(len(groups)) % 2 if mixed else groups % 2
        seen = set()
        for seed in range(10):
            folds = StratifiedGroupKFold(2, shuffle=True, random_state=seed)
            parts = [test for _, test in folds.split(groups, classes, groups)]
            seen.add(str([part.tolist() for part in parts]))
        return len(seen)

    sizes = [2, 4, 6, 8, 10, 12, 14, 16]
    one, both = results(sizes, mixed=False), results(sizes, mixed=True)
    assert one == 1 < both
    return f"10 seeds give {one} result, and {both} with both classes in each group"


@claim(
    "torchmetrics scikit-learn",
    "docs/tricks/metrics.md",
    "Such a class does not count in the balanced accuracy, where torchmetrics counts a recall of 0.",
)
def _() -> object:
    import torch
    from sklearn.metrics import balanced_accuracy_score
    from torchmetrics.classification import MulticlassAccuracy

    target, predicted = torch.tensor([0, 0, 1]), torch.tensor([0, 2, 1])
    theirs = MulticlassAccuracy(3, average="macro")(predicted, target).item()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = balanced_accuracy_score(target, predicted)
    assert (ours, theirs) == (0.75, 0.5)
    return ours, theirs


@claim(
    "scikit-learn",
    "docs/tricks/metrics.md",
    "Both are 0 here, as with scikit-learn's `zero_division=0`.",
)
def _() -> object:
    from sklearn.metrics import precision_recall_fscore_support

    scores = precision_recall_fscore_support(
        [0, 0, 1], [0, 0, 2], zero_division=0, labels=[0, 1, 2]
    )
    assert scores[0][1] == 0 and scores[1][2] == 0
    return [part.tolist() for part in scores[:2]]


@claim(
    "scikit-learn",
    "docs/tricks/class_balance.md",
    "whose weights are called `balanced`",
)
def _() -> object:
    import numpy as np
    from sklearn.utils.class_weight import compute_class_weight

    seen = compute_class_weight("balanced", classes=np.arange(2), y=[0, 0, 0, 1])
    assert seen.tolist() == [4 / (2 * 3), 2]
    return f"n / (classes * images of the class): {seen.round(3).tolist()}"


@claim(
    "scikit-learn",
    "docs/start.md",
    "write the 1,797 digits of scikit-learn to `../digits`",
)
def _() -> object:
    from sklearn.datasets import load_digits

    digits = load_digits()
    assert digits.images.shape == (1797, 8, 8) and digits.images.max() == 16
    return digits.images.shape
