"""Distillation."""

import shutil
from pathlib import Path

import pytest
import torch
import train
from leaf_diseases.errors import UserError
from leaf_diseases.settings import Settings, replace
from test_distillation import settings


def test_weights_from_elsewhere_need_a_name(settings: Settings) -> None:
    assert settings.teacher is not None
    settings.teacher.with_name("config.json").unlink()
    with pytest.raises(UserError, match="pass --teacher-model"):
        train.main(settings)
    named = replace(settings, teacher_model="cnn")
    assert train.make_run(named).distillation.teacher is not None
    with pytest.raises(UserError, match="weights of another model"):
        train.main(replace(settings, teacher_model="resnet18"))


def test_the_teacher_may_move_but_not_change(
    settings: Settings, tmp_path: Path
) -> None:
    assert settings.teacher is not None
    train.main(replace(settings, max_steps=1))
    moved = tmp_path / "moved.pt"
    settings.teacher.rename(moved)
    shutil.copy(settings.teacher.with_name("config.json"), tmp_path)
    settings = replace(settings, teacher=moved, resume="auto")
    train.main(replace(settings, max_steps=2))
    weights = torch.load(moved, weights_only=True)
    torch.save({name: weight * 2 for name, weight in weights.items()}, moved)
    with pytest.raises(UserError, match="is of another distillation"):
        train.main(settings)


def test_a_teacher_neither_comes_nor_goes(settings: Settings, tmp_path: Path) -> None:
    train.main(replace(settings, temperature=2.0, max_steps=1))
    with pytest.raises(UserError, match=r"is of another .*\(another teacher\)"):
        train.main(replace(settings, teacher=None, resume="auto"))
