"""Images that cannot be read, which a run leaves out."""

import csv
from pathlib import Path
from unittest.mock import Mock

import convert
import h5py
import numpy as np
import pytest
import train
from leaf_diseases.data.own_images import FileImages
from leaf_diseases.run import Run
from leaf_diseases.run_directory import write_config
from leaf_diseases.settings import Settings, replace
from PIL import Image
from torch import Tensor

DAMAGES = (lambda whole: whole[:-99], lambda whole: b"", lambda whole: b"<html>")


def make_photos(directory: Path, damaged: bool = True) -> Path:
    """Writes 40 JPEGs for training and 20 for validation, and damages every tenth."""
    numbers = np.random.default_rng(0)
    for split, count in {"train": 40, "val": 20}.items():
        for number in range(count):
            label = "abcdef"[number * 6 // count]
            path = directory / split / label / f"{number:02}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            pixels = numbers.integers(256, size=(12, 12, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(path)
            if damaged and number % 10 == 0:
                damage = DAMAGES[number // 10 % 3]
                path.write_bytes(damage(path.read_bytes()))
    return directory


@pytest.fixture
def photos(settings: Settings, tmp_path: Path) -> Settings:
    """Settings for a folder of photos, of which every tenth cannot be read."""
    return replace(
        settings,
        data="folder",
        data_dir=make_photos(tmp_path / "photos"),
        max_bad_share=0.5,
        augment="none",
        mixup_alpha=0,
        cutmix_alpha=0,
    )


def listed(settings: Settings) -> list[list[str]]:
    """Returns the rows of a run's list."""
    assert settings.run_dir is not None
    text = (settings.run_dir / "unreadable.csv").read_text(encoding="utf-8")
    return list(csv.reader(text.splitlines()))


def begin(settings: Settings) -> Run:
    run = train.make_run(settings)
    write_config(run)
    return run


def whole(tensor: Tensor | None) -> Tensor:
    assert tensor is not None
    return getattr(tensor, "full_tensor", lambda: tensor)().clone()


@pytest.mark.parametrize("of", ["dataset", "transform"])
def test_mistakes_are_no_unreadable_images(
    photos: Settings, monkeypatch: pytest.MonkeyPatch, of: str
) -> None:
    run = begin(photos)
    wrong = Mock(side_effect=OSError("a mistake"))
    if of == "dataset":
        monkeypatch.setattr(FileImages, "__getitem__", wrong)
    else:
        run.train_loader.images.transform = wrong
    with pytest.raises(OSError, match="a mistake"):
        train.train_epoch(run)


def test_in_hdf5_files_they_have_numbers(photos: Settings, tmp_path: Path) -> None:
    output = tmp_path / "files"
    whole = make_photos(tmp_path / "whole", damaged=False)
    convert.main(convert.Arguments(output=output, data="folder", data_dir=whole))
    with h5py.File(output / "train-00000-of-00001.h5", "r+") as file:
        first, end = file["offsets"][3:5]
        file["images"][first:end] = 0
    train.main(replace(photos, data="hdf5", data_dir=output))
    cause = "ValueError: its bytes are of no image format"
    assert listed(photos)[1:] == [["train", "3", cause]]
