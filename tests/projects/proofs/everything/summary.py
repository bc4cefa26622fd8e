"""The table of the model's layers."""

import pytest
import torch
from leaf_diseases.models.summary import summarize
from torch import Tensor, nn


class Attention(nn.Module):
    """Has a layer that torch computes otherwise in evaluation, and returns two tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.TransformerEncoderLayer(64, 2, 16, batch_first=True)
        self.token = nn.Parameter(torch.zeros(1, 3, 64))
        self.norm = nn.Identity()
        self.unused = nn.Linear(1, 1)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        tokens = self.encoder(images.flatten(2) + self.norm(self.token))
        return tokens, tokens.mean(1)


@pytest.mark.parametrize("trained", [False, True])
def test_attention_counts(trained: bool) -> None:
    model = Attention().requires_grad_(trained)
    layers = summarize(model, torch.ones(1, 3, 8, 8)).layers
    counts = {layer.name: layer.multiply_adds for layer in layers}
    tokens, width, hidden = 3, 64, 16
    products = 2 * tokens * tokens * width  # Of queries with keys, and with values.
    assert counts["encoder.self_attn"] == 4 * tokens * width**2 + products
    assert counts[""] == counts["encoder.self_attn"] + 2 * tokens * width * hidden
    shapes = {layer.name: layer.output for layer in layers}
    assert (shapes[""], shapes["unused"]) == ("1 x 3 x 64", "")
