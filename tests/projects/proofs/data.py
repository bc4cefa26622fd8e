"""Data sets, transforms and loaders."""

import os
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from leaf_diseases.data import datasets, loaders, transforms
from leaf_diseases.data.datasets import DATASETS, Data, load_data
from leaf_diseases.data.images import ArrayImages
from leaf_diseases.data.loaders import make_val_loader
from leaf_diseases.data.transforms import Preprocessing
from leaf_diseases.errors import UserError
from leaf_diseases.settings import Settings, replace
from torch import Tensor
from torchvision import tv_tensors
from torchvision.transforms import v2

BUILT_IN = DATASETS.keys() & {
    *("shapes", "mnist", "fashion-mnist", "cifar10", "folder", "csv", "frames")
}
OFF = {"augment": "none", "random_erasing": 0}
"""What of augmentation leaves no image as it is."""


def middles_in_training(data: Data) -> Iterator[Tensor]:
    """Yields the middle of the first training image, again and again."""
    for _ in range(300):
        image = data.train[0][0]
        yield image[:, 2:-2, 2:-2]


def prepare(factor: float, size: Any, crop_size: Any, *rest: Any) -> Preprocessing:
    """Returns a preprocessing that is bicubic, as random crops of large photos are."""
    sizes = [int(factor * side) for side in size], crop_size
    return Preprocessing(*sizes, *rest, interpolation="bicubic")


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_training_and_evaluation_differ_by_chance_alone(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """In scale, crop and interpolation: one of many training images is as evaluated."""
    pixels = torch.randint(256, (1, 3, 24, 36), dtype=torch.uint8)
    images = ArrayImages(pixels, [0], ["cats", "dogs"])
    row = DATASETS[name]._replace(open_splits=lambda *_: (images, images))

    def check(settings: Settings) -> None:
        data = load_data(settings)
        side = 24 * 8 // data.preprocessing.resize_size[0]
        # A random part of a photo is not often the one that is evaluated.
        part = {"top": 12 - side // 2, "left": 18 - side // 2}
        part |= {"height": side, "width": side}
        monkeypatch.setattr(v2.RandomResizedCrop, "make_params", lambda *_: part)
        expected = data.val[0][0][:, 2:-2, 2:-2]
        assert any(middle.equal(expected) for middle in middles_in_training(data))

    off = {name: OFF[name] for name in OFF.keys() & Settings.model_fields.keys()}
    settings = replace(settings, data=name, **off)
    monkeypatch.setitem(DATASETS, name, row)
    for factor in (1, 1.5):  # Pretrained weights may have another resize_size.
        monkeypatch.setattr(datasets, "Preprocessing", partial(prepare, factor))
        check(settings)
        if "data_on_device" in Settings.model_fields:
            check(replace(settings, data_on_device=True))


@pytest.mark.parametrize("resized", [(12, 18), (16, 24), (12, 20)])
def test_only_images_of_another_size_are_resized_and_cropped(
    settings: Settings, resized: tuple[int, int]
) -> None:
    image = torch.randint(256, (3, 12, 18), dtype=torch.uint8)
    preprocessing = load_data(settings).preprocessing
    preprocessing = preprocessing._replace(resize_size=resized, crop_size=(12, 18))
    transform = preprocessing.transform()
    found, target = transform(image, 1)
    assert target == 1
    assert found.equal(v2.CenterCrop((12, 18))(preprocessing.resize()(image)))
    assert (found is image) == (resized == (12, 18))
    assert transform(image).equal(found)
    _, mask = transform(image, tv_tensors.Mask(torch.zeros(6, 9)))
    assert mask.shape == (12, 18)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="it is Linux's")
def test_batches_that_do_not_fit_into_shared_memory_are_refused(tiny: Settings) -> None:
    data, tiny = load_data(tiny).val, replace(tiny, num_workers=2)
    make_val_loader(data, tiny, torch.device("cpu"))
    data.preprocessing = data.preprocessing._replace(crop_size=(10**6, 10**6))
    with pytest.raises(UserError, match=r"^2 data .* MiB left: pass --num-workers 0, "):
        make_val_loader(data, tiny, torch.device("cpu"))


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="it is Linux's")
def test_short_epochs_do_not_shorten_the_validation_data(
    tiny: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = replace(tiny, num_workers=2, batch_size=1, epoch_steps=1)
    data = load_data(tiny).val
    free = SimpleNamespace(free=3 * data.preprocessing.nbytes)
    monkeypatch.setattr(loaders.shutil, "disk_usage", lambda _: free)
    with pytest.raises(UserError, match="2 data loading processes need"):
        make_val_loader(data, tiny, torch.device("cpu"))


def test_workers_put_all_of_a_batch_into_shared_memory(
    tiny: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where that fails, they tell the loader."""
    loader = make_val_loader(load_data(tiny).val, tiny, torch.device("cpu"))
    monkeypatch.setattr(transforms, "get_worker_info", lambda: "a worker")
    for batch in loader:
        assert batch.inputs.is_shared()
        assert batch.targets.is_shared()
