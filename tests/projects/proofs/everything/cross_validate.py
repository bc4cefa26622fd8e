"""Cross-validation: as scikit-learn's folds, on which weights are evaluated, and what groups show."""

import csv
import json
from pathlib import Path

import cross_validate
import evaluate
import numpy as np
import pytest
import train
from leaf_diseases.data.folds import draw_folds
from leaf_diseases.errors import UserError
from leaf_diseases.settings import Settings, replace
from sklearn.model_selection import StratifiedGroupKFold
from test_cross_validate import listed, results


def test_shares_of_classes_are_those_of_scikit_learn() -> None:
    random = np.random.default_rng(0)
    patients = np.repeat(np.arange(60), random.integers(1, 30, 60))
    classes = random.integers(0, 3, 60)[patients]

    def spread(folds: np.ndarray) -> float:
        counts = [np.bincount(classes[folds == n], minlength=3) for n in range(1, 6)]
        return float(np.std(counts, axis=0).max())

    expected = np.zeros(len(patients), dtype=int)
    splitter = StratifiedGroupKFold(5)
    for fold, (_, part) in enumerate(splitter.split(classes, classes, patients), 1):
        expected[part] = fold
    for seed in range(3):
        settings = Settings(folds=5, split_seed=seed)
        found = draw_folds(classes.tolist(), [*"abc"], patients.tolist(), settings)
        assert len({*zip(patients, found)}) == 60
        assert spread(found) <= spread(expected) + 1


def test_weights_are_evaluated_on_their_fold(
    listed: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever split the images have, unless they are others."""
    train.main(replace(listed, fold=2))
    weights = tmp_path / "run/model.pt"
    lines = (tmp_path / "run/metrics.jsonl").read_text(encoding="utf-8").splitlines()
    capsys.readouterr()
    arguments = evaluate.Arguments(weights=weights, device="cpu", as_json=True)
    evaluate.main(arguments)
    found = json.loads(capsys.readouterr().out)
    assert (found["split"], found["images"]) == ("val", 12)
    assert found["loss"] == pytest.approx(json.loads(lines[-1])["val_loss"], rel=1e-5)
    moved = tmp_path / "moved"
    moved.mkdir()
    for path in [*tmp_path.glob("*.png"), tmp_path / "labels.csv"]:
        (moved / path.name).write_bytes(path.read_bytes())
    other = arguments.model_copy(update={"data_dir": moved})
    evaluate.main(other)
    found = json.loads(capsys.readouterr().out)
    assert (found["split"], found["images"]) == ("all", 24)
    with pytest.raises(UserError, match="the run has no folds of these images"):
        evaluate.main(other.model_copy(update={"split": "val"}))


def test_other_images_are_refused(listed: Settings, tmp_path: Path) -> None:
    cross_validate.main(listed)
    path = tmp_path / "labels.csv"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("11-1.png,11,", "11-1.png,12,"), encoding="utf-8")
    with pytest.raises(UserError, match="targets are not those of"):
        cross_validate.main(listed)
    assert len(results(tmp_path)["folds"]) == 2


def test_own_splits_are_joined_and_test_stays_out(
    listed: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "labels.csv"
    header, *rows = path.read_text(encoding="utf-8").splitlines()
    splits = ["train"] * 12 + ["val"] * 8 + ["test"] * 4
    # Two classes, so that each has patients enough without the test images.
    named = [
        f"{row[:-1]}{'be'[number // 2 % 2]},{split}"
        for number, (row, split) in enumerate(zip(rows, splits))
    ]
    path.write_text("\n".join([f"{header},split", *named]), encoding="utf-8")
    cross_validate.main(listed)
    said = "fold 2 of 2 of train and val, 10 groups, without test"
    assert said in capsys.readouterr().out
    with (tmp_path / "run/folds.csv").open(newline="", encoding="utf-8") as file:
        assert len([*csv.DictReader(file)]) == 20
