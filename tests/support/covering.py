"""Covering arrays: few choices of tricks in which any few of them meet in every way.

A *literal* is a trick, or a question such as `parallel`, at one of its levels. It leaves some of
the levels of all others. Literals can meet if and only if those that each of them leaves have a
level of every trick in common: a trick that none of them needs can be off.
"""

from collections.abc import Iterable, Mapping
from functools import reduce
from itertools import combinations

import numpy as np
from torch_tricks.catalogue import Level

FORMS = "parallel"
"""The trick whose choices are the forms of several GPUs."""

TASK = "task"
"""The question about what a model predicts, which is no trick."""

ATTEMPTS = 25
"""Rows that are tried for each row that is taken."""


class Space:
    """All choices that the tricks of a catalogue allow.

    Args:
        levels: the levels of each trick, of which the first is off.
        bounds: for each trick, the levels of others that go with it: see
            `torch_tricks.catalogue.Trick.bounds`.
    """

    def __init__(
        self,
        levels: Mapping[str, tuple[Level, ...]],
        bounds: Mapping[str, Mapping[str, tuple[Level, ...]]],
    ) -> None:
        self.levels, self.bounds = levels, bounds
        self.literals = [(name, level) for name in levels for level in levels[name]]
        self.numbers = {literal: n for n, literal in enumerate(self.literals)}
        self.starts = [self.numbers[name, levels[name][0]] for name in levels]
        self.left = np.array([self._left(*literal) for literal in self.literals])

    def _left(self, name: str, level: Level) -> list[bool]:
        """Tells for each literal if this one leaves it, also by way of other tricks."""
        left, before = {n: {*some} for n, some in self.levels.items()}, {}
        left[name] = {level}
        while left != before:
            before = dict(left)
            for trick, bounds in self.bounds.items():
                off = self.levels[trick][0]
                for other, some in bounds.items():
                    if off not in left[trick]:
                        left[other] = left[other].intersection(some)
                    if left[other].isdisjoint(some):
                        left[trick] = left[trick] & {off}
        return [level in left[name] for name, level in self.literals]

    def _all(self, literals: Iterable[tuple[str, Level]]) -> np.ndarray:
        """Tells for each literal if all of these leave it."""
        return self.left[[self.numbers[literal] for literal in literals]].all(0)

    def _possible(self, left: np.ndarray) -> np.ndarray:
        """Tells whether a level of each trick is left, in the last dimension."""
        return np.logical_or.reduceat(left, self.starts, axis=-1).all(-1)

    def allows(self, levels: Mapping[str, Level]) -> bool:
        """Tells whether tricks may have these levels, whatever the others have."""
        return bool(self._possible(self._all(levels.items())))

    def choose(
        self, fixed: Mapping[str, Level], wanted: Mapping[str, Level]
    ) -> tuple[Level, ...]:
        """Returns a choice with some levels fixed, and of those wanted all that can be.

        What neither names is off, but for what is needed.
        """
        left = self._all(fixed.items())
        for literal in wanted.items():
            both = left & self.left[self.numbers[literal]]
            if literal[0] not in fixed and self._possible(both):
                left = both
        first = {}
        for number in np.flatnonzero(left):
            first.setdefault(*self.literals[number])
        return tuple(first.values())

    def covering_array(
        self, strength: int, seed: int, first: Iterable[tuple[Level, ...]] = ()
    ) -> list[tuple[Level, ...]]:
        """Returns choices in which any `strength` tricks meet in all ways that may be.

        After the first rows, each row is the one that brings the most of what is still
        missing, of several that are made greedily in a random order of the tricks.
        """
        random = np.random.default_rng(seed)
        missing = self.meetings(strength)
        rows = [
            [self.numbers[x] for x in zip(self.levels, row, strict=True)]
            for row in first
        ]
        for row in rows:
            missing[np.ix_(*[row] * strength)] = False
        while missing.any():
            left = np.argwhere(missing)
            attempts = (
                self._row(missing, left[random.integers(len(left))].tolist(), random)
                for _ in range(ATTEMPTS)
            )
            best, _ = max(attempts, key=lambda attempt: attempt[1])
            rows.append(best)
            missing[np.ix_(*[best] * strength)] = False
        return [
            tuple(self.literals[number][1] for number in sorted(row)) for row in rows
        ]

    def meetings(self, strength: int) -> np.ndarray:
        """Tells for every `strength` literals of different tricks if they may meet."""
        axes = np.ix_(*[range(len(self.literals))] * strength)
        starts = np.searchsorted(self.starts, range(len(self.literals)), "right")
        result = np.ones([len(self.literals)] * strength, bool)
        for one, other in combinations(axes, 2):
            result &= starts[one] != starts[other]
        for levels in np.split(self.left, self.starts[1:], axis=1):
            common = (
                reduce(np.logical_and, (left[axis] for axis in axes))
                for left in levels.T
            )
            result &= reduce(np.logical_or, common)
        return result

    def _row(
        self, missing: np.ndarray, row: list[int], random: np.random.Generator
    ) -> tuple[list[int], int]:
        """Completes a row of literals, each time by what brings the most.

        Returns:
            The row, and a number that rises with the meetings that it brings.
        """
        left = self.left[row].all(0)
        taken, brought = {self.literals[number][0] for number in row}, 0
        names = list(self.levels)
        for place in random.permutation(len(names)):
            if names[place] in taken:
                continue
            start = self.starts[place]
            end = start + len(self.levels[names[place]])
            found = missing[start:end]
            for axis in range(1, missing.ndim):
                found = found.take(row, axis)
            possible = self._possible(left & self.left[start:end])
            # Meetings are counted in each order of the others.
            brings = np.where(possible, found.reshape(len(found), -1).sum(1), -1)
            best = np.flatnonzero(brings == brings.max())
            literal = start + int(best[random.integers(len(best))])
            brought += int(brings.max())
            row = [*row, literal]
            left &= self.left[literal]
        return row, brought
