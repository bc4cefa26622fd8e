"""Lists that data loading processes share, and do not copy.

A process would copy the objects of a list: after a fork as it counts references to them,
and else as it loads them from a pickle. It shares the tensors of these lists.
https://ppwwyyxx.com/blog/2022/Demystify-RAM-Usage-in-Multiprocess-DataLoader/
"""

import os
import pickle
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

BLOCK = 16
"""Items that `PackedList` pickles together."""


class PackedPaths(Sequence[Path]):
    """Paths as text, with a null before and after each.

    Args:
        paths: paths, or texts of several paths with nulls between them.
    """

    def __init__(self, paths: Iterable[str | Path]) -> None:
        text = bytearray(os.fsencode("\0".join(["", *map(str, paths), ""])))
        self.text = torch.frombuffer(text, dtype=torch.uint8)
        self.nulls = torch.from_numpy(np.flatnonzero(self.text.numpy() == 0))

    def texts(self) -> list[str]:
        """Returns all paths as text. A million objects of Path would take seconds."""
        return os.fsdecode(self.text.numpy().tobytes()).split("\0")[1:-1]

    def __len__(self) -> int:
        return len(self.nulls) - 1

    def __iter__(self) -> Iterator[Path]:
        return map(Path, self.texts())

    def __getitem__(self, index: Any) -> Any:
        """Returns a path, or a list of the paths in a slice."""
        places = range(len(self))[index]
        if isinstance(places, range):
            return [self[place] for place in places]
        before, after = self.nulls[places : places + 2].tolist()
        return Path(os.fsdecode(self.text[before + 1 : after].numpy().tobytes()))


class PackedList(Sequence[Any]):
    """Any objects as pickles."""

    def __init__(self, items: Iterable[Any]) -> None:
        items = [*items]
        self.length = len(items)
        starts = range(0, max(1, len(items)), BLOCK)
        blocks = [pickle.dumps(items[start : start + BLOCK]) for start in starts]
        self.ends = torch.tensor([0, *map(len, blocks)]).cumsum(0)
        self.pickles = torch.frombuffer(bytearray().join(blocks), dtype=torch.uint8)

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[Any]:
        pickles = self.pickles.numpy().data
        for start, end in pairwise(self.ends.tolist()):
            yield from pickle.loads(pickles[start:end])

    def __getitem__(self, index: Any) -> Any:
        """Returns an item, or a list of the items in a slice."""
        places = range(self.length)[index]
        if isinstance(places, range):
            return [self[place] for place in places]
        block, place = divmod(places, BLOCK)
        start, end = self.ends[block : block + 2].tolist()
        return pickle.loads(self.pickles[start:end].numpy().data)[place]
