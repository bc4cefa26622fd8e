"""Comparisons of paired runs, on numbers with a known difference."""

import numpy as np
import pytest
from scipy import stats
from torch_tricks.measuring.comparing import compare, verdict

PAIRS = 5


def drawn(effect, seed, pairs=PAIRS):
    """Numbers of pairs of runs that share a seed, and so a part of what is random."""
    rng = np.random.default_rng(seed)
    shared, own = rng.normal(0.9, 0.05, pairs), rng.normal(0, 0.01, (2, pairs))
    return shared + own[0], shared + own[1] + effect


def test_equal_programs_are_not_told_apart_in_95_of_100():
    told = sum(compare(*drawn(0, seed)).significant for seed in range(1000))
    # Of 1,000 fair ones at 5 %, so few or so many are one in ten thousand.
    assert (
        stats.binom.ppf(5e-5, 1000, 0.05) <= told <= stats.binom.isf(5e-5, 1000, 0.05)
    )


@pytest.mark.parametrize(("effect", "word"), [(0.05, "better"), (-0.05, "worse")])
def test_an_effect_of_five_deviations_is_told(effect, word):
    found = [compare(*drawn(effect, seed)) for seed in range(100)]
    assert sum(verdict(one, "higher") == word for one in found) >= 99
    inside = sum(one.low < effect < one.high for one in found)
    assert inside >= 85


def test_as_many_pairs_as_are_said_to_be_enough_tell():
    before, after = drawn(0.005, seed=1)
    found = compare(before, after)
    assert not found.significant
    differences = after - before
    for pairs, told in ((found.enough, True), (found.enough - 1, False)):
        # As many with this mean and this deviation.
        spread = np.resize([1.0, -1.0], pairs - pairs % 2)
        spread = np.append(spread, [0.0] * (pairs % 2))
        spread *= differences.std(ddof=1) / spread.std(ddof=1)
        same = differences.mean() + spread
        assert compare(np.zeros(pairs), same).significant == told


def test_what_is_equal_in_each_pair_is_said_to_be_the_same():
    found = compare([0.5, 0.75], [0.5, 0.75])
    assert (found.low, found.high) == (0, 0)
    assert verdict(found, "higher") == "the same in every run"


def test_without_a_direction_nothing_is_better():
    assert verdict(compare([1, 2, 3], [2.1, 3, 4]), "") == "higher"
