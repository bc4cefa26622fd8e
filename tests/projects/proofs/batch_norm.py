"""Models that are looked at before they are trained on single images."""

import pytest
import torch
import train
from leaf_diseases.errors import UserError
from leaf_diseases.models.batch_norm import needs_two_samples
from leaf_diseases.settings import Settings, replace
from torch import nn


def test_single_images_whose_maps_have_one_pixel_are_refused(
    settings: Settings,
) -> None:
    settings = replace(settings, batch_size=1, max_steps=1)
    refused = "cnn cannot be trained on single images of 8 x 8, as batch-norm needs two"
    with pytest.raises(UserError, match=refused):
        train.main(settings)
    assert settings.run_dir is not None
    assert not settings.run_dir.exists()
    train.main(replace(settings, image_size=16))


def test_model_that_cannot_be_copied_is_looked_at_and_left_as_it_was() -> None:
    layer = nn.Conv2d(3, 4, 8)
    layer.register_buffer("scaled", 2 * layer.weight, persistent=False)
    model = nn.Sequential(layer, nn.BatchNorm2d(4))
    device = torch.device("cpu")
    assert needs_two_samples(model, torch.zeros(1, 3, 8, 8), device)
    assert not needs_two_samples(model, torch.zeros(1, 3, 9, 9), device)
    assert model.training
    assert model(torch.rand(2, 3, 8, 8)).shape == (2, 4, 1, 1)
    assert model[1].num_batches_tracked == 1
