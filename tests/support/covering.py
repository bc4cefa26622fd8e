"""Covering arrays: few choices of tricks in which any few of them meet in every way.

What a choice may hold is said by each trick: others that it needs, others that it
excludes, and the forms of `parallel` that it works with. A *literal* is a trick at one of
its levels. Whatever literals imply is known from two sets of tricks, those that must be in
and those that must be out, and from the forms that are left: they can meet if and only if
no trick is in both sets and a form is left, for then all other tricks can stay out.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Self

import numpy as np

Level = bool | str
"""Whether a trick is in, or which of its choices."""

FORMS = "parallel"
"""The trick whose choices others may be bound to."""

ATTEMPTS = 25
"""Rows that are tried for each row that is taken."""


@dataclass(frozen=True)
class Trick:
    """A trick with its levels, of which the first is off, and what it is bound to."""

    name: str
    levels: tuple[Level, ...] = (False, True)
    needs: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    parallel: tuple[str, ...] = ()
    """The forms that it works with; empty: all."""


@dataclass(frozen=True)
class Implied:
    """What literals imply: tricks in, tricks out, and forms left, each as bits."""

    on: int
    off: int
    forms: int

    def __and__(self, other: Self) -> "Implied":
        return Implied(
            self.on | other.on, self.off | other.off, self.forms & other.forms
        )

    @property
    def possible(self) -> bool:
        return not self.on & self.off and self.forms != 0


class Space:
    """All choices that the tricks of a catalogue allow."""

    def __init__(self, tricks: Sequence[Trick]) -> None:
        self.tricks = {trick.name: trick for trick in tricks}
        self.bits = {name: 1 << place for place, name in enumerate(self.tricks)}
        self.forms = self.tricks[FORMS].levels if FORMS in self.tricks else ("none",)
        self.nothing = Implied(0, 0, (1 << len(self.forms)) - 1)
        self.literals = [(t.name, level) for t in tricks for level in t.levels]
        self.numbers = {literal: n for n, literal in enumerate(self.literals)}
        self.implied = {literal: self._implied(*literal) for literal in self.literals}

    def _implied(self, name: str, level: Level) -> Implied:
        """What a literal implies, by way of other tricks too."""
        result = self.nothing
        if name == FORMS:
            result = Implied(0, 0, 1 << self.forms.index(level))
        if level == self.tricks[name].levels[0]:
            return result & Implied(0, self.bits[name], result.forms)
        open_names, on = [name], set()
        while open_names:
            if (trick := self.tricks[open_names.pop()]).name not in on:
                on.add(trick.name)
                open_names += trick.needs
        for trick in self.tricks.values():
            others = set(trick.excludes)
            if trick.name in on:
                off = sum(self.bits[other] for other in others)
                forms = trick.parallel or self.forms
                left = sum(1 << self.forms.index(form) for form in forms)
                result &= Implied(self.bits[trick.name], off, left)
            elif others & on:
                result &= Implied(0, self.bits[trick.name], result.forms)
        return result

    def allows(self, levels: Mapping[str, Level]) -> bool:
        """Tells whether tricks may have these levels, whatever the others have."""
        return self._all(levels.items()).possible

    def _all(self, literals: Iterable[tuple[str, Level]]) -> Implied:
        return reduce(
            Implied.__and__, (self.implied[x] for x in literals), self.nothing
        )

    def choose(
        self, fixed: Mapping[str, Level], wanted: Mapping[str, Level]
    ) -> tuple[Level, ...]:
        """Returns a choice with some levels fixed, and of those wanted all that can be.

        What neither names is off, but for what is needed.
        """
        state, levels = self._all(fixed.items()), dict(fixed)
        for literal in wanted.items():
            if literal[0] not in fixed and (state & self.implied[literal]).possible:
                state &= self.implied[literal]
                levels |= [literal]
        for trick in self.tricks.values():
            level = trick.levels[bool(state.on & self.bits[trick.name])]
            if trick.name == FORMS:
                left = [f for n, f in enumerate(self.forms) if state.forms & 1 << n]
                level = level if level in left else left[0]
            levels.setdefault(trick.name, level)
        return tuple(levels[name] for name in self.tricks)

    def covering_array(
        self, strength: int, seed: int, first: Iterable[tuple[Level, ...]] = ()
    ) -> list[tuple[Level, ...]]:
        """Returns choices in which any `strength` tricks meet in all ways that may be.

        After the first rows, each row is the one that brings the most of what is still
        missing, of several that are made greedily in a random order of the tricks.
        """
        strength = min(strength, len(self.tricks))
        if strength == 0:
            return [()]
        random = np.random.default_rng(seed)
        missing = self.meetings(strength)
        rows = [
            [self.numbers[x] for x in zip(self.tricks, row, strict=True)]
            for row in first
        ]
        for row in rows:
            missing[np.ix_(*[row] * strength)] = False
        while missing.any():
            left = np.argwhere(missing)
            best = max(
                (
                    self._row(missing, [int(x) for x in random.choice(left)], random)
                    for _ in range(ATTEMPTS)
                ),
                key=lambda row: missing[np.ix_(*[row] * strength)].sum(),
            )
            rows.append(best)
            missing[np.ix_(*[best] * strength)] = False
        return [
            tuple(self.literals[number][1] for number in sorted(row)) for row in rows
        ]

    def meetings(self, strength: int) -> np.ndarray:
        """Tells for every `strength` literals of different tricks if they may meet.

        They may if any two may, and there is a form that suits them all.
        """
        implied = [self.implied[literal] for literal in self.literals]
        pairs = np.array(
            [
                [
                    one[0] != other[0] and self.allows(dict([one, other]))
                    for other in self.literals
                ]
                for one in self.literals
            ]
        )
        forms = np.array([item.forms for item in implied])
        axes = np.ix_(*[np.arange(len(forms))] * strength)
        result = reduce(np.bitwise_and, (forms[axis] for axis in axes)) != 0
        for first, axis in enumerate(axes):
            for other in axes[first + 1 :]:
                result &= pairs[axis, other]
        if strength == 1:
            result &= np.array([item.possible for item in implied])
        return result

    def _row(
        self, missing: np.ndarray, row: list[int], random: np.random.Generator
    ) -> list[int]:
        """Completes a row of literals, each time by what brings the most."""
        state = self._all(self.literals[number] for number in row)
        taken = {self.literals[number][0] for number in row}
        tricks = list(self.tricks.values())
        for place in random.permutation(len(tricks)):
            trick = tricks[place]
            if trick.name in taken:
                continue
            literals = [
                self.numbers[literal]
                for level in trick.levels
                if (state & self.implied[literal := (trick.name, level)]).possible
            ]
            gained = missing.take(literals, axis=0)
            for axis in range(1, missing.ndim):
                gained = gained.take(row, axis)
            gains = gained.reshape(len(literals), -1).sum(1)
            best = np.flatnonzero(gains == gains.max())
            row = [*row, literals[best[random.integers(len(best))]]]
            state &= self.implied[self.literals[row[-1]]]
        return row
