"""The prefetcher: on a CPU as it is, on a GPU with mocks that record their calls."""

from collections.abc import Iterator
from unittest.mock import MagicMock

import pytest
import torch
from leaf_diseases.data.images import Batch
from leaf_diseases.data.prefetcher import prefetch, stream_for_copies

CUDA = torch.device("cuda")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[MagicMock]:
    """Stands for torch.cuda and for batches, and records what is done with them."""
    gpu = MagicMock()
    for name in ("Stream", "stream", "current_stream"):
        monkeypatch.setattr(torch.cuda, name, getattr(gpu, name))
    stream_for_copies.cache_clear()
    yield gpu
    stream_for_copies.cache_clear()


def test_all_passes_share_a_stream(gpu: MagicMock) -> None:
    """The memory of a stream that is no longer used would be lost to the next one."""
    for _ in range(3):
        batches = [Batch(gpu.inputs, gpu.targets)] * 2
        assert len(list(prefetch(batches, CUDA))) == 2
    gpu.Stream.assert_called_once()
