"""Changes that owners make to their projects: each in two files, and with few tests broken.

A test of a project breaks only where a change takes back what it promises. What is
wrong with gradients breaks at least one.
"""

import difflib
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from inspection import PACKAGE
from parts import few_of
from rendering import render_subset
from subsets import Subset, everything
from test_covering import ENVIRONMENT, OWN_TESTS, RECOMMENDED
from zygote import Zygote

MOST_FILES = 2
MOST_LINES = 35

WITHOUT = ("class_balance", "grad_clipping", "l1", "label_smoothing")
WITH_SEVERAL = everything(**dict.fromkeys(WITHOUT, False))
"""Everything but what owners add here. The L1 penalty unscales the gradients already."""

Edit = dict[str, list[tuple[str, str]]]
"""Replacements by file: old and new text."""


WITH_SPLITS = (
    "import FileImages, describe_images\n",
    "import FileImages, describe_images, split_by_share\n",
)
"""What a data set of image files imports."""


def labels_from_the_names_of_files() -> Edit:
    opened = '''def open_named(settings: Settings, size: int) -> tuple[FileImages, FileImages]:
    """Opens images whose names begin with their class, as in DATA_DIR/rust-17.jpg."""
    files = sorted(settings.data_dir.glob("*.jpg"))
    labels = [file.name.partition("-")[0] for file in files]
    classes = sorted(set(labels))
    images = FileImages(files, [classes.index(label) for label in labels], classes)
    share, seed = settings.val_share, settings.split_seed
    return split_by_share(images, settings.data_dir, share, seed)


DATASETS = {
    "named": DatasetSpec(open_named, 224, crop_and_mirror, SCALED),
'''
    return {f"{PACKAGE}/data/datasets.py": [WITH_SPLITS, ("DATASETS = {\n", opened)]}


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


def apply(edit: Edit, project: Path) -> None:
    """Makes a change, of few lines in few files."""
    written = 0
    for name, replacements in edit.items():
        path = project / name
        before = text = path.read_text(encoding="utf-8")
        for old, new in replacements:
            assert old in text, f"{name} does not hold {old!r}"
            text = text.replace(old, new)
        path.write_text(text, encoding="utf-8")
        lines = difflib.ndiff(before.splitlines(), text.splitlines())
        written += sum(line.startswith("+ ") for line in lines)
    assert len(edit) <= MOST_FILES
    assert written <= MOST_LINES


def check_changes(
    edits: Iterable[Edit], project: Path, zygote: Zygote, broken: set[str]
) -> None:
    """Makes changes, which break none but these own tests."""
    for edit in edits:
        apply(edit, project)
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


GOOD = {
    RECOMMENDED: (
        *(labels_from_the_names_of_files, an_auxiliary_output),
        *(clipping, own_criterion),
    ),
    WITH_SEVERAL: (an_auxiliary_output, clipping, own_criterion),
    Subset.of("folders"): (labels_from_the_names_of_files,),
}
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
@pytest.mark.parametrize("subset", GOOD, ids=str)
def test_changes_break_few_tests(subset, tmp_path, zygote):
    project = render_subset(tmp_path / "project", subset)
    edits = [change() for change in GOOD[subset]]
    check_changes(edits, project, zygote, OF_OTHER_CLASSES)


@pytest.mark.proof
@pytest.mark.share
@pytest.mark.parametrize(("change", "subset"), WRONG)
def test_a_wrong_change_breaks_a_test(change, subset, tmp_path, zygote):
    project = render_subset(tmp_path / "project", subset)
    apply(change(), project)
    broken, said = broken_tests(project, zygote, "--exitfirst")
    assert broken
    assert "NameError" not in said, said
