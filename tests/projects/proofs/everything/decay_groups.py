"""Groups of weights with and without decay."""

import torch
from leaf_diseases.optim.decay_groups import split_decay
from torch import nn


def test_groups_keep_their_other_options() -> None:
    head, body = nn.Linear(2, 2), nn.Linear(2, 2, bias=False)
    groups = split_decay(
        nn.Sequential(body, head),
        [
            {"params": list(body.parameters()), "lr": 0.1},
            {"params": list(head.parameters()), "lr": 0.5},
        ],
    )
    assert groups == [
        {"params": [body.weight], "lr": 0.1},
        {"params": [head.weight], "lr": 0.5},
        {"params": [head.bias], "lr": 0.5, "weight_decay": 0.0},
    ]


class Transformer(nn.Module):
    """Has what models have besides matrices and biases."""

    def __init__(self) -> None:
        super().__init__()
        self.class_token = nn.Parameter(torch.ones(1, 1, 8))
        self.layer_scale = nn.Parameter(torch.ones(8, 1, 1))
        self.pos_embed = nn.Parameter(torch.ones(1, 5, 8))
        self.pos_embedding = nn.Parameter(torch.ones(1, 5, 8))
        self.query = nn.Parameter(torch.ones(5, 8))
        self.head = nn.Linear(8, 2)

    def no_weight_decay(self) -> set[str]:
        return {"query"}


def test_neither_embeddings_nor_scales_decay() -> None:
    model = Transformer()
    decaying, others = split_decay(model, [{"params": [*model.parameters()]}])
    assert [id(p) for p in decaying["params"]] == [id(model.head.weight)]
    assert len(others["params"]) == 6
