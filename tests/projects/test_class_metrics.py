"""Metrics of each class are those of scikit-learn."""

import warnings

import pytest
import torch
from rendering import load_module, render_subset
from subsets import Subset

CLASSES = 8


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    project = tmp_path_factory.mktemp("metrics") / "project"
    render_subset(project, Subset.of("metrics"))
    return load_module(project, "class_metrics")


@pytest.mark.parametrize("seed", range(5))
def test_they_are_those_of_scikit_learn(module, seed):
    """Also with a class that has no images, one that is not predicted, and one that is neither."""
    from sklearn import metrics  # It takes a second, which not every worker needs.

    generator = torch.Generator().manual_seed(seed)
    targets = torch.randint(CLASSES, (200,), generator=generator)
    logits = torch.randn(200, CLASSES, generator=generator)
    logits[range(200), targets] += 1
    absent, unpredicted, unknown = torch.randperm(CLASSES, generator=generator)[:3]
    targets[(targets == absent) | (targets == unknown)] = unpredicted
    logits[:, [unpredicted, unknown]] = -9
    counts = module.count_confusion(logits, targets)
    predicted, every = logits.argmax(dim=1), list(range(CLASSES))
    expected = metrics.confusion_matrix(targets, predicted, labels=every)
    assert counts.tolist() == expected.tolist()
    assert counts[absent].sum() == counts[:, unpredicted].sum() == 0
    assert counts[unknown].sum() == counts[:, unknown].sum() == 0
    scores = module.scores_by_class(counts)
    pairs = metrics.precision_recall_fscore_support(
        targets, predicted, labels=every, zero_division=0
    )
    for name, values in zip(("precision", "recall", "f1"), pairs, strict=False):
        assert scores[name].tolist() == pytest.approx(values, rel=1e-12)
    means = module.mean_scores(counts)
    *macro, _ = metrics.precision_recall_fscore_support(
        targets, predicted, average="macro", zero_division=0
    )
    assert [means["precision"], means["recall"], means["f1"]] == pytest.approx(macro)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "y_pred contains classes not in y_true")
        balanced = metrics.balanced_accuracy_score(targets, predicted)
    assert means["balanced_accuracy"] == pytest.approx(balanced)
    top5 = metrics.top_k_accuracy_score(targets, logits, k=5, labels=every)
    assert module.count_top5(logits, targets) / 200 == pytest.approx(top5)
