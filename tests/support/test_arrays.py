"""Covering arrays leave out nothing that can be, and have nothing that cannot."""

from collections import Counter
from itertools import combinations, product

import pytest
import subsets
from covering import Space
from subsets import SEED, SEED_OF_PAIRS, TASKS, covering_array, everything


def breaks(bounds, levels):
    """Whether a trick is on without what it is bound to, as its row of the catalogue says it."""
    return any(
        levels[trick] is True and any(levels[name] not in some[name] for name in some)
        for trick, some in bounds.items()
    )


def can_be(space, known):
    """Whether some choice has these levels: tries until nothing is broken or left.

    A trick that breaks nothing by what is known may still do so by what is not: then that
    is what is tried next.
    """
    for trick, bounds in space.bounds.items():
        if known.get(trick) is not True:
            continue
        for name, levels in bounds.items():
            if name not in known:
                left = [level for level in levels if level in space.levels[name]]
                return any(can_be(space, known | {name: level}) for level in left)
            if known[name] not in levels:
                return False
    return True


def check_array(space, rows, strength):
    choices = [dict(zip(space.levels, row, strict=True)) for row in rows]
    assert not any(breaks(space.bounds, choice) for choice in choices)
    covered = set()
    for choice in choices:
        covered.update(combinations(choice.items(), strength))
    for some in combinations(space.levels, strength):
        for levels in product(*(space.levels[name] for name in some)):
            meeting = tuple(zip(some, levels, strict=True))
            assert meeting in covered or not can_be(space, dict(meeting)), meeting


@pytest.mark.parametrize(("strength", "seed"), [(2, SEED_OF_PAIRS), (3, SEED)])
def test_the_array_of_the_catalogue_covers(strength, seed):
    rows = covering_array(strength, seed)
    assert rows[0].tricks == []
    assert rows[1] == everything()
    assert len(rows) == len(set(rows)) <= {2: 25, 3: 70}[strength]
    tried = subsets.space(TASKS if strength == 2 else TASKS[:1])
    levels = [row.levels for row in rows]
    check_array(tried, levels, strength)
    with pytest.raises(AssertionError):
        check_array(tried, levels[:-1], strength)


def test_a_trick_without_a_task_that_is_tried_is_out():
    levels = {"task": ("a",), "b": (False, True)}
    space = Space(levels, {"b": {"task": ("c", "d")}})
    assert space.covering_array(2, seed=0) == [("a", False)]


def test_core_subsets_carry_the_other_tricks():
    bounds, chosen = subsets.space().bounds, subsets.all_subsets(7)
    assert not any(breaks(bounds, subset.named_levels) for subset in chosen)
    carried = Counter(
        name for subset in chosen for name in {*subset.tricks} - {*subsets.CORE}
    )
    others = {name for row in covering_array(3, 7) for name in row.tricks}
    assert carried.keys() == others - {*subsets.CORE}
    assert min(carried.values()) > 20
    # Another seed has another row on top, and the same one has the same.
    assert subsets.all_subsets(8) != chosen
