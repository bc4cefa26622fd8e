"""Measuring what tricks buy, by real runs of a project."""

import json
import re
import shlex
import sys

import pytest
from commands import commit, custom, edit, files, git, run
from torch_tricks.errors import Refusal
from torch_tricks.measuring import variants
from versions import Hub

FLAGS = (
    *("--", "--epochs", 2, "--max-steps", 4, "--batch-size", 256),
    *("--image-size", 8, "--num-workers", 0, "--device", "cpu", "--eval-every", 2),
)


def slow(tree):
    """A version whose prefetcher takes half a second more in each step."""
    sleep = '{% if "prefetcher" in chosen %}\n    time.sleep(0.5)\n{% endif %}\n'
    step = "    progress.step += 1\n"
    edit(tree / "template" / "train.py.jinja", step, sleep + step)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return str(Hub(tmp_path_factory.mktemp("slow"), {"v0.1.0": slow}).work)


@pytest.fixture
def here(project, template, monkeypatch):
    """A project of that template, whose Python is this one."""
    monkeypatch.setattr(
        "torch_tricks.measuring.measure.find_python", lambda project: sys.executable
    )
    return project(source=template, **custom("seeding"))


TRAINING = """
import json, sys
from pathlib import Path

script, _, run = sys.argv[1:4]
variant = Path(script).parent.name
records = [
    {"epoch": 1, "step": 10, "val_loss": 0.5, "val_accuracy": 0.8},
    {"epoch": 2, "step": 20, "val_loss": 0.9, "val_accuracy": 0.9},
]
memory = {"with-l1": 1009, "with-prefetcher": 1011}.get(variant, 1000)
for record in records:
    record |= {"seconds": 1.0, "peak_memory_bytes": memory * 2**20}
Path(run).mkdir(parents=True)
lines = [json.dumps(record) for record in records]
Path(run, "metrics.jsonl").write_text("\\n".join(lines))
print("validation loss 0.9 (run/model.pt), best loss 0.5 in epoch 1 (run/best.pt)")
"""


@pytest.fixture
def simulated(here, tmp_path):
    """Flags of a measurement whose runs write what a simulation of training has found."""
    (tmp_path / "simulate.py").write_text(TRAINING)
    command = shlex.join([sys.executable, str(tmp_path / "simulate.py")])
    return "--repeats", 2, "--launch", command


@pytest.mark.proof
def test_less_than_a_hundredth_does_not_matter(simulated):
    told = run("measure", "l1,prefetcher", *simulated)
    shared = "all are compared with the same runs of the project as it is: if those are"
    assert told.count(shared) == 1
    first, second = re.findall("peak_memory_mib: .*: (.*)", told)[:2]
    assert (first, second) == ("higher, by too little to matter", "worse")
    told = run("measure", "l1,prefetcher", "--resume", "--json", *simulated)
    printed = json.loads(told)
    shape = {"commit", "tricks", "launch", "flags", "repeats", "differences"}
    assert printed.keys() == shape  # As in docs/command-line.md and --help.
    found = printed["differences"]
    memory = [each["peak_memory_bytes"]["verdict"] for each in found.values()]
    assert memory[:2] == [first, second]
    assert shared not in run("measure", "l1", *simulated)


@pytest.mark.proof
def test_all_have_their_best_epoch_where_one_stops_early(simulated):
    found = {}
    for trick in ("early_stopping", "ema"):
        told = json.loads(run("measure", trick, "--json", *simulated))
        found[trick] = told["differences"][f"with {trick}"]["val_accuracy"]
    stopping, other = found["early_stopping"], found["ema"]
    assert (stopping["before"], stopping["after"]) == (0.8, 0.8)
    assert (other["before"], other["after"]) == (0.9, 0.9)


def test_what_a_stop_leaves_of_the_copies_is_in_nobodys_way(here, monkeypatch):
    calls = []

    def stop(base, names):
        calls.append(names)
        if len(calls) == 2:
            raise KeyboardInterrupt
        if len(calls) == 3:
            raise Refusal("begun again")
        return change(base, names)

    change = variants.changed_answers
    monkeypatch.setattr(variants, "changed_answers", stop)
    run("measure", "l1,ema", code=130)
    assert list((here / "runs/measure-l1-ema/copies").iterdir())
    assert "begun again" in run("measure", "l1,ema", code=2)


