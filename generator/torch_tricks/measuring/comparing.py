"""Differences between paired runs, with confidence intervals and verdicts."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
MOST_RUNS = 1000
"""More pairs than that are nobody's plan."""


class Difference(NamedTuple):
    """The difference that a change makes to a number, over pairs of runs with one seed each."""

    before: float
    after: float
    """The means."""
    mean: float
    """The mean of the differences, after minus before."""
    low: float
    high: float
    """The 95 % confidence interval of the mean difference, by Student's t."""
    pairs: int
    enough: int | None
    """Pairs for a significant difference, if mean and deviation stay as they are. None: it is
    significant already, or more than `MOST_RUNS` are needed."""

    @property
    def significant(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low > 0 or self.high < 0

    def as_dict(self) -> dict[str, Any]:
        return self._asdict() | {"significant": self.significant}


def compare(before: Sequence[float], after: Sequence[float]) -> Difference:
    """Returns the difference of two numbers that were measured in pairs.

    https://docs.scipy.org/doc/scipy/reference/generated/scipy.stats.ttest_rel.html

    Args:
        before: one number of each pair, two or more.
        after: the other number of each pair.
    """
    differences = np.subtract(after, before)
    mean, pairs = float(differences.mean()), len(differences)
    if np.ptp(differences) == 0:  # All are equal: there is nothing to be unsure of.
        low = high = mean
    else:
        interval = stats.ttest_rel(after, before).confidence_interval(CONFIDENCE)
        low, high = float(interval.low), float(interval.high)
    found = Difference(
        float(np.mean(before)), float(np.mean(after)), mean, low, high, pairs, None
    )
    return (
        found if found.significant else found._replace(enough=enough_pairs(differences))
    )


def enough_pairs(differences: np.ndarray) -> int | None:
    """Returns the pairs of runs for a significant difference, if mean and deviation stay."""
    mean, deviation = abs(differences.mean()), differences.std(ddof=1)
    pairs = np.arange(len(differences) + 1, MOST_RUNS + 1)
    t = stats.t.ppf((1 + CONFIDENCE) / 2, pairs - 1)
    enough = pairs[t * deviation / np.sqrt(pairs) < mean]
    return int(enough[0]) if len(enough) else None


def verdict(found: Difference, better: str, least: float = 0) -> str:
    """Returns in words what a difference says.

    Args:
        better: `higher` or `lower`, or an empty text if neither is.
        least: a smaller difference does not matter.
    """
    if found.low == found.high == 0:
        return "the same in every run"
    if not found.significant:
        more = f"more than {MOST_RUNS} would be needed"
        if found.enough is not None:
            more = f"about {found.enough} would be needed, if the difference stays"
        return f"not significant in {found.pairs} pairs of runs ({more})"
    direction = "higher" if found.mean > 0 else "lower"
    if abs(found.mean) < least:
        return f"{direction}, by too little to matter"
    if not better:
        return direction
    return "better" if direction == better else "worse"
