"""Lists that data loading processes share."""

import multiprocessing
import os
import pickle
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from leaf_diseases.data import loaders
from leaf_diseases.data.loaders import check_shared_memory
from leaf_diseases.data.own_images import FileImages
from leaf_diseases.data.packed import PackedList, PackedPaths
from leaf_diseases.data.transforms import Preprocessing, TransformedDataset
from leaf_diseases.errors import UserError
from leaf_diseases.settings import Settings
from torch.utils.data import DataLoader


class Indices(FileImages):
    """Returns what an image is read from."""

    def __getitem__(self, index: int) -> Any:
        return str(self.files[index]), self.targets[index]


def listed(count: int) -> Indices:
    files = [Path(f"photos/class/{number:09}.jpg") for number in range(count)]
    return Indices(files, list(range(count)), ["a"])


def test_what_a_loading_process_gets_does_not_grow_with_the_images() -> None:
    few, many = (len(ForkingPickler.dumps(listed(count))) for count in (9, 9_000))
    assert many - few < 99  # Not a byte of an image.
    assert len(pickle.dumps(listed(9_000))) > 9_000 * 30


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_loading_processes_share_the_lists(method: str) -> None:
    images = listed(999)
    loader = DataLoader(
        images,
        batch_size=333,
        num_workers=2,
        multiprocessing_context=method,
        collate_fn=list,
    )
    samples = [sample for batch in loader for sample in batch]
    assert samples == [images[index] for index in range(999)]
    assert isinstance(images.files, PackedPaths)
    assert isinstance(images.targets, PackedList)
    assert images.files.text.is_shared() == (method == "forkserver")
    assert images.targets.pickles.is_shared() == (method == "forkserver")


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="it is Linux's")
def test_lists_need_shared_memory_unless_processes_fork(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    prepared = Preprocessing((8, 8), (8, 8), (), ())
    dataset = TransformedDataset(listed(30_000), Mock(), prepared)
    monkeypatch.setattr(loaders.shutil, "disk_usage", lambda _: Mock(free=2**20))
    monkeypatch.setattr(multiprocessing, "get_start_method", lambda: "fork")
    check_shared_memory(dataset, settings, 1)
    monkeypatch.setattr(multiprocessing, "get_start_method", lambda: "forkserver")
    check_shared_memory(dataset, settings, 0)
    with pytest.raises(UserError, match="1 data loading processes need 1 MiB in /dev"):
        check_shared_memory(dataset, settings, 1)
