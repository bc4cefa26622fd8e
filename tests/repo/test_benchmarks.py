"""The benchmarks run, at a small size: what they measure there means nothing."""

import json
import sys
from pathlib import Path

import pytest
from processes import call
from rendering import render
from subsets import Subset
from write_docs import measurements

ROOT = Path(__file__).parents[2]

SMALL = {
    "hdf5": "part.CHUNKS = {'contiguous': None}",
    "images": "part.IMAGES, part.PHOTOS, part.LARGE_PHOTOS, part.REPETITIONS = 256, 4, 2, 1",
    "listing": "part.IMAGES, part.READ, part.WORKERS, part.REPETITIONS = 4_000, 640, 1, 1",
    "loop": "part.REPETITIONS = 2",
    "scaling": "part.REPETITIONS, part.LARGE['model'] = 1, 'resnet18'",
    "startup": "part.REPETITIONS = 1",
    "tricks": "part.REPETITIONS, part.TRICKS = 1, {'amp': {}, 'ema': {}}",
}
"""Code that makes a part short. The other parts have no size, or need other packages."""

PROGRAM = """
import sys

sys.path.insert(0, "benchmarks")
import {name} as part
from run import PARTS

assert PARTS["{name}"].__module__ == "{name}"
{small}
for row in PARTS["{name}"]():
    print(row)
    # These are counted, and hold at any size.
    assert row.holds or row.bound not in ("0", "1"), row
"""


@pytest.mark.proof
@pytest.mark.share
@pytest.mark.parametrize("name", SMALL)
def test_a_part_measures_something(name):
    program = PROGRAM.format(name=name, small=SMALL[name])
    assert call(sys.executable, "-c", program, cwd=ROOT)


PARSES = """
import sys, tyro
from leaf_diseases.settings import Settings
tyro.cli(Settings, args=sys.argv[1:])
"""


@pytest.mark.proof
@pytest.mark.parametrize("name", measurements())
def test_all_tricks_of_a_measurement_take_its_flags_together(tmp_path, name, zygote):
    asked = measurements()[name]
    tricks = asked["tricks"].split(",") + asked.get("base", "").split()
    render(tmp_path, Subset.of("seeding", "folders", *tricks).answers)
    flags = [word.format(weights="model.pt") for word in asked["flags"].split()]
    (tmp_path / "parse.py").write_text(PARSES, encoding="utf-8")
    zygote.output(tmp_path, "parse.py", *flags)


@pytest.mark.proof
@pytest.mark.share
def test_effects_are_measured_and_kept(tmp_path):
    program = (
        "import sys; sys.path.insert(0, 'benchmarks'); import effects; "
        f"effects.be_quick(effects.Path({str(tmp_path)!r})); effects.measure_all(['textures'], 1)"
    )
    call(sys.executable, "-c", program, cwd=ROOT)
    line = json.loads((tmp_path / "effects.jsonl").read_text())
    assert line["name"] == "textures"
    assert {variant: len(runs) for variant, runs in line["runs"].items()} == {
        "as-it-is": 2,
        "with-bilinear_pooling": 2,
    }