@pytest.mark.proof
def test_what_is_known_of_tricks_is_told(here, monkeypatch):
    before = files(here), git(here, "status", "--porcelain")
    wanted = "prefetcher,l1"
    told = run("measure", wanted, "--repeats", 2, "--json", *FLAGS, "--l1", 10)
    found = json.loads(told)["differences"]
    assert list(found) == ["with prefetcher", "with l1", "all together"]
    slow = found["with prefetcher"]
    assert slow["seconds_per_step"]["mean"] > 0.2
    for name in ("val_loss", "val_accuracy"):
        assert slow[name]["mean"] == 0
        assert not slow[name]["significant"]
    assert found["with l1"]["val_loss"]["mean"] > 0
    assert found["all together"]["seconds_per_step"]["mean"] > 0.2
    assert slow["peak_memory_bytes"]["before"] > 1e8
    runs = [path.name for path in (here / "runs").glob("*/runs/*.json")]
    assert len(runs) == 8
    after = {p: c for p, c in files(here).items() if not p.startswith("runs/")}
    assert (after, git(here, "status", "--porcelain")) == before
    # All is there already.
    monkeypatch.setattr("torch_tricks.measuring.training.train", None)
    again = ("measure", wanted, "--repeats", 2, "--resume")
    told = run(*again, "--json", *FLAGS, "--l1", 10)
    assert json.loads(told)["differences"] == found
    said = run(*again, *FLAGS, "--l1", 10)
    assert "with prefetcher, against as it is, 2 pairs of runs:" in said
    assert re.search("val_accuracy: .*: the same in every run", said)


def test_what_cannot_be_measured_is_refused(here, simulated):
    train = here / "train.py"
    assert "is given to each run" in run("measure", "swa", "--", "--seed", 3, code=2)
    assert "no trick is called" in run("measure", "swaa", code=2)
    train.write_text("failing = 1 / 0\n" + train.read_text())
    assert "not committed" in run("measure", "swa", code=2)
    assert not (here / "runs/measure-swaa").exists()
    commit(here)
    failed = run("measure", "swa", code=2)
    assert "train.py fails as it is: " in failed and "ZeroDivisionError" in failed
    edit(train, "failing = 1 / 0\n", "")
    git(here, "commit", "--all", "--message", "Mend")
    # Nothing has been measured, so the directory is free.
    run("measure", "swa", *simulated)
    assert "--resume" in run("measure", "swa", code=2)
    other = run("measure", "swa", "--resume", "--", "--epochs", 9, code=2)
    assert "pass another --results" in other
    assert "is not empty" in run("measure", "swa", "--results", here, code=2)
    assert "with sync_bn: sync_bn needs" in run("measure", "ema", "sync_bn", code=2)
    assert "is not measured" in run("measure", "parallel=dp", code=2)
    edit(train, "model.pt", "weights.pt")
    commit(here)
    for _ in range(2):  # Nothing is left in the way.
        assert "fixed by hand in train.py" in run("measure", "ema", code=2)


@pytest.mark.proof
def test_runs_that_fail_are_named(here):
    failed = run("measure", "swa", "--", "--epochz", 9, code=2)
    assert "as it is: " in failed and "Unrecognized options: --epochz" in failed
    # Only with the trick.
    train = here / "train.py"
    found = "list(Path(__file__).parent.glob('*/optim/l1.py'))"
    fail = f"from pathlib import Path\nif {found}:\n    failing = 1 / 0\n"
    train.write_text(fail + train.read_text())
    git(here, "commit", "--all", "--message", "Fail with l1")
    failed = run("measure", "l1", "--repeats", 2, *FLAGS, code=2)
    assert "train.py fails with l1: ZeroDivisionError" in failed
    kept = here / "runs/measure-l1/runs"
    assert [path.name for path in kept.glob("*.json")] == ["01-as-it-is.json"]
    assert "ZeroDivisionError" in (kept / "01-with-l1.txt").read_text()
