"""The subsets of the tricks: all of them, and a covering array of strength three."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product
from pathlib import Path
from random import Random

import yaml

ROOT = Path(__file__).parents[1]

Level = bool | str
"""An answer to a trick's question: yes or no, or one of its choices."""


@cache
def questions() -> dict[str, tuple[Level, ...]]:
    """The tricks in the order of copier.yml, each with its levels, beginning with off."""
    entries = yaml.safe_load((ROOT / "copier.yml").read_text(encoding="utf-8"))
    return {
        name: tuple(entry["choices"].values()) if "choices" in entry else (False, True)
        for name, entry in entries.items()
        if isinstance(entry, dict) and entry.get("when") == "{{ preset == 'custom' }}"
    }


@dataclass(frozen=True)
class Subset:
    """A choice among the tricks: the level of each, in the order of the questions."""

    levels: tuple[Level, ...]

    @property
    def answers(self) -> dict[str, Level]:
        """What to answer to Copier."""
        return {"preset": "custom"} | dict(zip(questions(), self.levels, strict=True))

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
        asked = zip(questions().items(), self.levels, strict=True)
        return [name for (name, levels), level in asked if level != levels[0]]

    def __str__(self) -> str:
        """Names the tricks that are in, a choice by its value: `seeding-dp-swa`."""
        answers = self.answers
        names = (
            name if answers[name] is True else answers[name] for name in self.tricks
        )
        return "-".join(names) or "none"


def all_subsets() -> list[Subset]:
    """Every subset, in a fixed order that begins with none."""
    return [Subset(levels) for levels in product(*questions().values())]


def everything(**answers: Level) -> Subset:
    """The subset of the preset `everything`, or with other answers to some questions."""
    return Subset(
        tuple(answers.get(name, levels[1]) for name, levels in questions().items())
    )


def seeded_forms() -> list[Subset]:
    """The subsets of `seeding` and one of the forms of `parallel`, or none of them."""
    return [
        subset
        for subset in all_subsets()
        if {"seeding"} <= set(subset.tricks) <= {"seeding", "parallel"}
    ]


SEED = 1493
"""The first that leads to 26 rows at strength three; of 5,000, none led to fewer."""


@cache
def covering_array(strength: int = 3) -> tuple[Subset, ...]:
    """Subsets in which any `strength` tricks meet in all combinations of their levels.

    None and everything come first; then, again and again, the subset that brings the
    most combinations that are still missing, or the first of several in a random order.
    """
    shuffled = all_subsets()
    Random(SEED).shuffle(shuffled)
    candidates = {subset: set(meetings(subset, strength)) for subset in shuffled}
    missing = set().union(*candidates.values())
    rows: list[Subset] = []
    while missing:
        if len(rows) < 2:
            best = (all_subsets()[0], everything())[len(rows)]
        else:
            best = max(candidates, key=lambda subset: len(candidates[subset] & missing))
        rows.append(best)
        missing -= candidates[best]
    return tuple(rows)


def meetings(subset: Subset, strength: int) -> Iterator[tuple[tuple[int, Level], ...]]:
    """Yields each combination of levels, with their places, that a subset contains."""
    return combinations(enumerate(subset.levels), strength)
