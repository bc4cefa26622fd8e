"""Loading weights."""

import os
import pathlib
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from leaf_diseases.errors import UserError
from leaf_diseases.models.loading import load_weights
from leaf_diseases.models.weights import save_weights
from torch import nn


def test_damaged_weights_are_refused(tmp_path: Path) -> None:
    """Most flipped bits would load silently wrong."""
    model, path = nn.Linear(64, 64), tmp_path / "model.pt"
    save_weights(model.state_dict(), path)
    whole = path.read_bytes()
    middle = whole.index(model.weight.detach().numpy().tobytes()) + 2**13
    for flip in (middle, whole.rindex(b"PK\1\2") + 38):  # The latter makes a folder.
        path.write_bytes(whole[:flip] + bytes([whole[flip] ^ 16]) + whole[flip + 1 :])
        with pytest.raises(UserError, match="is damaged, .* is corrupt"):
            load_weights(model, path)
    torch.save(model.state_dict(), path, _use_new_zipfile_serialization=False)
    load_weights(model, path)  # Files that are no archive have no checksums.


SAVED = nn.Linear(2, 2).state_dict()


@pytest.mark.parametrize(
    ("content", "beside"),
    [
        ({"model": SAVED, "args": Namespace(lr=0.1, out=Path("out")), "epoch": 3}, ""),
        ({"state_dict": SAVED, "best": np.float32(0.7), "seen": np.int64(3)}, ""),
        ({"model": SAVED, "model_2": SAVED}, ", and not 'model_2'"),
        ({"state_dict": SAVED, "rng": np.random.RandomState(0).get_state()}, ""),
        ({"model": {"state_dict": SAVED}}, ""),
        ({"model": {"name": "linear"}, "net": SAVED}, ""),
        ({"final": SAVED, "optimizer": {"state": {0: SAVED}, "param_groups": []}}, ""),
    ],
    ids=["reference", "numpy", "two", "generator", "nested", "named", "only"],
)
@pytest.mark.parametrize("new_format", [True, False])
def test_weights_among_other_things_load(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    content: Any,
    beside: str,
    new_format: bool,
) -> None:
    path, model = tmp_path / "model.pt", nn.Linear(2, 2)
    torch.save(content, path, _use_new_zipfile_serialization=new_format)
    load_weights(model, path)
    assert torch.equal(model.weight, SAVED["weight"])
    assert capsys.readouterr().err.endswith(f"of {path}{beside}\n")


@pytest.mark.parametrize("module", ["pathlib", "pathlib._local"])
def test_paths_load_whichever_python_saved_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    with monkeypatch.context() as saving:
        saving.setitem(sys.modules, module, pathlib)
        saving.setattr(pathlib.PosixPath, "__module__", module)
        torch.save({"model": SAVED, "data": Path("data")}, tmp_path / "model.pt")
    load_weights(nn.Linear(2, 2), tmp_path / "model.pt")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (nn.Linear(3, 2).state_dict(), r"shape: weight \(2, 3\) instead of \(2, 2\)\)"),
        ({"a": torch.zeros(1)}, r"2 missing: weight .*; 1 unknown: a \(1,\)\): check"),
        ({"epoch": 3}, "must hold one state dict, but holds 'epoch': save"),
        ({"left": SAVED, "right": SAVED}, "but holds 'left', 'right': save"),
        ([1], "but holds a list: save"),
        ({"model": SAVED, "code": os.getcwd}, r"holds \w+\.getcwd, which could run"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: Any, message: str) -> None:
    torch.save(content, tmp_path / "model.pt")
    with pytest.raises(UserError, match=message):
        load_weights(nn.Linear(2, 2), tmp_path / "model.pt")
