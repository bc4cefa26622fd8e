"""Near copies of images: pHash in bands, confirmed on small pictures.

https://www.hackerfactor.com/blog/index.php?/archives/432-Looks-Like-It.html
As `phash` of https://github.com/JohannesBuchner/imagehash, of pictures resized faster.
"""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from tqdm import tqdm

Step = TypeVar("Step")

SIDE = 32
"""Height and width of the small grey pictures."""
MOST_BITS = 10
"""Bits in which the hashes of two candidates differ at most."""
MOST_COMPARED = 32
"""Hashes of a band that are compared with a hash: the next ones in order."""
STAGES = (
    ((), 0.8),
    ((0.03,), 0.5),
    ((0.02, 0.04), 0.3),
    ((0.01, 0.02, 0.03, 0.04, 0.05), 0.25),
)
"""Shares of a side that are cut off to align two pictures, and the largest difference."""
LEAST_DETAIL = 4.0
"""Least difference of neighbouring pixels, of 255: JPEG changes even areas by 1."""


def progress(steps: Sequence[Step], name: str) -> Iterable[Step]:
    """Shows a progress bar on a terminal, if the steps take longer than a second."""
    return tqdm(steps, name, leave=False, delay=1, disable=None)


def cuts(*shares: float) -> list[tuple[float, float]]:
    """Returns the ends of a side, whole and without each share at one or both ends."""
    places = [(share, start) for share in shares for start in (0, share / 2, share)]
    return [(0.0, 1.0)] + [(start, 1 - share + start) for share, start in places]


def resampling(ends: Sequence[tuple[float, float]]) -> Tensor:
    """Returns matrices that stretch the part between two ends to SIDE pixels, linearly."""
    pixels = torch.arange(SIDE).double()
    starts, stops = torch.tensor(ends).double().T.unsqueeze(2)
    places = starts * SIDE + (pixels + 0.5) * (stops - starts) - 0.5
    places = places.clamp(0, SIDE - 1).unsqueeze(2)
    return (1 - (places - pixels).abs()).clamp(min=0)


def hash_pictures(pictures: np.ndarray) -> np.ndarray:
    """Returns hashes, uint64 of shape (N, 10): of the whole pictures, and of crops.

    Args:
        pictures: uint8 of shape (N, SIDE, SIDE).
    """
    orders, pixels = torch.arange(8).double(), torch.arange(SIDE) + 0.5
    cosines = torch.cos(torch.pi / SIDE * orders.unsqueeze(1) * pixels)
    basis = (cosines @ resampling(cuts(0.03))).flatten(0, 1)
    hashes = [np.zeros((0, 10), np.uint64)]
    for start in progress(range(0, len(pictures), 4096), "hash"):
        part = torch.from_numpy(pictures[start : start + 4096].copy())
        found = (basis @ part.double() @ basis.T).unflatten(1, (4, 8))
        found = found.unflatten(3, (4, 8))
        places = [(0, 0), *product((1, 2, 3), repeat=2)]
        low = torch.stack([found[:, y, :, x].flatten(1) for y, x in places], dim=1)
        bits = (low > low.quantile(0.5, dim=2, keepdim=True)).numpy()
        hashes.append(np.packbits(bits, axis=2).view(np.uint64)[..., 0])
    return np.concatenate(hashes)


def find_candidates(queries: np.ndarray, hashes: np.ndarray) -> tuple[np.ndarray, int]:
    """Returns pairs of rows with similar hashes, and how many were compared in part.

    Hashes that differ in at most 3 bits share one of four bands of 16 bits. A hash is
    compared with MOST_COMPARED of its band at most, so that the time is linear.

    Args:
        queries: shape (N, K), several hashes of each image.
        hashes: shape (N,).
    """
    found, partial = [np.zeros((0, 2), np.int64)], np.zeros(len(hashes), bool)
    for shift in np.arange(0, 64, 16, dtype=np.uint64):
        own = hashes << shift | hashes >> np.uint64(64) - shift  # The band comes first.
        order = own.argsort()
        own = own[order]
        ends = np.bincount((own >> np.uint64(48)).astype(np.int64), minlength=2**16)
        ends = np.append(0, ends.cumsum())
        name = f"compare, band {shift // 16 + 1} of 4"
        for column in progress(range(queries.shape[1]), name):
            query = queries[:, column]
            query = query << shift | query >> np.uint64(64) - shift
            band = (query >> np.uint64(48)).astype(np.int64)
            start, end = ends[band], ends[band + 1]
            rows = np.flatnonzero(end > start)
            crowded = np.flatnonzero(end - start > MOST_COMPARED)
            partial[crowded] = True
            middle = own.searchsorted(query[crowded]) - MOST_COMPARED // 2
            last = end[crowded] - MOST_COMPARED
            start[crowded] = np.clip(middle, start[crowded], last)
            end[crowded] = start[crowded] + MOST_COMPARED
            for step in range(MOST_COMPARED):
                rows = rows[start[rows] + step < end[rows]]
                places = start[rows] + step
                close = np.bitwise_count(own[places] ^ query[rows]) <= MOST_BITS
                pairs = np.column_stack([rows[close], order[places[close]]])
                found.append(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1))
        found = [np.unique(np.concatenate(found), axis=0)]
    return found[0], int(partial.sum())


def confirm(
    pictures: np.ndarray, others: np.ndarray, pairs: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the pairs of rows that are near copies, and their differences.

    A difference is the mean absolute difference of the aligned pictures, as a share of
    that of neighbouring pixels. Few pairs reach the slow, fine alignment.
    """
    differences = np.zeros(len(pairs))
    for shares, limit in STAGES:
        matrices = resampling(cuts(*shares)).float().flatten(0, 1)
        found = [torch.zeros(0)]
        count = len(pairs) * len(matrices) ** 2 // 2**22 + 1
        for rows in progress(np.array_split(pairs, count), "align"):
            first = torch.from_numpy(pictures[rows[:, 0]]).float()
            second = torch.from_numpy(others[rows[:, 1]]).float()
            both = align(first, second, matrices), align(second, first, matrices)
            found.append(torch.minimum(*both))
        differences = torch.cat(found).numpy()
        close = differences <= limit
        pairs, differences = pairs[close], differences[close]
    return pairs, differences


def align(pictures: Tensor, others: Tensor, matrices: Tensor) -> Tensor:
    """Returns the least differences of pictures, cut in all ways, and others."""
    cut = (matrices @ blur(pictures) @ matrices.T).unflatten(1, (-1, SIDE))
    whole = blur(others)[:, None, :, None]
    errors = (cut.unflatten(3, (-1, SIDE)) - whole).abs().mean(dim=(2, 4))
    down, right = (others.diff(dim=side).abs().mean((1, 2)) for side in (1, 2))
    return errors.flatten(1).amin(1) / ((down + right) / 2).clamp(min=LEAST_DETAIL)


def blur(pictures: Tensor) -> Tensor:
    """Blurs pictures, as aligned edges may differ by a part of a pixel."""
    wider = F.pad(pictures.unsqueeze(1), (1, 1, 1, 1), mode="replicate")
    return F.avg_pool2d(wider, 3, 1).squeeze(1)
