"""Outputs of layers."""

import pytest
import torch
from leaf_diseases.errors import UserError
from leaf_diseases.models.layer_outputs import mean_over_positions, record_outputs
from test_layer_outputs import CALLED, Network


@pytest.mark.parametrize(
    ("shape", "positions"),
    [
        ((2, 5, 4, 4), (2, 3)),
        ((2, 4, 4, 5), (1, 2)),  # As Swin's maps.
        ((2, 5, 1, 1), (2, 3)),
        ((2, 9, 5), (1,)),
        ((2, 5), ()),
    ],
)
@pytest.mark.parametrize("size", [(64, 64), (7, 7)])
def test_means_are_over_positions(
    shape: tuple[int, ...], positions: tuple[int, ...], size: tuple[int, int]
) -> None:
    outputs = torch.rand(shape)
    expected = outputs.mean(positions) if positions else outputs
    assert torch.equal(mean_over_positions(outputs, size), expected)
    assert expected.shape == (2, 5)


@pytest.mark.parametrize(
    ("name", "tries"),
    [
        ("conw", "conv "),
        ("attention", "penultimate "),  # Its output is a tuple.
        ("rows", "penultimate "),  # It has a row for each token.
        ("unused", "penultimate "),  # It is never called.
    ],
)
def test_other_names_are_refused(name: str, tries: str) -> None:
    message = f"no layer {name} with .* try --layers {tries}"
    with pytest.raises(UserError, match=message):
        record_outputs(Network(), (name,), list(CALLED))
