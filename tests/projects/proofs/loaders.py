"""Copies of batches where no prefetcher makes them."""

from unittest.mock import Mock

import torch
from leaf_diseases.data.images import Batch
from leaf_diseases.data.loaders import load_on


def test_only_copies_from_pinned_memory_are_not_waited_for() -> None:
    device = torch.device("mps")
    images, targets = Mock(), Mock()
    list(load_on(device, [Batch(images, targets)]))
    images.to.assert_called_once_with(device, non_blocking=False)
    targets.to.assert_called_once_with(device, non_blocking=False)
