"""Seeds of `make proof` in a row take all shares, and the same seed the same share."""

import os
import re
import subprocess
import sys

import pytest
from subsets import ROOT

pytestmark = pytest.mark.proof

BENCHMARKS = "tests/repo/test_benchmarks.py"
COVERING = "tests/projects/test_covering.py"


def collected(share, seed, file):
    """Returns the tests that there are with a share and a seed, and what is printed."""
    own = {"TORCH_TRICKS_SHARE": share, "TORCH_TRICKS_SEED": seed}
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-qm", "proof", file],
        capture_output=True,
        check=True,
        cwd=ROOT,
        encoding="utf-8",
        env=os.environ | own,
    )
    names = re.findall(r"^tests/.*::.*$", result.stdout, re.MULTILINE)
    assert len(names) == len(set(names))
    return set(names), result.stdout


def parts(names):
    return {name for name in names if "a_part_measures" in name}


def test_seeds_in_a_row_take_all_in_turn():
    every = parts(collected("", "7", BENCHMARKS)[0])
    shares = [parts(collected("3", seed, BENCHMARKS)[0]) for seed in ("7", "8", "9")]
    assert set().union(*shares) == every
    assert [len(share) for share in shares] == [len(every) / 3] * 3


def test_a_seed_that_nobody_gave_is_random_and_said():
    names, said = collected("3", "", COVERING)
    [seed] = re.findall(
        r"^make proof SHARE=3 SEED=(\d+) repeats this", said, re.MULTILINE
    )
    assert collected("3", seed, COVERING)[0] == names
    assert collected("3", "7", COVERING)[0] != names
