"""HDF5 files: the converter, and the data set that reads them."""

import os
import pickle
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from leaf_diseases.data.datasets import load_data
from leaf_diseases.data.hdf5 import HDF5Images
from leaf_diseases.errors import UserError
from leaf_diseases.settings import Settings, replace
from test_hdf5 import convert_photos, dataset, directory, photos


def open_descriptors(paths: Sequence[Path]) -> list[int]:
    """Returns the descriptors of this process that are open on any of the files."""
    files = {(path.stat().st_dev, path.stat().st_ino) for path in paths}
    found = []
    for number in range(256):
        with suppress(OSError):
            status = os.fstat(number)
            if (status.st_dev, status.st_ino) in files:
                found.append(number)
    return found


def read_and_move(dataset: HDF5Images) -> tuple[int, int]:
    """Reads, and moves the place in each open file; returns how many those are."""
    target = dataset[0][1]
    descriptors = open_descriptors(dataset.paths)
    for number in descriptors:
        os.lseek(number, 12345, os.SEEK_SET)
    return target, len(descriptors)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_forked_process_closes_the_files_that_it_inherits(dataset: HDF5Images) -> None:
    dataset[0]
    child = os.fork()
    if child == 0:
        try:
            os._exit(read_and_move(dataset) != (dataset[0][1], 3))
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    # The place in a file would be the same place for all that share a descriptor.
    descriptors = open_descriptors(dataset.paths)
    assert len(descriptors) == 3
    assert 12345 not in [os.lseek(number, 0, os.SEEK_CUR) for number in descriptors]


def test_files_are_open_once_they_are_read(settings: Settings, directory: Path) -> None:
    data = load_data(replace(settings, data="hdf5", data_dir=directory))
    paths = list(directory.iterdir())
    assert open_descriptors(paths) == []
    for index in (0, 9):
        data.train[index]
        assert len(open_descriptors(paths)) == 3


def test_pickle_holds_no_open_files(dataset: HDF5Images) -> None:
    """So that processes that are spawned open them for themselves."""
    image, target = dataset[0]
    copy = pickle.loads(pickle.dumps(dataset))
    assert (copy.shards, copy.process) == ([], None)
    assert torch.equal(copy[0][0], image)
    assert copy[0][1] == target


def test_half_a_conversion_is_no_data_set(photos: Settings, tmp_path: Path) -> None:
    """It leaves no files under their name, and does not stand in the way of the next."""
    path, output = photos.data_dir / "val/wide/1.png", tmp_path / "new/converted"
    image = path.read_bytes()
    path.write_bytes(b"no image")
    with pytest.raises(UserError, match=r"wide.1\.png is no readable image"):
        convert_photos(photos, output)
    assert list(output.parent.iterdir()) == []
    path.write_bytes(image)
    # As a process that was killed leaves it.
    (output.parent / "converted.unfinished").mkdir()
    (output.parent / "converted.unfinished/train-00000-of-00001.h5").touch()
    convert_photos(photos, output)
    assert list(output.parent.iterdir()) == [output]


def test_files_are_not_their_own_source(directory: Path) -> None:
    path = next(directory.glob("train*.h5"))
    with h5py.File(path, "r+") as file:
        file.attrs["source"] = "hdf5"
    with pytest.raises(UserError, match="make it with convert.py .its source is hdf5"):
        HDF5Images([path])


def test_as_many_images_as_targets_are_needed(tmp_path: Path) -> None:
    path = tmp_path / "val.h5"
    with h5py.File(path, "w") as file:
        file.attrs.update({"names": '["a"]', "source": "shapes", "image_size": 4})
        file["images"], file["offsets"] = np.zeros(9, np.uint8), [0, 9]
        file["targets"] = [0, 0]
    with pytest.raises(UserError, match="is no data file .*: make it with convert.py"):
        HDF5Images([path])
