"""Tests of rendered projects that prove the template, and would tell an owner little.

Each file of proofs/ runs in a project, beside its own tests: foreign files, other machines,
messages, and helpers that no owner changes. Those of proofs/everything/ need tricks that
are not in `recommended`.
"""

import shutil
from pathlib import Path

import pytest
from parts import at_once
from rendering import render, render_subset
from subsets import Subset, everything
from test_covering import ENVIRONMENT, OWN_TESTS
from zygote import Zygote

PROOFS = Path(__file__).with_name("proofs")
OF_LOADERS = "loaders"
"""Of loaders without a prefetcher, which no preset but `minimal` has."""
OF_RECOMMENDED = sorted({path.stem for path in PROOFS.glob("*.py")} - {OF_LOADERS})
ALL = OF_RECOMMENDED + sorted(
    f"everything/{path.stem}" for path in PROOFS.glob("everything/*.py")
)
PROJECTS = {
    "minimal": (
        {},
        ["data", OF_LOADERS, "log", "settings_file", "train"],
    ),
    "recommended": ({}, OF_RECOMMENDED),
    "everything": ({}, ALL),
    "custom": ({"parallel": "none", "tricks": ["folders", "video"]}, ["data"]),
}
"""By preset: the other answers, and the proofs that the project has the code for."""


UNFIT = {
    "ddp": "test_short_epochs_warm_up_together",
    "fsdp": "test_short_epochs_warm_up_together or test_a_checkpoint_is_a_file_of_weights",
}
"""Tests of one process: its trace, and checkpoints of one file."""


def add_proofs(project: Path, names: list[str]) -> list[str]:
    """Copies proofs to the tests of a project, and returns their paths in it.

    Each lies beside the own tests of its name, from which it imports helpers.
    """
    paths = []
    for name in names:
        stem = Path(name).name
        own = next((project / "tests").rglob(f"test_{stem}.py"), None)
        room = own.parent if own else project / "tests"
        path = room / f"test_proof_of_{stem}.py"
        shutil.copy(PROOFS / f"{name}.py", path)
        paths.append(str(path.relative_to(project)))
    return paths


@pytest.mark.parametrize("preset", at_once(PROJECTS, "minimal"))
def test_projects_hold_what_their_own_tests_leave_out(preset, tmp_path, zygote):
    answers, names = PROJECTS[preset]
    project = render(tmp_path / "project", {"preset": preset, **answers})
    check_proofs(project, names, zygote)


@pytest.mark.proof
@pytest.mark.parametrize("task", ["multilabel", "segmentation"])
def test_other_tasks_are_calibrated(task, tmp_path, zygote):
    project = render_subset(tmp_path / "project", Subset.of("calibration", task=task))
    check_proofs(project, ["everything/calibrate"], zygote)


@pytest.mark.proof
@pytest.mark.share
@pytest.mark.parametrize("form", UNFIT)
def test_projects_of_ranks_hold_it_too(form, tmp_path, zygote):
    project = render_subset(tmp_path / "project", everything(parallel=form))
    check_proofs(project, ALL, zygote, "-k", f"not ({UNFIT[form]})")


def check_proofs(
    project: Path, names: list[str], zygote: Zygote, *options: str
) -> None:
    """Runs proofs in a project: all must pass."""
    paths = add_proofs(project, names)
    result = zygote.pytest(
        *(project, *OWN_TESTS, *paths, *options), timeout=900, environment=ENVIRONMENT
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "skipped" not in result.stdout.splitlines()[-1]
