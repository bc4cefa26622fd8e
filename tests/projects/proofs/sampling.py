"""Data order and augmentation."""

import random
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import Mock, call

import numpy as np
import pytest
import torch
from leaf_diseases.data import sampling
from leaf_diseases.data.sampling import EpochSampler, KeyedDataset, find_own_generators
from leaf_diseases.data.transforms import Preprocessing, Transform, TransformedDataset
from small_world import make_tiny_images
from torch import Tensor
from torch.utils.data import DataLoader
from torchvision.transforms import v2


class OwnGenerators:
    """Draws from generators of its own, which are seeded as those of albumentations."""

    def __init__(self) -> None:
        self.set_random_state(np.random.default_rng(), random.Random())

    def set_random_seed(self, seed: int) -> None:
        raise AssertionError("the seed of the data loading process would be added")

    def set_random_state(
        self, numpy_generator: np.random.Generator, python_generator: random.Random
    ) -> None:
        self.numpy_generator = numpy_generator
        self.python_generator = python_generator

    def __call__(self, image: Tensor) -> Tensor:
        drawn = [self.numpy_generator.random(), self.python_generator.random()]
        return torch.tensor(drawn)


SHARED = OwnGenerators()


def call_by_default(image: Tensor, transform: OwnGenerators = SHARED) -> Tensor:
    return transform(image)


class Shared:
    """Calls a transform of its class and one of its module."""

    transform = OwnGenerators()

    def __call__(self, image: Tensor) -> Tensor:
        return self.transform(image) + SHARED(image)


def enclose(transform: OwnGenerators) -> Callable[[Tensor], Tensor]:
    return lambda image: transform(image)


def of_samples(change: Callable[[Tensor], Tensor]) -> Transform:
    return lambda image, target: (change(image), target)


@pytest.mark.parametrize(
    "make",
    [
        OwnGenerators,
        lambda: v2.Compose([v2.Identity(), OwnGenerators()]),
        lambda: partial(OwnGenerators.__call__, OwnGenerators()),
        lambda: enclose(OwnGenerators()),
        lambda: lambda image: SHARED(image),
        lambda: lambda image: torch.stack([SHARED(each) for each in (image,)])[0],
        lambda: call_by_default,
        lambda: Shared(),
    ],
)
def test_generators_of_transforms_are_seeded_too(make: Callable[[], Any]) -> None:
    """Wherever a transform is: to other numbers for each image, the same in each run."""
    images, prepared = make_tiny_images(22), Preprocessing((8, 8), (8, 8), (), ())
    keys = list(EpochSampler(22, seed=7))
    runs = []
    for size in (22, 5):
        dataset = KeyedDataset(TransformedDataset(images, of_samples(make()), prepared))
        draws = []
        for start in range(0, 22, size):
            draws += dataset.__getitems__(keys[start : start + size])
        runs.append(torch.stack([drawn for drawn, _ in draws]))
    assert torch.equal(*runs)
    assert all(len(numbers.unique()) == 22 for numbers in runs[0].T)


def test_transforms_are_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    search = Mock(return_value=[])
    monkeypatch.setattr(sampling, "find_own_generators", search)
    images, keys = make_tiny_images(22), list(EpochSampler(22, seed=7))
    for _ in range(2):
        dataset = KeyedDataset(images)
        for start in range(0, 22, 5):
            dataset.__getitems__(keys[start : start + 5])
    assert search.mock_calls == 2 * [call(images)]


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_loading_processes_search_for_themselves() -> None:
    """With transforms that they keep for all epochs."""
    images, prepared = make_tiny_images(22), Preprocessing((8, 8), (8, 8), (), ())
    sampler, runs = EpochSampler(22, seed=7), []
    for workers in (0, 2):
        transform = of_samples(OwnGenerators())
        loader = DataLoader(
            KeyedDataset(TransformedDataset(images, transform, prepared)),
            batch_size=5,
            sampler=sampler,
            num_workers=workers,
            persistent_workers=workers > 0,
            multiprocessing_context="fork" if workers else None,
        )
        for epoch in range(2):
            sampler.set_epoch(epoch)
            runs.append(torch.cat([drawn for drawn, _ in loader]))
    assert not torch.equal(runs[0], runs[1])
    assert torch.equal(torch.cat(runs[:2]), torch.cat(runs[2:]))


def test_long_sets_are_not_searched() -> None:
    transforms = [OwnGenerators() for _ in range(100)]
    assert find_own_generators({*transforms[:3]}) != []
    assert find_own_generators({*transforms}) == []
