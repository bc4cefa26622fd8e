"""Covering arrays: few choices of tricks in which any few of them meet in every way.

What a choice may hold is said by each trick: others that it needs, others that it
excludes, and the choices of a question that it works with, such as the forms of `parallel`.
Such a question is a trick with choices among its levels. A *literal* is a trick at one of its
levels. The implications of literals are two sets of tricks, those that must be in and those that
must be out, and the choices that are left. Literals can meet if and only if no
trick is in both sets and each question has a choice left, for then all other tricks can stay
out.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Self

import numpy as np
from torch_tricks.catalogue import Level

FORMS = "parallel"
"""The trick whose choices are the forms of several GPUs."""

TASK = "task"
"""The question about what a model predicts, which is no trick."""

ATTEMPTS = 25
"""Rows that are tried for each row that is taken."""


@dataclass(frozen=True)
class Trick:
    """A trick with its levels, of which the first is off, and what it is bound to."""

    name: str
    levels: tuple[Level, ...] = (False, True)
    bounds: Mapping[str, tuple[Level, ...]] = field(default_factory=dict)
    """The levels of others that go with it: see `torch_tricks.catalogue.Trick.bounds`."""

    @property
    def has_choices(self) -> bool:
        return isinstance(self.levels[0], str)


@dataclass(frozen=True)
class Implied:
    """The implications of literals: tricks in, tricks out, and choices left, each as bits."""

    on: int
    off: int
    choices: int

    def __and__(self, other: Self) -> "Implied":
        return Implied(
            self.on | other.on, self.off | other.off, self.choices & other.choices
        )


def others_at(trick: Trick, level: bool) -> set[str]:
    """Returns the tricks that must be in, or out, beside a trick."""
    return {name for name, levels in trick.bounds.items() if levels == (level,)}


class Space:
    """All choices that the tricks of a catalogue allow."""

    def __init__(self, tricks: Sequence[Trick]) -> None:
        self.tricks = {trick.name: trick for trick in tricks}
        self.bits = {name: 1 << place for place, name in enumerate(self.tricks)}
        self.literals = [(t.name, level) for t in tricks for level in t.levels]
        of_questions = [x for x in self.literals if self.tricks[x[0]].has_choices]
        self.choices = {literal: 1 << n for n, literal in enumerate(of_questions)}
        self.questions = {
            trick.name: self._bits(trick.name, trick.levels)
            for trick in tricks
            if trick.has_choices
        }
        self.nothing = Implied(0, 0, sum(self.questions.values()))
        self.numbers = {literal: n for n, literal in enumerate(self.literals)}
        self.implied = {literal: self._implied(*literal) for literal in self.literals}

    def _bits(self, question: str, choices: Iterable[Level]) -> int:
        """Returns the bits of those choices that the question has."""
        return sum(self.choices.get((question, choice), 0) for choice in choices)

    def _only(self, question: str, choices: Iterable[Level]) -> Implied:
        """Returns the implications of a question that has one of some choices."""
        others = self.nothing.choices & ~self.questions[question]
        return Implied(0, 0, others | self._bits(question, choices))

    def _implied(self, name: str, level: Level) -> Implied:
        """Returns the implications of a literal, also those by way of other tricks."""
        result = self.nothing
        if name in self.questions:
            result = self._only(name, [level])
        if level == self.tricks[name].levels[0]:
            return result & Implied(0, self.bits[name], result.choices)
        open_names, on = [name], set()
        while open_names:
            if (trick := self.tricks[open_names.pop()]).name not in on:
                on.add(trick.name)
                open_names += others_at(trick, True)
        for trick in self.tricks.values():
            others = others_at(trick, False)
            if trick.name in on:
                off = sum(self.bits[other] for other in others)
                result &= Implied(self.bits[trick.name], off, result.choices)
                for question in trick.bounds.keys() & self.questions.keys():
                    result &= self._only(question, trick.bounds[question])
            elif others & on:
                result &= Implied(0, self.bits[trick.name], result.choices)
        return result

    def _possible(self, state: Implied) -> bool:
        """Tells whether no trick must be both in and out, and no question lacks a choice."""
        left = all(state.choices & bits for bits in self.questions.values())
        return left and not state.on & state.off

    def allows(self, levels: Mapping[str, Level]) -> bool:
        """Tells whether tricks may have these levels, whatever the others have."""
        return self._possible(self._all(levels.items()))

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
            both = state & self.implied[literal]
            if literal[0] not in fixed and self._possible(both):
                state = both
                levels |= [literal]
        for trick in self.tricks.values():
            level = trick.levels[bool(state.on & self.bits[trick.name])]
            if trick.has_choices:
                left = [
                    choice
                    for choice in trick.levels
                    if state.choices & self.choices[trick.name, choice]
                ]
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
            attempts = (
                self._row(missing, [int(x) for x in random.choice(left)], random)
                for _ in range(ATTEMPTS)
            )
            best, _ = max(attempts, key=lambda attempt: attempt[1])
            rows.append(best)
            missing[np.ix_(*[best] * strength)] = False
        return [
            tuple(self.literals[number][1] for number in sorted(row)) for row in rows
        ]

    def meetings(self, strength: int) -> np.ndarray:
        """Tells for every `strength` literals of different tricks if they may meet.

        They may if any two may, and each question has a choice that suits them all.
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
        choices = np.array([item.choices for item in implied])
        axes = np.ix_(*[np.arange(len(choices))] * strength)
        left = reduce(np.bitwise_and, (choices[axis] for axis in axes))
        result = np.ones(left.shape, bool)
        for bits in self.questions.values():
            result &= (left & bits) != 0
        for first, axis in enumerate(axes):
            for other in axes[first + 1 :]:
                result &= pairs[axis, other]
        return result

    def _row(
        self, missing: np.ndarray, row: list[int], random: np.random.Generator
    ) -> tuple[list[int], int]:
        """Completes a row of literals, each time by what brings the most.

        Returns:
            The row, and a number that rises with the meetings that it brings.
        """
        state = self._all(self.literals[number] for number in row)
        taken = {self.literals[number][0] for number in row}
        tricks, brought = list(self.tricks.values()), 0
        gains = np.zeros(len(self.literals), int)
        for place, literal in enumerate(row):
            gains += gained_with(missing, literal, row[:place])
        for place in random.permutation(len(tricks)):
            trick = tricks[place]
            if trick.name in taken:
                continue
            literals = [
                self.numbers[literal]
                for level in trick.levels
                if self._possible(state & self.implied[literal := (trick.name, level)])
            ]
            most = gains[literals].max()
            best = np.flatnonzero(gains[literals] == most)
            literal = literals[best[random.integers(len(best))]]
            brought += int(most)
            gains += gained_with(missing, literal, row)
            row = [*row, literal]
            state &= self.implied[self.literals[literal]]
        return row, brought


def gained_with(missing: np.ndarray, literal: int, row: list[int]) -> np.ndarray:
    """Returns how much more each literal brings to a row once another one is in it.

    Meetings are counted in each order of the others.
    """
    found = missing[literal]
    for _ in range(missing.ndim - 2):
        found = found.take(row, axis=-1)
    return found.reshape(len(found), -1).sum(1) * (missing.ndim - 1)
