"""The loop on a GPU, shown without one: by what fake tensors of CUDA go through.

Streams, memory and times stay what only a GPU shows (tests/projects/test_gpu.py).
"""

import json

import fake_gpu
import pytest
import training
from parts import few_of
from rendering import render_subset
from subsets import (
    AVERAGES,
    SEED_OF_PAIRS,
    TASKS,
    Subset,
    covering_array,
    everything,
    recommended,
)

RECOMMENDED = recommended()

MANY = Subset.of(
    *(*RECOMMENDED.tricks, "accumulation", "channels_last", "class_balance"),
    *("distillation", "ema", "grad_clipping", "l1", "label_smoothing", "mixup", "swa"),
)
"""The tricks that could make a step wait, or change the type of a loss or a layout."""

FUSED_SGD = Subset.of(*MANY.tricks, "fused_optimizer")

MUON = Subset.of(*FUSED_SGD.tricks, "muon")

ROWS = [
    row
    for row in covering_array(2, SEED_OF_PAIRS)[2:]
    if row.parallel in ("none", "dp") and "amp" in row.tricks
    # torchvision's detectors wait for the number of their boxes.
    if row.task != "detection"
]

NONE, BFLOAT16, FLOAT16 = "none", "bfloat16", "float16"

CASES = {
    "minimal": (Subset.of(), {}, [NONE]),
    "recommended": (RECOMMENDED, {}, [BFLOAT16]),
    "many": (MANY, {}, [NONE, BFLOAT16, FLOAT16]),
    "fused-sgd": (FUSED_SGD, {"optimizer": "sgd"}, [NONE, FLOAT16]),
    "muon": (MUON, {"optimizer": "muon"}, [NONE, FLOAT16]),
    "everything": (everything(), {"pooling": "bilinear"}, [NONE, BFLOAT16, FLOAT16]),
    **{
        task: (everything(task=task, parallel="dp"), {}, [BFLOAT16])
        for task in TASKS[1:]
        if task != "detection"
    },
    "a row": (ROWS[0], {}, [BFLOAT16, FLOAT16]),
    "another row": (ROWS[1], {}, [BFLOAT16, FLOAT16]),
}
"""Subsets of the tricks, settings, and types of mixed precision."""

AT_ONCE = ("everything", FLOAT16)

WANTED = {"compile_mode": "none", "freeze": ["*s.0.*"], "swa_start": 0}
"""Settings of all projects that have them. Fake tensors are not compiled."""


@pytest.fixture
def find(tmp_path, zygote):
    """Trains a project on a fake GPU, and returns what was found."""

    def train(subset: Subset, **settings: object) -> dict:
        project = render_subset(tmp_path / "project", subset)
        training.make_shapes_few(project)  # The last batch is a short one.
        said = zygote.output(
            *(project, fake_gpu.SCRIPT, json.dumps(WANTED | settings)),
            environment={"CUDA_VISIBLE_DEVICES": ""},
        )
        return json.loads(said.splitlines()[-1])

    return train


PAIRS = [(case, kind) for case, (*_, kinds) in CASES.items() for kind in kinds]


@pytest.mark.parametrize(("case", "kind"), few_of(PAIRS, PAIRS.index(AT_ONCE)))
def test_nothing_waits_for_the_gpu(find, case, kind):
    subset, settings, _ = CASES[case]
    found = find(subset, amp_dtype=kind, **settings)
    trained = "windows" if "accumulation" in subset.tricks else "batches"
    passes = [f"train_{trained}", "on_device"]
    passes += ["plain_inputs"] if "swa" in subset.tricks else []
    assert set(found["batches"]) == {f"{name} {i}" for name in passes for i in (0, 1)}
    # What is random in an epoch is copied at its beginning, and what never changes once.
    waits = [
        (name, batch, what)
        for name, batch, what in found["waits"]
        if batch or not what.startswith("blocking copy")
    ]
    assert waits != found["waits"]
    timed = [wait for wait in waits if wait[2].endswith(" log_first_step")]
    assert len(timed) == 1
    waits.remove(*timed)
    if kind == "float16":
        # Whether a gradient overflowed.
        assert len(waits) == found["steps"]
        assert len({wait[:2] for wait in waits}) == len(waits)
        assert {name.split()[0] for name, *_ in waits} == {f"train_{trained}"}
    else:
        assert waits == []
    assert found["losses"] == ["torch.float32"]
    assert found["convolutions"] == [f"torch.{'float32' if kind == 'none' else kind}"]
    last = "channels_last" in subset.tricks
    averages = AVERAGES & set(subset.tricks)
    assert {*averages, "images", "gradients", "momenta"} == set(found["layouts"])
    for what, layouts in found["layouts"].items():
        assert set(layouts) == {last}, what
    assert found["streams"] == ("prefetcher" in subset.tricks)


@pytest.mark.proof
def test_what_is_kept_on_the_device_is_copied_once(find):
    subset = Subset.of("device_augment", "prefetcher", "swa")
    found = find(subset, data_on_device=True)
    for name in ("train_batches", "plain_inputs"):
        for epoch in (0, 1):
            key = f"{name} {epoch}"
            # The numbers of the images that are in a batch.
            assert found["copies"][key] == found["batches"][key]
    assert all(batch == 0 for _, batch, _ in found["waits"])
