"""The subsets of the tricks that are tried: all of the first nine, and covering arrays."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

from covering import FORMS, Level, Space, Trick
from torch_tricks.catalogue import Trick as Row
from torch_tricks.catalogue import own_catalogue, own_questions

ROOT = Path(__file__).parents[2]

TRICKS = tuple(own_catalogue().values())
"""The rows of the catalogue."""

AVERAGES = {
    name
    for name, row in own_questions()["catalogue"]["default"].items()
    if "averages" in row
}
"""The tricks by which a model with averaged weights is evaluated."""

CORE = (
    *("seeding", "parallel", "hdf5", "prefetcher", "amp"),
    *("accumulation", "swa", "mixup", "resume"),
)
"""The tricks of which every subset is trained before a release."""

SEED = 21
"""The seed of the array that `make test` trains: 50 rows of strength 3."""

SEED_OF_PAIRS = 191
"""The seed of the 15 rows of strength 2. The own tests of two of them run in `make test`."""

PROOF_SEED = int(os.environ.get("TORCH_TRICKS_SEED") or SEED)
"""The seed of the subsets that `make proof` tries. conftest.py draws another one each time."""


@cache
def catalogue() -> tuple[Trick, ...]:
    """The tricks in the order of copier.yml, with their levels and constraints."""
    return with_levels(TRICKS)


def with_levels(
    rows: Iterable[Row], choices: Mapping[str, Sequence[str]] | None = None
) -> tuple[Trick, ...]:
    """Returns rows of a catalogue with the levels that each trick has.

    Args:
        choices: the questions with choices that are no tricks, and come first.
    """
    return (
        *(Trick(name, tuple(levels)) for name, levels in (choices or {}).items()),
        *(
            Trick(
                name=row.name,
                levels=("none", *row.choices) if row.choices else (False, True),
                needs=row.needs,
                excludes=row.excludes,
                works_with=row.works_with,
            )
            for row in rows
        ),
    )


def forms_of(row: Row) -> tuple[str, ...]:
    """The forms of `parallel` that a trick works with; empty: all."""
    return row.works_with.get(FORMS, ())


def questions() -> dict[str, tuple[Level, ...]]:
    """The levels of each trick, of which the first is off."""
    return {trick.name: trick.levels for trick in catalogue()}


@cache
def space() -> Space:
    return Space(catalogue())


@dataclass(frozen=True)
class Subset:
    """A choice among the tricks: the level of each, in the order of the catalogue."""

    levels: tuple[Level, ...]

    @classmethod
    def of(cls, *tricks: str, parallel: str = "none") -> "Subset":
        """The subset of these tricks and what they need."""
        wanted = dict.fromkeys(tricks, True) | {FORMS: parallel}
        return cls(space().choose(wanted, {}))

    @property
    def named_levels(self) -> dict[str, Level]:
        return dict(zip(questions(), self.levels, strict=True))

    @property
    def answers(self) -> dict[str, Any]:
        """The answers to Copier's questions."""
        listed = [name for name, level in self.named_levels.items() if level is True]
        return {"preset": "custom", FORMS: self.parallel, "tricks": listed}

    @property
    def parallel(self) -> str:
        return self.named_levels[FORMS]

    @property
    def chosen(self) -> set[str]:
        """The names of the tricks that are in, and the choices among their forms."""
        return {
            *self.tricks,
            *(level for level in self.levels if isinstance(level, str)),
        }

    @property
    def tricks(self) -> list[str]:
        """The names of the tricks that are in."""
        levels = questions()
        return [n for n, level in self.named_levels.items() if level != levels[n][0]]

    @property
    def core(self) -> str:
        """Names those of them that belong to the core."""
        return self._named(name for name in self.tricks if name in CORE)

    def __str__(self) -> str:
        """Names the tricks that are in, a choice by its value: `seeding-dp-swa`.

        Of those that would be too many for the name of a file it names the others.
        """
        missing = [name for name, level in self.named_levels.items() if level is False]
        others = "-".join([self.parallel, "all-but", *missing])
        return min(self._named(self.tricks), others, key=len)

    def _named(self, tricks: Iterable[str]) -> str:
        levels = self.named_levels
        names = (name if levels[name] is True else levels[name] for name in tricks)
        return "-".join(names) or "none"


def core_choices() -> list[dict[str, Level]]:
    """All the levels that the core's tricks could have, those that are refused too."""
    levels = [questions()[name] for name in CORE]
    return [dict(zip(CORE, choice, strict=True)) for choice in product(*levels)]


@cache
def all_subsets(seed: int = SEED) -> list[Subset]:
    """Every subset of the core, each with a row of a covering array on top.

    Of the other tricks of the row, it has those that the core's levels allow.
    """
    rows, random = covering_array(3, seed), Random(seed)
    return [
        Subset(space().choose(core, without_core(random.choice(rows))))
        for core in core_choices()
        if space().allows(core)
    ]


def without_core(subset: Subset) -> dict[str, Level]:
    """The tricks of a subset that do not belong to the core."""
    levels = subset.named_levels
    return {name: levels[name] for name in subset.tricks if name not in CORE}


def everything(**answers: Level) -> Subset:
    """The subset of the preset `everything`, or with other answers to some questions."""
    fixed = {FORMS: questions()[FORMS][1]} | answers
    wanted = {name: levels[1] for name, levels in questions().items()}
    return Subset(space().choose(fixed, wanted))


def seeded_forms() -> list[Subset]:
    """The subsets of `seeding` and one of the forms of `parallel`, or none of them.

    Those of several processes also with batch-norm that all share.
    """
    return [
        *(Subset.of("seeding", parallel=form) for form in questions()[FORMS]),
        *(Subset.of("seeding", "sync_bn", parallel=form) for form in ("ddp", "fsdp")),
    ]


def covering_array(strength: int = 3, seed: int = SEED) -> tuple[Subset, ...]:
    """Subsets in which any `strength` tricks meet in all ways that they may.

    None and everything come first.
    """
    return cached_array(strength, seed)


@cache
def cached_array(strength: int, seed: int) -> tuple[Subset, ...]:
    """Makes each array once, whether or not a caller spells the defaults out."""
    first = [Subset.of().levels, everything().levels]
    return tuple(map(Subset, space().covering_array(strength, seed, first)))
