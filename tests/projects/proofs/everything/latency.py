"""Times of passes, by clocks and a device that are not real."""

import sys
from functools import partial
from pathlib import Path
from typing import Any

import latency
import pytest
import torch
import train
from leaf_diseases.data.transforms import Preprocessing
from leaf_diseases.errors import UserError
from leaf_diseases.models import networks
from leaf_diseases.models.weights import save_weights
from leaf_diseases.run_directory import write_config
from leaf_diseases.settings import Settings
from torch import Tensor, nn


def measure(model: nn.Module, **options: Any) -> list[dict[str, Any]]:
    """Returns what is measured on the CPU, after three batches to warm up."""
    arguments = latency.Arguments(warmup=3, **options)
    preprocessing = Preprocessing(8, 8, (0.5,) * 3, (0.5,) * 3)
    return [*latency.measure(model, preprocessing, torch.device("cpu"), arguments)]


def test_each_size_is_compiled_for(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = []

    def compiler(graph: torch.fx.GraphModule, _inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=compiler))
    monkeypatch.setenv("CXX", sys.executable)  # There is one, which is not run.
    model = networks.SmallCNN(5).eval()
    measure(model, batch_sizes=(4, 2, 3), seconds=0.01, compile=True)
    assert len(graphs) == 3  # Else the second one would be for batches of any size.
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("CXX", "nothing")
    with pytest.raises(UserError, match=r"no C\+\+ compiler \(nothing\) for --comp"):
        measure(model, batch_sizes=(4,), seconds=0.01, compile=True)


@pytest.fixture
def weights(settings: Settings) -> Path:
    """Weights of a run."""
    run = train.make_run(settings)
    write_config(run)
    save_weights(run.model, run.directory / "model.pt")
    return run.directory / "model.pt"


QUICK: dict[str, Any] = {
    "batch_sizes": (1, 3),
    "seconds": 0.01,
    "warmup": 1,
    "device": "cpu",
}


def test_models_without_weights_are_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = []

    def build(name: str, outputs: int, example: Tensor) -> nn.Module:
        sizes.append((name, outputs, example.shape[-1]))
        return networks.SmallCNN(outputs)

    monkeypatch.setattr(latency, "build_model", build)
    latency.main(latency.Arguments(model="resnet18", **QUICK))
    latency.main(latency.Arguments(model="resnet18", image_size=8, **QUICK))
    assert sizes == [("resnet18", 1000, 224), ("resnet18", 1000, 8)]
    assert "image_size 8" in capsys.readouterr().out


@pytest.mark.parametrize("options", [{}, {"weights": "model.pt", "model": "cnn"}])
def test_a_model_comes_from_one_place(options: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="pass --weights of a run, or else --model"):
        latency.main(latency.Arguments(device="cpu", **options))
