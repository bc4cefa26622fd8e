"""Lists that data loading processes share."""

import pickle
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import pytest
from leaf_diseases.data.own_images import FileImages
from leaf_diseases.data.packed import PackedList, PackedPaths
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
