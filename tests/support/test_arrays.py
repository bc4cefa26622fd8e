"""Covering arrays leave out nothing that can be, and have nothing that cannot."""

from collections import Counter
from itertools import combinations, product
from random import Random

import pytest
import subsets
from covering import FORMS, TASK, Space, Trick
from parts import few_of
from subsets import SEED, SEED_OF_PAIRS, TASKS, covering_array, everything

CHOICES = ("none", "dp", "ddp", "fsdp")


def made_up_catalogue(number, seed=0):
    """As many tricks, of which some need or exclude others, or a form of `parallel`."""
    random = Random(seed)
    names = [f"trick_{place}" for place in range(number)]

    def others(place, chance):
        # A trick that is needed comes first, so that no two need each other.
        return tuple(random.sample(names[:place], min(place, random.random() < chance)))

    return [
        Trick(FORMS, CHOICES),
        *(
            Trick(
                name,
                bounds=dict.fromkeys(others(place, 0.3), (True,))
                | dict.fromkeys(others(place, 0.2), (False,))
                | random.choice(
                    [{}, {}, {}, {FORMS: ("ddp", "fsdp")}, {FORMS: ("none", "dp")}]
                ),
            )
            for place, name in enumerate(names)
        ),
    ]


def breaks(trick, levels):
    """Whether what a trick is bound to is broken, as its row of the catalogue says it."""
    return levels[trick.name] is True and any(
        levels[name] not in some for name, some in trick.bounds.items()
    )


def can_be(tricks, known):
    """Whether some choice has these levels: tries until nothing is broken or left.

    A trick that breaks nothing by what is known may still do so by what is not: then that
    is what is tried next.
    """
    for trick in tricks:
        if known.get(trick.name) is not True:
            continue
        for name, levels in trick.bounds.items():
            if name not in known:
                [there] = (other.levels for other in tricks if other.name == name)
                left = [level for level in levels if level in there]
                return any(can_be(tricks, known | {name: x}) for x in left)
            if known[name] not in levels:
                return False
    return True


def check_array(tricks, rows, strength):
    names = [trick.name for trick in tricks]
    choices = [dict(zip(names, row, strict=True)) for row in rows]
    for choice in choices:
        assert [trick for trick in tricks if breaks(trick, choice)] == []
    covered = set()
    for choice in choices:
        covered.update(combinations(choice.items(), strength))
    missing = 0
    for some in combinations(tricks, strength):
        for levels in product(*(trick.levels for trick in some)):
            meeting = tuple(zip((trick.name for trick in some), levels, strict=True))
            if meeting not in covered:
                missing += 1
                assert not can_be(tricks, dict(meeting)), meeting
    return missing


@pytest.mark.parametrize(("strength", "seed"), [(2, SEED_OF_PAIRS), (3, SEED)])
def test_the_array_of_the_catalogue_covers(strength, seed):
    rows = covering_array(strength, seed)
    assert rows[0].tricks == []
    assert rows[1] == everything()
    assert len(rows) == len(set(rows)) <= {2: 25, 3: 70}[strength]
    tried = subsets.space(TASKS if strength == 2 else TASKS[:1])
    assert {row.task for row in rows} == {*tried.tricks[TASK].levels}
    check_array([*tried.tricks.values()], [row.levels for row in rows], strength)


def test_a_trick_without_a_task_that_is_tried_is_out():
    tricks = [Trick(TASK, ("a",)), Trick("b", bounds={TASK: ("c", "d")})]
    assert Space(tricks).covering_array(2, seed=0) == [("a", False)]


@pytest.mark.parametrize("seed", few_of(range(20), 0, 1, 2))
def test_small_catalogues(seed):
    tricks = made_up_catalogue(6, seed)
    space = Space(tricks)
    names = [trick.name for trick in tricks]
    allowed = {
        choice
        for choice in product(*(trick.levels for trick in tricks))
        if not any(breaks(t, dict(zip(names, choice, strict=True))) for t in tricks)
    }
    for choice in product(*(trick.levels for trick in tricks)):
        levels = dict(zip(names, choice, strict=True))
        assert space.allows(levels) == (choice in allowed)
        # What is wanted and cannot be is left out, and what is needed comes along.
        assert space.choose({}, levels) in allowed
    for strength in (2, 3):
        check_array(tricks, space.covering_array(strength, seed), strength)


def test_a_row_that_is_missing_is_found():
    tricks = made_up_catalogue(6)
    rows = Space(tricks).covering_array(3, seed=0)
    with pytest.raises(AssertionError):
        check_array(tricks, rows[:-1], 3)
    wrong = next(trick for trick in tricks if trick.bounds == {FORMS: ("ddp", "fsdp")})
    row = [trick.name == wrong.name for trick in tricks]
    with pytest.raises(AssertionError):
        check_array(tricks, [*rows, ("none", *row[1:])], 3)


def test_core_subsets_carry_the_other_tricks():
    tricks, chosen = subsets.space(TASKS[:1]).tricks, subsets.all_subsets(7)
    for subset in chosen:
        levels = subset.named_levels
        assert not [trick for trick in tricks.values() if breaks(trick, levels)]
    carried = Counter(
        name for subset in chosen for name in {*subset.tricks} - {*subsets.CORE}
    )
    others = {name for row in covering_array(3, 7) for name in row.tricks}
    assert carried.keys() == others - {*subsets.CORE}
    assert min(carried.values()) > 20
    # Another seed has another row on top, and the same one has the same.
    assert subsets.all_subsets(8) != chosen
