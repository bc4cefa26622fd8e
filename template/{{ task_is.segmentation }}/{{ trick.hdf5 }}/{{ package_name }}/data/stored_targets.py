"""Masks of any size in an HDF5 file: https://docs.h5py.org/en/stable/special.html.

`targets` has the class numbers of a mask in each row, with height and width in `sizes`.
"""

import h5py
import numpy as np
import torch
from torch import Tensor
from torchvision import tv_tensors


class TargetWriter:
    """Writes flattened masks and their sizes, one by one."""

    def __init__(self, file: h5py.File, count: int) -> None:
        kind = h5py.vlen_dtype(np.uint8)
        self.numbers = file.create_dataset("targets", (count,), kind)
        self.sizes = file.create_dataset("sizes", (count, 2), np.int64)
        self.row = 0

    def append(self, mask: Tensor) -> None:
        """Writes the next mask, uint8 of shape (H, W)."""
        self.numbers[self.row] = mask.numpy().ravel()
        self.sizes[self.row] = mask.shape
        self.row += 1


class StoredTargets:
    """Reads the masks of a file one by one."""

    def __init__(self, file: h5py.File) -> None:
        self.numbers = file["targets"]
        self.sizes = file["sizes"][:]

    def __getitem__(self, row: int) -> Tensor:
        """Returns a mask, uint8 of shape (H, W), as a `tv_tensors.Mask`."""
        numbers = self.numbers[row].reshape(self.sizes[row])
        return tv_tensors.Mask(torch.from_numpy(numbers))
