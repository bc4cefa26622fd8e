"""Compares HDF5 files with the image folder that they were made from.

Run in a project, with the folder, the image size, and directories of HDF5 files. A script
of its own, because a spawned process imports the main module anew.
"""

import os
import sys
from pathlib import Path

import torch
from leaf_diseases.data.datasets import load_data
from leaf_diseases.data.hdf5 import HDF5Images
from leaf_diseases.settings import Settings
from torch.utils.data import DataLoader, default_collate, get_worker_info

FORKED = [(0, None), (1, "fork"), (2, "fork")]
SPAWNED = (1, "spawn")
"""Numbers of data loading processes, and how they are started."""


def collate(samples):
    """Adds which process read the batch, and which one opened the files."""
    worker = get_worker_info()
    opened = worker.dataset.process if worker else os.getpid()
    return *default_collate(samples), os.getpid(), opened


def main():
    folder, image_size, *directories = sys.argv[1:]
    settings = Settings(
        data="folder", data_dir=Path(folder), image_size=int(image_size)
    )
    source = load_data(settings, augment=False).train
    order = torch.randperm(len(source), generator=torch.Generator().manual_seed(0))
    expected = [source[index] for index in order.tolist()]
    cases = [(directory, *case) for directory in directories for case in FORKED]
    # Only for one of them, as it takes seconds.
    cases.append((directories[-1], *SPAWNED))
    for directory, workers, context in cases:
        dataset = HDF5Images(sorted(Path(directory).glob("train*.h5")))
        loader = DataLoader(
            dataset,
            batch_size=4,
            sampler=order.tolist(),
            num_workers=workers,
            multiprocessing_context=context,
            collate_fn=collate,
        )
        images, targets, readers, openers = zip(*loader, strict=True)
        assert torch.equal(torch.cat(images), torch.stack([i for i, _ in expected]))
        assert torch.cat(targets).tolist() == [target for _, target in expected]
        assert openers == readers
        assert len(set(readers)) == max(1, workers)
        assert (os.getpid() in readers) == (workers == 0)
        print(directory, workers, context, "equal")


if __name__ == "__main__":
    main()
