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
