"""Models of timm, without the network."""

import subprocess
import sys
from pathlib import Path

import pytest
import timm
import torch
import train
from leaf_diseases.errors import UserError
from leaf_diseases.models import timm_models
from leaf_diseases.models.freezing import freeze, frozen_norms
from leaf_diseases.models.networks import build_model
from leaf_diseases.models.pretrained import load_fitting
from leaf_diseases.optim.layerwise import find_levels
from leaf_diseases.settings import Settings, replace
from small_world import rgb
from test_timm_models import cache, saved
from timm.layers import resample_abs_pos_embed


@pytest.mark.parametrize(
    ("name", "tries"),
    [
        ("timm:resnet-18", "timm:resnet18 or "),
        ("timm:test_resnet.r160", r"timm:test_resnet\.r160_in1k"),
        ("timm:", "timm:resnet18$"),
    ],
)
def test_unknown_names_bring_suggestions(name: str, tries: str) -> None:
    with pytest.raises(UserError, match=f"no model {name}: try --model {tries}"):
        build_model(name, 5, rgb(32, 32))


def test_encoders_without_a_classifier_are_refused() -> None:
    """Their weights are no matter, nor is what they would compute."""
    with torch.device("meta"), pytest.raises(UserError, match="has no head: p"):
        build_model("timm:qwen3_vit_88m_enc", 5, rgb(768, 768))


def test_only_its_models_cost_its_import() -> None:
    program = "import sys, train; sys.exit('timm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_batch_norm_of_its_own_class_is_frozen() -> None:
    model = build_model("timm:test_efficientnet", 5, rgb(32, 32))
    freeze(model, ["bn1.*"])
    assert frozen_norms(model) == [model.get_submodule("bn1")]


@pytest.mark.parametrize("name", ["test_efficientnet", "vit_tiny_patch16_224"])
def test_last_norms_are_no_level(name: str) -> None:
    levels = find_levels(build_model(f"timm:{name}", 6, rgb(32, 32)))
    assert all(any(weight.ndim > 1 for weight in level) for level in levels)


@pytest.mark.parametrize(
    ("name", "resampled"),
    [
        ("test_vit", ["pos_embed"]),
        ("test_vit_relpos", []),
        ("test_coatnet", ["rel_pos.relative_position_bias_table"]),
        ("convit_tiny", ["pos_embed"]),
    ],
)
def test_what_depends_on_the_size_of_images_is_resampled(
    name: str, resampled: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where timm itself would not, as in the last one."""
    small, large = (
        build_model(f"timm:{name}", 6, rgb(size, size)) for size in (64, 128)
    )
    weights = {n: torch.full_like(w, 0.5) for n, w in small.state_dict().items()}
    load_fitting(large, weights)
    said, total = capsys.readouterr().out, len(weights)
    assert said.endswith(f"loaded {total} of {total} tensors\n")
    assert all(part in said for part in resampled)
    assert ("resampled to the size of the images" in said) == bool(resampled)
    for own, weight in large.state_dict().items():
        torch.testing.assert_close(weight, torch.full_like(weight, 0.5), msg=own)


@pytest.mark.parametrize(
    ("name", "size", "grid"), [("test_vit", 64, (4, 8)), ("cait_xxs24_224", 32, (2, 4))]
)
def test_positions_are_resampled_to_a_height_and_width(
    name: str, size: int, grid: tuple[int, int]
) -> None:
    small, large = (
        build_model(f"timm:{name}", 6, rgb(size, width)) for width in (size, 2 * size)
    )
    weights = small.state_dict()
    before = weights["pos_embed"].normal_()
    load_fitting(large, weights)
    prefix = before.shape[1] - grid[0] ** 2
    expected = resample_abs_pos_embed(before, grid, num_prefix_tokens=prefix)
    assert torch.equal(large.state_dict()["pos_embed"], expected)


def test_positions_of_an_unknown_grid_are_new(
    capsys: pytest.CaptureFixture[str],
) -> None:
    small, large = (
        build_model("timm:crossvit_tiny_240", 6, rgb(240, width))
        for width in (240, 480)
    )
    load_fitting(large, small.state_dict())
    said = capsys.readouterr().out
    assert "2 of another shape: pos_embed_0 " in said
    assert "resampled" not in said


@pytest.mark.usefixtures("cache")
def test_no_network_is_one_line(settings: Settings) -> None:
    settings = replace(settings, model="timm:test_resnet", pretrained=True)
    line = (
        r"of https://huggingface\.co/timm/test_resnet\.r160_in1k: check the network, "
        r"or bring the cache of a machine that has it \(LocalEntryNotFoundError: "
    )
    with pytest.raises(UserError, match=line):
        train.main(settings)


@pytest.mark.usefixtures("saved")
def test_damaged_weights_are_refused(cache: Path) -> None:
    [path] = cache.rglob("*.safetensors")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UserError, match="cannot read or download model.safetensors"):
        timm_models.read_timm("timm:test_resnet")


def test_models_without_weights_are_refused() -> None:
    names = timm.list_models()
    name = next(n for n in names if not timm.get_pretrained_cfg(n).hf_hub_id)
    with pytest.raises(UserError, match=f"no weights of timm:{name}: pass another"):
        timm_models.read_timm(f"timm:{name}")
