"""The prefetcher: on a CPU as it is, on a GPU with mocks that record their calls."""

from unittest.mock import MagicMock

import torch
from leaf_diseases.data.images import Batch
from leaf_diseases.data.prefetcher import prefetch
from test_prefetcher import gpu

CUDA = torch.device("cuda")


def test_all_passes_share_a_stream(gpu: MagicMock) -> None:
    """The memory of a stream that is no longer used would be lost to the next one."""
    for _ in range(3):
        batches = [Batch(gpu.inputs, gpu.targets)] * 2
        assert len(list(prefetch(batches, CUDA))) == 2
    gpu.Stream.assert_called_once()
