"""The subsets of the tricks that are tried: all of the first nine, and covering arrays."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

from covering import FORMS, TASK, Level, Space
from torch_tricks.catalogue import Trick, choices_of, own_catalogue, own_questions

ROOT = Path(__file__).parents[2]

TRICKS = tuple(own_catalogue().values())
"""The rows of the catalogue."""

TASKS = tuple(choices_of(own_questions()[TASK]))
"""The tasks that arrays and tests try: those that can be chosen. The first is the default."""

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

LONGEST = 240
"""Letters in the name of a subset: files of most systems may have 255."""

SEED = 1
"""The seed of the rows of strength 3, which `make test` reads and `make proof` trains."""

SEED_OF_PAIRS = 8
"""The seed of the rows of strength 2, of all tasks, which `make test` trains.

Of the seeds 0 to 15, it has the fewest rows.
"""

PROOF_SEED = int(os.environ.get("TORCH_TRICKS_SEED") or SEED)
"""The seed of the subsets that `make proof` tries. conftest.py draws another one each time."""


def forms_of(row: Trick) -> tuple[str, ...]:
    """The forms of `parallel` that a trick works with; empty: all."""
    return row.works_with.get(FORMS, ())


def task_of(row: Trick) -> str:
    """The first task that a trick works for."""
    return row.works_with.get(TASK, TASKS)[0]


@cache
def questions() -> dict[str, tuple[Level, ...]]:
    """The tasks, and the levels of each trick, of which the first is off."""
    on_or_off = (False, True)
    levels = {
        row.name: ("none", *row.choices) if row.choices else on_or_off for row in TRICKS
    }
    return {TASK: TASKS} | levels


@cache
def space(tasks: tuple[str, ...] = TASKS) -> Space:
    """All choices, or those of some tasks."""
    bounds = {row.name: row.bounds for row in TRICKS}
    return Space(questions() | {TASK: tasks}, bounds)


@dataclass(frozen=True)
class Subset:
    """A task and a choice among the tricks: levels in the order of the catalogue."""

    levels: tuple[Level, ...]

    @classmethod
    def of(cls, *tricks: str, parallel: str = "none", task: str = TASKS[0]) -> "Subset":
        """The subset of these tricks and what they need."""
        wanted = dict.fromkeys(tricks, True) | {FORMS: parallel, TASK: task}
        return cls(space().choose(wanted, {}))

    @property
    def named_levels(self) -> dict[str, Level]:
        return dict(zip(questions(), self.levels, strict=True))

    @property
    def answers(self) -> dict[str, Any]:
        """The answers to Copier's questions."""
        listed = [name for name, level in self.named_levels.items() if level is True]
        chosen = {TASK: self.task, FORMS: self.parallel, "tricks": listed}
        return {"preset": "custom"} | chosen

    @property
    def task(self) -> str:
        return self.named_levels[TASK]

    @property
    def parallel(self) -> str:
        return self.named_levels[FORMS]

    @property
    def chosen(self) -> set[str]:
        """The names of the tricks that are in, and the choices among their forms."""
        return {*self.tricks, self.parallel}

    @property
    def tricks(self) -> list[str]:
        """The names of the tricks that are in."""
        levels, named = questions(), self.named_levels
        del named[TASK]
        return [name for name, level in named.items() if level != levels[name][0]]

    @property
    def core(self) -> str:
        """Names those of them that belong to the core."""
        return self._named(name for name in self.tricks if name in CORE)

    def __str__(self) -> str:
        """Names the tricks that are in, a choice by its value: `seeding-dp-swa`.

        Of those that would be too many for the name of a file it names the others. Other
        tasks than the default come first: `regression-seeding`. What is too long still ends
        with a checksum.
        """
        missing = [name for name, level in self.named_levels.items() if level is False]
        others = "-".join([self.parallel, "all-but", *missing])
        named = min(self._named(self.tricks), others, key=len)
        name = named if self.task == TASKS[0] else f"{self.task}-{named}"
        if len(name) > LONGEST:
            name = f"{name[: LONGEST - 9]}-{crc32(name.encode()):08x}"
        return name

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

    Of the other tricks of the row, it has those that the core's levels allow. The task is the
    default.
    """
    rows, random, space_of = covering_array(3, seed), Random(seed), space(TASKS[:1])
    return [
        Subset(space_of.choose(core, random.choice(rows).named_levels))
        for core in core_choices()
        if space_of.allows(core)
    ]


def everything(**answers: Level) -> Subset:
    """The subset of the preset `everything`, or with other answers to some questions."""
    fixed = {TASK: TASKS[0], FORMS: questions()[FORMS][1]} | answers
    excluding = {row.name for row in TRICKS if row.excludes}
    wanted = {
        name: levels[-1]
        for name, levels in questions().items()
        if name not in excluding
    }
    return Subset(space().choose(fixed, wanted))


def recommended(task: str = TASKS[0]) -> Subset:
    """The subset of the preset `recommended`."""
    rows = (row for row in TRICKS if row.recommended and row.works(TASK, task))
    return Subset.of(*(row.name for row in rows), task=task)


def seeded_forms() -> list[Subset]:
    """The subsets of `seeding` and one of the forms of `parallel`, or none of them.

    Those of several processes also with batch-norm that all share.
    """
    return [
        *(Subset.of("seeding", parallel=form) for form in questions()[FORMS]),
        *(Subset.of("seeding", "sync_bn", parallel=form) for form in ("ddp", "fsdp")),
    ]


def subsets_for_gpu() -> list[Subset]:
    """The subsets that train on a GPU.

    Triples of the default task; pairs and everything of the others; and `seeding` with each form.
    """
    pairs = covering_array(2, SEED_OF_PAIRS)
    others = [subset for subset in pairs if subset.task != TASKS[0]]
    others += [everything(task=task) for task in TASKS[1:]]
    return list(dict.fromkeys([*covering_array(), *others, *seeded_forms()]))


def covering_array(strength: int = 3, seed: int = SEED) -> tuple[Subset, ...]:
    """Subsets in which any `strength` tricks meet in all ways that they may.

    None and everything come first. Of two that meet, one may be the task; three meet in the
    default task.
    """
    return cached_array(strength, seed)


@cache
def cached_array(strength: int, seed: int) -> tuple[Subset, ...]:
    """Makes each array once, whether or not a caller spells the defaults out."""
    first = [Subset.of().levels, everything().levels]
    array = space(TASKS if strength == 2 else TASKS[:1])
    return tuple(map(Subset, array.covering_array(strength, seed, first)))
