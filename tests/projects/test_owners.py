"""Changes that owners make to their projects, in a file or two, and with few tests broken.

A test of a project breaks only where a change takes back what it promises. What is
wrong with gradients breaks at least one.
"""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from commands import edit
from inspection import PACKAGE
from parts import few_of
from rendering import render_subset
from subsets import Subset, everything
from test_covering import ENVIRONMENT, OWN_TESTS, RECOMMENDED
from zygote import Zygote

WITHOUT = ("class_balance", "grad_clipping", "l1", "label_smoothing")
WITH_SEVERAL = everything(**dict.fromkeys(WITHOUT, False))
"""Everything but what owners add here. The L1 penalty unscales the gradients already."""

Edit = dict[str, list[tuple[str, str]]]
"""Replacements by file: old and new text."""


def an_auxiliary_output() -> Edit:
    """A model that gives two predictions while it learns, and both count in the loss."""
    model = """class TwoHeads(SmallCNN):
    def __init__(self, num_classes: int) -> None:
        super().__init__(num_classes)
        self.auxiliary = nn.Linear(self.classifier.in_features, num_classes)

    def forward(self, images: Tensor) -> Any:
        features = self.features(images).amax(dim=(2, 3))
        outputs = self.classifier(self.dropout(features))
        return (outputs, self.auxiliary(features)) if self.training else outputs


def conv_block("""
    step = """    outputs = model(inputs).float()
    return outputs, *criterion(outputs, targets)
"""
    steps = """    outputs = model(inputs)
    main, *others = outputs if isinstance(outputs, tuple) else (outputs,)
    main = main.float()
    loss, sums = criterion(main, targets)
    for other in others:
        loss = loss + 0.4 * criterion(other.float(), targets)[0]
    return main, loss, sums
"""
    return {
        f"{PACKAGE}/models/networks.py": [
            ("def conv_block(", model),
            ("= SmallCNN(", "= TwoHeads("),
        ],
        f"{PACKAGE}/task.py": [(step, steps)],
    }


STEP = "    updated = scaled_step(run.scaler, run.optimizer)\n"
CLIP = "    clip_grad_norm_(run.model.parameters(), 1.0)\n"
IMPORTED = "from torch import Tensor"
IMPORT = (IMPORTED, f"from torch.nn.utils import clip_grad_norm_\n{IMPORTED}")


def clipping() -> Edit:
    unscale = "    run.scaler.unscale_(run.optimizer)\n"
    return {"train.py": [(STEP, unscale + CLIP + STEP), IMPORT]}


def clipping_of_scaled_gradients() -> Edit:
    return {"train.py": [(STEP, CLIP + STEP), IMPORT]}


def clipping_of_micro_batches() -> Edit:
    end = "    return loss, sums\n"
    backward = ".backward()\n"
    return {"train.py": [(backward + end, backward + CLIP + end), IMPORT]}


def own_criterion() -> Edit:
    loss = 'F.cross_entropy(logits, targets, reduction="sum")'
    weighted = (
        'F.cross_entropy(logits, targets, WEIGHTS.to(logits.device), reduction="sum")'
    )
    weights = "\nWEIGHTS = Tensor([1.0, 2.0, 1.0, 1.0, 0.5, 1.0])\n\nMETRICS = "
    return {
        f"{PACKAGE}/settings.py": [('default="adamw"', 'default="sgd"')],
        f"{PACKAGE}/task.py": [(loss, weighted), ("\nMETRICS = ", weights)],
    }


BUGS = {
    "model": (f"{PACKAGE}/models/networks.py", "        features = self.features("),
    "made model": (f"{PACKAGE}/models/networks.py", "        self.dropout = "),
    "data": (f"{PACKAGE}/data/shapes.py", "        rng = self.generator("),
    "transform": (f"{PACKAGE}/data/transforms.py", "        (height, width), (least"),
    "task": (f"{PACKAGE}/task.py", "        predictions = "),
}
"""Lines of what owners write themselves, in the place of which they may have a bug."""


KINDS = ("KeyError", "OSError", "RuntimeError", "ValueError")
"""The classes of errors, among them those that a project catches somewhere."""


@pytest.mark.parametrize("place", few_of(BUGS, 0))
def test_a_bug_shows_as_a_traceback(place, tmp_path, zygote):
    project = render_subset(tmp_path / "project", everything())
    name, line = BUGS[place]
    path = project / name
    text = path.read_text(encoding="utf-8")
    assert text.count(line) == 1
    for kind in KINDS:
        bug = f'        raise {kind}("my own bug")\n'
        path.write_text(text.replace(line, bug + line), encoding="utf-8")
        options = ("--image-size", 8, "--num-workers", 0, "--device", "cpu")
        result = zygote.run(project, "train.py", *options)
        assert result.returncode == 1
        assert re.search(rf'{path}", line .*\n    raise {kind}\(', result.stderr)
        assert "error: " not in result.stderr
        assert result.stderr.endswith(("my own bug\n", "'my own bug'\n"))


def apply(change: Edit, project: Path) -> None:
    for name, replacements in change.items():
        for old, new in replacements:
            edit(project / name, old, new)


def check_changes(
    edits: Iterable[Edit], project: Path, zygote: Zygote, broken: set[str]
) -> None:
    """Makes changes, which break none but these own tests."""
    for change in edits:
        apply(change, project)
    found, said = broken_tests(project, zygote)
    assert found <= broken, said


def broken_tests(project: Path, zygote: Zygote, *options: str) -> tuple[set[str], str]:
    """Returns which own tests of a project fail, and what pytest says."""
    result = zygote.pytest(
        *(project, *OWN_TESTS, "--tb=line", *options),
        timeout=900,
        environment=ENVIRONMENT,
    )
    said = result.stdout + result.stderr
    assert re.search(r"\d+ passed", said), said
    return {*re.findall(r"^(?:FAILED|ERROR) (\S+)", said, re.MULTILINE)}, said


GOOD = (an_auxiliary_output, clipping, own_criterion)
"""Changes that are made together."""

OF_OTHER_CLASSES = {
    "tests/test_task.py::test_accuracy_counts_the_classes_that_are_right",
    "tests/models/test_channels_last.py::test_loss_and_gradients_are_those_of_the_other_layout",
    "tests/data/test_mixup.py::test_accuracy_weighs_both_labels",
    "tests/test_class_metrics.py::test_five_of_six_classes_are_in_the_top_five",
}
"""Tests with classes that the owner's criterion has no weights for, or with one output alone."""

WRONG = [
    (clipping_of_scaled_gradients, RECOMMENDED),
    (clipping_of_scaled_gradients, WITH_SEVERAL),
    (clipping_of_micro_batches, Subset.of("accumulation")),
    (clipping_of_micro_batches, WITH_SEVERAL),
]


@pytest.mark.proof
@pytest.mark.share
@pytest.mark.parametrize("subset", [RECOMMENDED, WITH_SEVERAL], ids=str)
def test_changes_break_few_tests(subset, tmp_path, zygote):
    project = render_subset(tmp_path / "project", subset)
    check_changes([change() for change in GOOD], project, zygote, OF_OTHER_CLASSES)


@pytest.mark.proof
@pytest.mark.share
@pytest.mark.parametrize(("change", "subset"), WRONG)
def test_a_wrong_change_breaks_a_test(change, subset, tmp_path, zygote):
    project = render_subset(tmp_path / "project", subset)
    apply(change(), project)
    broken, said = broken_tests(project, zygote, "--exitfirst")
    assert broken
    assert "NameError" not in said, said
