"""Copies of batches where no prefetcher makes them."""

from unittest.mock import Mock

import torch
from leaf_diseases.data.images import Batch
from leaf_diseases.data.loaders import on_device


def test_only_copies_from_pinned_memory_are_not_waited_for() -> None:
    device = torch.device("mps")
    images, targets = Mock(), Mock()
    list(on_device([Batch(images, targets)], Mock(), device))
    images.to.assert_called_once_with(device, non_blocking=False)
    targets.to.assert_called_once_with(device, non_blocking=False)
