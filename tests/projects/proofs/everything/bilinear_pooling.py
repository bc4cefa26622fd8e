"""Bilinear pooling in front of the head."""

import pytest
import torch
from leaf_diseases.errors import UserError
from leaf_diseases.models import bilinear_pooling
from leaf_diseases.models.bilinear_pooling import BilinearPooling, use_bilinear_pooling
from leaf_diseases.models.networks import build_model
from small_world import narrow_cnn, rgb

RGB = rgb(32, 32)
EXAMPLE = RGB.example()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_products_do_not_overflow(dtype: torch.dtype) -> None:
    """Those of 16 bits are computed in float32, and given back in 16."""
    maps = (300 + 100 * torch.randn(2, 3, 4, 4)).to(dtype)
    with torch.autocast("cpu", dtype):
        pooled = BilinearPooling()(maps)
    assert pooled.dtype == dtype
    expected = BilinearPooling()(maps.float()).to(dtype)
    torch.testing.assert_close(pooled, expected, rtol=0, atol=0)


def test_models_of_timm() -> None:
    model = build_model("timm:test_efficientnet", 2, RGB)
    use_bilinear_pooling(model, "it", EXAMPLE)
    assert model(torch.rand(2, 3, 32, 32)).shape == (2, 2)
    [pooling] = [m for m in model.modules() if isinstance(m, BilinearPooling)]
    assert model.get_submodule("global_pool.pool") is pooling


@pytest.mark.parametrize("name", ["squeezenet1_1", "mobilenet_v3_small"])
def test_other_heads_are_refused(name: str) -> None:
    model = build_model(name, 2, RGB)
    with pytest.raises(UserError, match=f"no pooling .* layer of {name}: pass another"):
        use_bilinear_pooling(model, name, EXAMPLE)


def test_heads_that_would_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bilinear_pooling, "LARGEST_HEAD", 16 * 16 * 6)
    use_bilinear_pooling(narrow_cnn(6), "it", EXAMPLE)
    with pytest.raises(UserError, match="makes 256 .* a head of 1,792 weights"):
        use_bilinear_pooling(narrow_cnn(7), "it", EXAMPLE)
