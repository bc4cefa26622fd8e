"""Automatic mixed precision."""

from contextlib import nullcontext
from typing import Any

import pytest
import torch
import train
from leaf_diseases.errors import UserError
from leaf_diseases.optim.amp import choose_amp_dtype
from leaf_diseases.settings import Settings
from test_amp import layers, settings

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("name", "device", "expected"),
    [
        ("auto", "cuda:0", torch.float16),
        ("auto", "cuda:1", torch.bfloat16),
        ("bfloat16", "cuda:0", torch.bfloat16),
        ("float16", "cpu", torch.float16),
        ("none", "cuda:1", None),
    ],
)
def test_choice_of_the_type(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    device: str,
    expected: torch.dtype | None,
) -> None:
    """The second GPU has bfloat16, and the first one, which is current, has not."""
    current = [torch.device("cuda:0")]

    def make_current(device: torch.device) -> Any:
        current.append(device)
        return nullcontext()

    def is_supported(including_emulation: bool) -> bool:
        return current[-1].index == 1 or including_emulation

    monkeypatch.setattr(torch.cuda, "device", make_current)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", is_supported)
    assert choose_amp_dtype(name, torch.device(device)) == expected


@pytest.mark.parametrize(
    ("by_onednn", "supported", "expected"),
    [(True, True, torch.bfloat16), (True, False, None), (False, True, None)],
)
def test_automatic_choice_on_a_cpu(
    monkeypatch: pytest.MonkeyPatch,
    by_onednn: bool,
    supported: bool,
    expected: torch.dtype | None,
) -> None:
    assert choose_amp_dtype("auto", CPU) in (torch.bfloat16, None)
    name = "_is_mkldnn_bf16_supported"
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: by_onednn)
    monkeypatch.setattr(torch.ops.mkldnn, name, lambda: supported, raising=False)
    assert choose_amp_dtype("auto", CPU) == expected


def test_evaluation_judges_an_epoch_without_a_step(settings: Settings) -> None:
    run = train.make_run(settings)
    layer = layers(run.model)[-1]
    layer.register_forward_hook(lambda module, inputs, output: output / 0)
    record = train.train_epoch(run)
    assert (run.progress.step, run.progress.sums.samples) == (0, 0)
    with pytest.raises(UserError, match=r"validation loss .* another --amp-dtype"):
        train.evaluate_and_save(run, record)
