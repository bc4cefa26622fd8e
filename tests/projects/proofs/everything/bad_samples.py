"""Images that cannot be read, which a run leaves out."""

from pathlib import Path

import convert
import h5py
import pytest
import train
from leaf_diseases.data.datasets import DATASETS
from leaf_diseases.data.own_images import FileImages
from leaf_diseases.settings import Settings, replace
from test_bad_samples import listed, photos


def test_in_hdf5_files_they_have_numbers(
    photos: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = DATASETS["whole"]
    files = [
        FileImages(one.files, one.targets, one.names)
        for one in row.open_splits(photos, 8)
    ]
    row = row._replace(open_splits=lambda *_: files)
    monkeypatch.setitem(DATASETS, "whole", row)
    output = tmp_path / "files"
    convert.main(convert.Arguments(output=output, data="whole"))
    with h5py.File(output / "train-00000-of-00001.h5", "r+") as file:
        first, end = file["offsets"][3:5]
        file["images"][first:end] = 0
    train.main(replace(photos, data="hdf5", data_dir=output))
    cause = "ValueError: not a known image format"
    assert listed(photos)[1:] == [["train", "3", cause]]
