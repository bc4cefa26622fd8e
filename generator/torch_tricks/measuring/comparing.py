"""Differences between paired runs, with confidence intervals and verdicts."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
MOST_RUNS = 1000
"""Largest number of pairs to suggest."""


class Difference(NamedTuple):
    """Difference of a metric between paired runs, with a seed per pair."""

    before: float
    after: float
    """Mean before and mean after."""
    mean: float
    """Mean difference, after minus before."""
    low: float
    high: float
    """95 % confidence interval of the mean difference, by Student's t."""
    pairs: int
    enough: int | None
    """Pairs for a significant difference, at the same mean and standard deviation. None: it is
    significant already, or needs more than `MOST_RUNS`."""

    @property
    def significant(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low > 0 or self.high < 0

    def as_dict(self) -> dict[str, Any]:
        return self._asdict() | {"significant": self.significant}


def compare(before: Sequence[float], after: Sequence[float]) -> Difference:
    """Compares paired measurements.

    https://docs.scipy.org/doc/scipy/reference/generated/scipy.stats.ttest_rel.html

    Args:
        before: first number of each pair, for two or more pairs.
        after: second number of each pair.
    """
    differences = np.subtract(after, before)
    mean, pairs = float(differences.mean()), len(differences)
    if np.ptp(differences) == 0:  # All equal: the interval is a point.
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
    """Returns the pairs for a significant difference, at the same mean and standard deviation."""
    mean, deviation = abs(differences.mean()), differences.std(ddof=1)
    pairs = np.arange(len(differences) + 1, MOST_RUNS + 1)
    t = stats.t.ppf((1 + CONFIDENCE) / 2, pairs - 1)
    enough = pairs[t * deviation / np.sqrt(pairs) < mean]
    return int(enough[0]) if len(enough) else None


def verdict(found: Difference, better: str, least: float = 0) -> str:
    """Returns the verdict on a difference in words.

    Args:
        better: `higher` or `lower`, or an empty text for neither.
        least: smallest relevant difference.
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
