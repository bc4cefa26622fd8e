"""Predictions for image files."""

import csv
import json
from pathlib import Path
from typing import Any

import predict
import torch
import train
from leaf_diseases.models.trained import load_trained
from leaf_diseases.settings import Settings, replace
from leaf_diseases.task import PREDICTION
from test_predict import images, printed, weights


def test_predictions_are_as_precise_as_evaluation(
    settings: Settings, tmp_path: Path, images: Path
) -> None:
    train.main(replace(settings, max_steps=1, amp_dtype="bfloat16"))
    weights = tmp_path / "run/model.pt"
    loaded = load_trained(weights, None, torch.device("cpu"))
    types: list[torch.dtype] = []
    loaded.model.register_forward_hook(lambda *args: types.append(args[2].dtype))
    arguments = predict.Arguments(images=(images,), weights=weights)
    assert len(list(predict.predict(loaded, [images / "a.jpg"], [], arguments))) == 1
    assert types == [torch.bfloat16]


def test_tables_and_objects_say_the_same(
    weights: Path, images: Path, printed: Any, tmp_path: Path
) -> None:
    odd = tmp_path / 'of "a", b\nand c'
    images.rename(odd)
    header, *rows = csv.reader(printed(odd, top=2, format="csv").splitlines(True))
    lines = printed(odd, top=2, format="json").splitlines()
    objects = [json.loads(line) for line in lines]
    places = range(1, len(objects[0]["predictions"]) + 1)
    assert header == ["path"] + [f"{n}_{place}" for place in places for n in PREDICTION]
    assert rows == [
        [found["path"]]
        + [str(value) for entry in found["predictions"] for value in entry.values()]
        for found in objects
    ]
    assert [row[0] for row in rows] == [str(odd / "a.jpg"), str(odd / "b.PNG")]
