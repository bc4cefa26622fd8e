"""Runs that begin with weights."""

import io
from email.message import Message
from pathlib import Path
from types import SimpleNamespace
from urllib.response import addinfourl

import pytest
import torch
import torchvision
import train
from leaf_diseases.data.datasets import load_data
from leaf_diseases.data.transforms import Preprocessing
from leaf_diseases.errors import UserError
from leaf_diseases.models.loading import strip_prefixes
from leaf_diseases.models.pretrained import load_fitting, read_torchvision
from leaf_diseases.settings import Settings, replace
from small_world import SMALLEST, WEIGHTS_FILE, narrow_cnn
from test_pretrained import (
    PREPARED,
    begin,
    build_transformer,
    cache,
    file,
    refuse,
    state_of,
)
from torch import nn


def test_downloads_of_other_bytes_are_refused(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(*_: object) -> addinfourl:
        return addinfourl(io.BytesIO(b"an advertisement"), Message(), "")

    monkeypatch.setattr(torch.hub, "urlopen", answer)
    with pytest.raises(UserError, match="invalid hash value") as refused:
        read_torchvision(SMALLEST)
    assert str(refused.value).startswith(
        f"cannot read or download https://download.pytorch.org/models/{WEIGHTS_FILE}: "
        f"check the network, or put the file at {cache / WEIGHTS_FILE} ("
    )
    assert list(cache.iterdir()) == []


def test_only_tensors_are_read_from_the_cache(cache: Path) -> None:
    """Any other object could run code when it is loaded."""
    torch.save({"fc.bias": Path()}, cache / WEIGHTS_FILE)
    with pytest.raises(UserError, match=r"cannot read or .*\(UnpicklingError: "):
        read_torchvision(SMALLEST)


@pytest.mark.parametrize("name", ["googlenet", "inception_v3"])
def test_what_torchvision_does_to_images_is_their_mean(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its layer makes what they know of images that are prepared as for the others."""
    weights = torchvision.models.get_model_weights(name)
    monkeypatch.setattr(weights, "get_state_dict", lambda *_, **__: None)
    monkeypatch.setattr(
        torchvision.models, "get_model", lambda *_, **__: nn.Linear(2, 2)
    )
    found = read_torchvision(name).preprocessing
    assert found is not None
    pixels = torch.randint(256, (2, 3, 4, 4), dtype=torch.uint8)
    images = weights["DEFAULT"].transforms()
    others = Preprocessing((4, 4), (4, 4), images.mean, images.std)
    layer = SimpleNamespace(transform_input=True)
    expected = torchvision.models.GoogLeNet._transform_input(
        layer, others.normalize(pixels)
    )
    torch.testing.assert_close(found.normalize(pixels), expected)


@pytest.mark.usefixtures("cnn_model")
@pytest.mark.parametrize("prefix", ["", "module._orig_mod."])
def test_weights_from_elsewhere(
    settings: Settings, tmp_path: Path, prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With other classes, prefixes, other entries, and without a config.json."""
    saved = narrow_cnn(5).state_dict()
    del saved["features.6.1.bias"]
    weights = {prefix + name: weight for name, weight in saved.items()}
    torch.save({"state_dict": weights, "epoch": 3}, tmp_path / "foreign.pt")
    run = train.make_run(replace(settings, init_weights=tmp_path / "foreign.pt"))
    state = state_of(run, tmp_path)
    fresh = {n for n in state if n not in saved or not torch.equal(state[n], saved[n])}
    assert fresh == {"features.6.1.bias", "classifier.weight", "classifier.bias"}
    said = capsys.readouterr().out
    assert f"there is no {tmp_path / 'config.json'}: images get" in said
    own, width = state["classifier.weight"].shape
    assert (
        f"tensors; 1 missing: features.6.1.bias ({width},); 2 of another shape: "
        f"classifier.weight (5, {width}) instead of ({own}, {width}), classifier.bias "
    ) in said
    plain = load_data(replace(settings, init_weights=None))
    assert run.data.preprocessing == plain.preprocessing


def test_positions_of_other_networks_are_named() -> None:
    model = build_transformer(16)
    weights = {n: w for n, w in model.state_dict().items() if "pos" not in n}
    load_fitting(model, weights)
    load_fitting(model, {**weights, "encoder.pos_embedding": torch.zeros(1, 4, 8)})


def test_a_checkpoint_is_a_file_of_weights(
    settings: Settings, file: Path, tmp_path: Path
) -> None:
    [path] = (file.parent / "checkpoints").iterdir()
    settings = replace(settings, init_weights=path)
    initial = begin(settings)
    assert initial.preprocessing == PREPARED
    state = state_of(train.make_run(settings), tmp_path)
    torch.testing.assert_close(state, initial.weights, rtol=0, atol=0)


@pytest.mark.parametrize("prefix", ["model.", "module.backbone."])
def test_another_prefix_is_taken_off_and_printed(
    prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    own = {name: torch.zeros(1) for name in ("conv.weight", "fc.weight", "fc.bias")}
    found = {prefix + name: weight for name, weight in own.items()}
    found["loss.weight"] = torch.zeros(1)
    assert strip_prefixes(found, own).keys() > own.keys()
    said = f"removed {prefix.removeprefix('module.')} from the names of weights\n"
    assert capsys.readouterr().err == said
    # Of two networks it is not known which is meant, and others do not fit.
    both = found | {f"other.{name}": weight for name, weight in own.items()}
    for names in (both, {"a.conv.weight": torch.zeros(1)}):
        assert not own.keys() & strip_prefixes(names, own).keys()
