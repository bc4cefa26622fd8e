"""Export to ONNX and .pt2."""

from pathlib import Path

import export
import pytest
import torch
from leaf_diseases.errors import UserError
from leaf_diseases.settings import Settings
from test_export import export_own
from torch import Tensor, nn


def test_files_do_not_say_where_they_were_made(
    settings: Settings, tmp_path: Path
) -> None:
    export_own(settings, nn.Identity())
    for name in ("own.pt2", "own.onnx"):
        content = (tmp_path / "run" / name).read_bytes()
        assert str(Path(export.__file__).parent).encode() not in content


def test_what_cannot_be_traced_is_said(settings: Settings) -> None:
    def by_value(outputs: Tensor) -> Tensor:
        return outputs if outputs.sum() > 0 else -outputs

    with pytest.raises(UserError, match=r"cannot trace cnn: .* \(GuardOnDataDep") as no:
        export_own(settings, by_value)
    assert "\n" not in str(no.value)


def test_what_onnx_has_not_is_said_and_the_other_file_is_there(
    settings: Settings, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=r"leave onnx out .* \(DispatchError: .*airy"):
        export_own(settings, torch.special.airy_ai)
    assert export_own(settings, torch.special.airy_ai, ("pt2",)) == ["own.pt2"]


def test_errors_of_the_model_are_its_own(settings: Settings) -> None:
    def fail(outputs: Tensor) -> Tensor:
        raise ZeroDivisionError("a bug of my own")

    with pytest.raises(ZeroDivisionError):
        export_own(settings, fail)


def test_weights_that_onnx_cannot_hold_are_refused(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "ONNX_BYTES", 4 * (3 * 2 + 2))
    with pytest.raises(UserError, match="pass --formats pt2"):
        export_own(settings, nn.Identity())
    assert export_own(settings, nn.Identity(), ("pt2",)) == ["own.pt2"]
