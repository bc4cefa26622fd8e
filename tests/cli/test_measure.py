"""Measuring what tricks buy, by real runs of a project."""

import json
import re
import sys

import pytest
from commands import SOURCE, begin, commit, custom, edit, files, git, run

FLAGS = (
    *("--", "--epochs", 2, "--max-steps", 4, "--batch-size", 256),
    *("--image-size", 8, "--num-workers", 0, "--device", "cpu", "--eval-every", 2),
)


@pytest.fixture(scope="module")
def slow(hub, tmp_path_factory):
    """A template whose prefetcher takes half a second more in each step."""
    work = tmp_path_factory.mktemp("slow")
    begin(work)
    sleep = '{% if "prefetcher" in chosen %}\n    time.sleep(0.5)\n{% endif %}\n'
    step = "    run.scheduler.step()\n"
    edit(work / "template" / "train.py.jinja", step, sleep + step)
    commit(work)
    git(work, "tag", "--force", "v0.1.0")
    name = "slow-tricks"
    git(hub, "clone", "--quiet", "--bare", str(work), f"{hub}/org/{name}.git")
    return SOURCE.replace("torch-tricks", name)


@pytest.fixture
def here(project, slow, monkeypatch):
    """A project of that template, whose Python is this one."""
    monkeypatch.setattr(
        "torch_tricks.measuring.find_python", lambda project: sys.executable
    )
    return project(source=slow, **custom("seeding"))


@pytest.mark.proof
def test_what_is_known_of_tricks_is_told(here, monkeypatch):
    before = files(here), git(here, "status", "--porcelain")
    wanted = "prefetcher,predict,l1"
    told = run("measure", wanted, "--repeats", 2, "--json", *FLAGS, "--l1", 10)
    found = json.loads(told)["differences"]
    assert list(found) == ["with prefetcher", "with predict", "with l1", "all together"]
    slow, useless = found["with prefetcher"], found["with predict"]
    assert slow["seconds_per_step"]["mean"] > 0.2
    for name in ("val_loss", "val_accuracy"):
        assert slow[name]["mean"] == useless[name]["mean"] == 0
        assert not useless[name]["told"]
    assert found["with l1"]["val_loss"]["mean"] > 0
    assert found["all together"]["seconds_per_step"]["mean"] > 0.2
    assert useless["peak_memory_bytes"]["before"] > 1e8
    runs = [path.name for path in (here / "runs").glob("*/runs/*.json")]
    assert len(runs) == 10
    after = {p: c for p, c in files(here).items() if not p.startswith("runs/")}
    assert (after, git(here, "status", "--porcelain")) == before
    # All is there already.
    monkeypatch.setattr("torch_tricks.measuring.train", None)
    again = ("measure", wanted, "--repeats", 2, "--resume")
    told = run(*again, "--json", *FLAGS, "--l1", 10)
    assert json.loads(told)["differences"] == found
    said = run(*again, *FLAGS, "--l1", 10)
    assert "with predict, against as it is, 2 pairs of runs:" in said
    assert re.search("val_accuracy: .*: the same in every run", said)


def test_what_cannot_be_measured_is_refused(here):
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
    failed = run("measure", "swa", "--", "--epochz", 9, code=2)
    assert "as it is: Unrecognized options: --epochz" in failed
    # Only with the trick.
    fail = (
        "if list(Path(__file__).parent.glob('*/optim/l1.py')):\n    failing = 1 / 0\n"
    )
    plain = train.read_text()
    train.write_text(f"from pathlib import Path\n{fail}{plain}")
    git(here, "commit", "--all", "--message", "Fail with l1")
    failed = run("measure", "l1", "--repeats", 2, *FLAGS, code=2)
    assert "train.py fails with l1: ZeroDivisionError" in failed
    train.write_text(plain)
    git(here, "commit", "--all", "--message", "Mend again")
    run("measure", "swa", "--repeats", 2, *FLAGS)
    assert "--resume" in run("measure", "swa", code=2)
    other = run("measure", "swa", "--resume", "--", "--epochs", 9, code=2)
    assert "pass another --results" in other
    assert "is not empty" in run("measure", "swa", "--results", here, code=2)
    assert "with sync_bn: sync_bn needs" in run("measure", "ema", "sync_bn", code=2)
    assert "is not measured" in run("measure", "parallel=dp", code=2)
    edit(train, "model.pt", "weights.pt")
    commit(here)
    for _ in range(2):  # Nothing is left in the way.
        assert "mended by hand in train.py" in run("measure", "ema", code=2)
