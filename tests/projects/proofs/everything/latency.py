"""Times of passes, by clocks and a device that are not real."""

import sys
from functools import partial
from typing import Any

import latency
import pytest
import torch
from leaf_diseases.data.transforms import Preprocessing
from leaf_diseases.errors import UserError
from leaf_diseases.models import networks
from test_latency import QUICK, measure, weights
from torch import nn


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


def test_models_without_weights_are_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = []

    def build(name: str, outputs: int, preprocessing: Preprocessing) -> nn.Module:
        sizes.append((name, outputs, *preprocessing.crop_size))
        return networks.SmallCNN(outputs)

    monkeypatch.setattr(latency, "build_model", build)
    latency.main(latency.Arguments(model="resnet18", **QUICK))
    latency.main(latency.Arguments(model="resnet18", image_size=(8, 16), **QUICK))
    assert sizes == [("resnet18", 1000, 224, 224), ("resnet18", 1000, 8, 16)]
    assert "height 8, width 16" in capsys.readouterr().out
