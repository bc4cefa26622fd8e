"""Learning rates that fall from head to stem."""

from fnmatch import fnmatchcase

import pytest
import torch
import torchvision
from leaf_diseases.models.networks import build_model
from leaf_diseases.optim.layerwise import find_levels, parameter_blocks
from small_world import narrow_cnn, rgb
from torch import nn

BLOCKS: dict[str, list[str]] = {
    "cnn": [*(f"features.{number}.*" for number in (0, 2, 4, 6)), "classifier.*"],
    "resnet18": [
        "[cb]*1.*",
        *(f"layer{stage}.{block}.*" for stage in (1, 2, 3, 4) for block in (0, 1)),
        "fc.*",
    ],
    "mobilenet_v3_small": [
        *(f"features.{number}.*" for number in range(13)),
        "classifier.0.*",
        "classifier.3.*",
    ],
    "vit_b_16": [
        # The class token, the embedding of patches, and that of positions.
        "c*|encoder.pos_embedding",
        *(f"encoder.layers.encoder_layer_{number}.*" for number in range(11)),
        "encoder.layers.encoder_layer_11.*|encoder.ln.*",
        "heads.*",
    ],
    "timm:test_vit": [
        "cls_token|reg_token|pos_embed|patch_embed.*|norm_pre.*",
        *(f"blocks.{number}.*" for number in range(5)),
        "blocks.5.*|norm.*",
        "head.*",
    ],
    "timm:test_convnext": [
        "stem.*",
        "stages.0.blocks.0.*",
        "stages.1.downsample.*|stages.1.blocks.0.*",
        "stages.1.blocks.1.*",
        "stages.2.downsample.*|stages.2.blocks.0.*",
        *(f"stages.2.blocks.{number}.*" for number in (1, 2, 3)),
        "stages.3.downsample.*|stages.3.blocks.0.*",
        "stages.3.blocks.1.*",
        "head.*",
    ],
}
"""The names of the weights of each block."""


def build(name: str) -> nn.Module:
    """Builds a model, without data if it is not timm's."""
    if name.startswith("timm:"):
        return build_model(name, 6, rgb(32, 32))
    with torch.device("meta"):
        if name == "cnn":
            return narrow_cnn(6)
        return torchvision.models.get_model(name, num_classes=6)


@pytest.mark.parametrize("model", BLOCKS)
def test_blocks_are_those_that_people_see(model: str) -> None:
    built = build(model)
    names = {weight: name for name, weight in built.named_parameters()}
    # timm names the blocks of its models.
    find = find_levels if model.startswith("timm:") else parameter_blocks
    blocks = find(built)
    for block, patterns in zip(blocks, BLOCKS[model], strict=True):
        for weight in block:
            matched = [fnmatchcase(names[weight], p) for p in patterns.split("|")]
            assert any(matched), (names[weight], patterns)
    found = [id(weight) for block in blocks for weight in block]
    assert sorted(found) == sorted(id(weight) for weight in names)


@pytest.mark.parametrize("count", [1, 14, 40])
def test_deep_networks_have_no_more_levels(count: int) -> None:
    """Levels keep the order of layers, and have as many each, or one more."""
    layers = [nn.Linear(2, 2) for _ in range(count)]
    levels = find_levels(nn.Sequential(*layers))
    assert len(levels) == min(count, 14)
    assert levels[-1] == [layers[-1].weight, layers[-1].bias]
    found = [id(weight) for level in levels for weight in level]
    assert found == [id(weight) for layer in layers for weight in layer.parameters()]
    sizes = {len(level) // 2 for level in levels[:-1]}
    assert max(sizes, default=0) - min(sizes, default=0) <= 1


def test_containers_are_taken_apart() -> None:
    """Though the last layer holds most of the weights."""
    layers = [nn.Linear(2, 2) for _ in range(6)]
    containers = (
        nn.Sequential(*layers[:2]),
        nn.ModuleList(layers[2:4]),
        nn.ModuleDict({"a": layers[4], "b": layers[5]}),
    )
    blocks = parameter_blocks(nn.Sequential(*containers, nn.Linear(9, 9)))
    assert blocks[:-1] == [[layer.weight, layer.bias] for layer in layers]


def test_what_has_no_matrix_is_no_level() -> None:
    norm = nn.LayerNorm(2)
    assert find_levels(norm) == [[norm.weight, norm.bias]]
