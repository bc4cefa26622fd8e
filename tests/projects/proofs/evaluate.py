"""Evaluation of trained weights."""

from pathlib import Path
from typing import Any

import evaluate
import pytest
from leaf_diseases.data.datasets import DATASETS
from leaf_diseases.data.own_images import FileImages
from leaf_diseases.errors import UserError
from leaf_diseases.settings import Settings, replace
from leaf_diseases.task import METRICS
from small_world import make_tiny_images
from test_evaluate import save_image


def test_classes_keep_the_numbers_that_the_model_knows(
    evaluated: Any, tmp_path: Path
) -> None:
    """Also images of one class alone, which is numbered 0 where it lies."""
    images = make_tiny_images(22)
    for index in range(20):
        image, target = images[index]
        name = images.names[target]
        for place in ("found", name):
            save_image(tmp_path / place / name / f"{index}.png", image)
    whole, *parts = (
        evaluated(data="folder", data_dir=tmp_path / name)
        for name in ("found", *images.names)
    )
    assert (whole["split"], whole["images"]) == ("all", 20)
    for name in METRICS:
        total = sum(part["images"] * part[name] for part in parts)
        assert total / 20 == pytest.approx(whole[name], rel=1e-5)


def test_data_of_the_run_are_known_by_any_path(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine/star").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "mine")
    run = replace(settings, data="folder", data_dir=Path("../mine"))
    same = evaluate.Arguments(weights=Path("model.pt"), data_dir=tmp_path / "mine")
    other = same.model_copy(update={"data_dir": tmp_path})
    for arguments, split in ((same, "val"), (other, "all")):
        found = evaluate.data_settings(arguments, run)
        own = evaluate.own_images(found)
        assert evaluate.default_split(own, found, run) == split


def test_another_list_need_not_have_the_splits_of_the_run(
    settings: Settings, tmp_path: Path
) -> None:
    run = replace(settings, data="csv", labels=tmp_path / "a.csv", split_column="fold")
    for name, given, column in (
        ("a.csv", None, "fold"),
        ("b.csv", None, None),
        ("b.csv", "part", "part"),
    ):
        arguments = evaluate.Arguments(
            weights=Path("model.pt"), labels=tmp_path / name, split_column=given
        )
        assert evaluate.data_settings(arguments, run).split_column == column
    elsewhere = evaluate.Arguments(weights=Path("model.pt"), data_dir=tmp_path)
    assert evaluate.data_settings(elsewhere, run).labels is None


def test_images_of_ones_own_are_scored_whole(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    classes = ["ring", "star"]
    train_images = FileImages([Path("a"), Path("b")], [0, 1], classes)
    val_images = FileImages([Path("c")], [1], classes)
    row = DATASETS["folder"]._replace(open_splits=lambda *_: (train_images, val_images))
    monkeypatch.setitem(DATASETS, "mine", row)
    whole = evaluate.open_split(None, replace(settings, data="mine"), "all", 8)
    assert isinstance(whole, FileImages)
    assert [*map(str, whole.files)] == ["a", "b", "c"]
    assert [*whole.targets] == [0, 1, 1]
    with pytest.raises(UserError, match=r"has no split test.*\(it has train, val\)"):
        evaluate.open_split(None, settings, "test", 8)
