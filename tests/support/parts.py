"""Splits many cases into those of `make test` and those of `make proof`."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

MARKS = (pytest.mark.proof, pytest.mark.share)


def at_once(cases: Iterable[Any], *kept: Any) -> list[Any]:
    """Marks all cases for the proof, each time, but these."""
    return [
        case
        if case in kept
        else pytest.param(*as_values(case), marks=pytest.mark.proof)
        for case in cases
    ]


def few_of(cases: Iterable[Any], *places: int) -> list[Any]:
    """Marks all cases for a share of the proof, but those in these places."""
    cases = list(cases)
    kept = {place % len(cases) for place in places}
    return [
        case if place in kept else pytest.param(*as_values(case), marks=MARKS)
        for place, case in enumerate(cases)
    ]


def as_values(case: Any) -> Sequence[Any]:
    return case if isinstance(case, tuple) else (case,)
