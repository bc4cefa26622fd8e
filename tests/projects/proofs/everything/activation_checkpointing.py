"""Activation checkpointing."""

import copy

import torch
from leaf_diseases.models.activation_checkpointing import find_blocks, recompute_blocks
from test_activation_checkpointing import Block
from torch import Tensor, nn


class ListChain(nn.Sequential):
    """Passes on a list, as HRNet of timm does, and changes it on the way."""

    def forward(self, images: list[Tensor]) -> list[Tensor]:
        images[0] = super().forward(images[0])
        return images


class Stage(nn.Module):
    """Has blocks in it, as the stages of timm's ConvNeXt."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(Block(4), Block(4))

    def forward(self, images: Tensor) -> Tensor:
        return self.blocks(images)


def test_blocks_are_the_parts_of_stages() -> None:
    stages = [Stage(), Stage()]
    blocks = [block for stage in stages for block in stage.blocks]
    assert list(find_blocks(nn.Sequential(*stages))) == blocks
    assert list(find_blocks(ListChain(*blocks))) == []


class ScaledPair(nn.Module):
    """Takes two tensors and a number, and returns two."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(
        self, pair: tuple[Tensor, Tensor], *, scale: float
    ) -> tuple[Tensor, Tensor]:
        return self.linear(pair[0]) * scale, pair[0] + pair[1]


def test_blocks_get_all_that_they_are_called_with() -> None:
    model = nn.Sequential(ScaledPair())
    recomputed = copy.deepcopy(model)
    recompute_blocks(recomputed)
    pair, found = (torch.rand(4, 3), torch.rand(4, 3)), []
    for block in (model[0], recomputed[0]):
        outputs = block(pair, scale=2.0)
        outputs[0].sum().backward()
        found.append([*outputs, *(p.grad for p in block.parameters())])
    torch.testing.assert_close(*found, rtol=0, atol=0)


def test_a_copy_for_a_gpu_computes_with_its_own_weights() -> None:
    model = nn.Sequential(nn.Sequential(nn.Linear(2, 2)))
    recompute_blocks(model)
    # As nn.DataParallel makes one, which takes GPUs.
    replica = model[0]._replicate_for_data_parallel()
    linear = replica[0] = nn.Linear(2, 2)
    images = torch.rand(3, 2)
    torch.testing.assert_close(replica(images), linear(images), rtol=0, atol=0)
