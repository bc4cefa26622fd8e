"""The curves of the learning rate: those of torch's classes, and those of runs."""

from typing import Any

import pytest
from leaf_diseases.optim.curves import scheduled_share
from leaf_diseases.settings import Settings
from test_curves import settings


def test_a_fall_is_a_step_at_least() -> None:
    settings = Settings(schedule="step", step_share=0.06)
    shares = [scheduled_share(step, 4, settings) for step in range(4)]
    assert shares == pytest.approx([1, 0.1, 0.01, 0.001])


def test_one_cycle_may_have_its_peak_in_the_first_step() -> None:
    settings = Settings(schedule="onecycle", warmup_share=0.1)
    shares = [scheduled_share(step, 10, settings) for step in range(10)]
    assert shares[0] == 1
    assert shares == sorted(shares, reverse=True)


@pytest.mark.parametrize(
    "flags",
    [
        {"schedule": "step", "step_share": 0.05},
        {"schedule": "step", "step_share": 0.3, "warmup_share": 0.4},
        {"milestones": ()},
        {"milestones": (0.5, 0.5)},
        {"milestones": (30, 60)},
        {"milestones": (0.05, 0.5)},
        {"warmup_share": 0.6},
    ],
)
def test_falls_come_one_after_the_other(flags: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="above --warmup-share|milestones"):
        Settings(**{"schedule": "multistep"} | flags)
