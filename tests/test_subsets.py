"""Every subset of the tricks: rendered, read, trained, and resumed."""

import re
import shutil
import subprocess
import sys
from itertools import combinations, product
from pathlib import Path

import inspection
import pytest
import training
from inspection import PACKAGE
from rendering import render, render_subset
from subsets import (
    ROOT,
    Subset,
    all_subsets,
    covering_array,
    everything,
    questions,
)

RUFF = Path(sys.executable).with_name("ruff")


@pytest.mark.parametrize("subset", all_subsets(), ids=str)
def test_subset(subset, tmp_path, zygote, folder, hdf5, phase):
    project = tmp_path / "project"
    with phase("render"):
        render_subset(project, subset)
    with phase("parse"):
        assert list(inspection.unparsable_files(project)) == []
        assert list(inspection.untidy_files(project)) == []
    with phase("ruff"):
        ruff(project, "check")
        ruff(project, "format", "--check")
    with phase("traces"):
        assert list(inspection.foreign_traces(project, subset)) == []
        assert list(inspection.missing_modules(project, subset)) == []
        assert list(inspection.dead_code(project)) == []
    flags = training.flags(subset, folder, hdf5)
    run = tmp_path / "run"
    training.train_and_resume(zygote.run, phase, subset, project, run, flags)
    shutil.rmtree(tmp_path)


def ruff(project: Path, *command: str) -> None:
    """Runs ruff at its defaults: the project configures nothing, nor does what is above."""
    result = subprocess.run(
        [RUFF, *command, "--no-cache", "--quiet"],
        capture_output=True,
        check=False,
        cwd=project,
        encoding="utf-8",
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_no_subset_is_left_out():
    assert len(all_subsets()) == len({str(subset) for subset in all_subsets()})
    assert len(all_subsets()) == 1024
    assert str(all_subsets()[0]) == "none"
    assert everything() in all_subsets()
    assert everything().tricks == list(questions())
    assert set(inspection.MODULES) == set(questions())


def test_the_covering_array_covers():
    rows = covering_array()
    assert all_subsets()[0] in rows
    assert everything() in rows
    levels = list(questions().values())
    for places in combinations(range(len(levels)), 3):
        seen = {tuple(row.levels[place] for place in places) for row in rows}
        assert seen == set(product(*(levels[place] for place in places)))


@pytest.mark.parametrize(
    "answers",
    [{"preset": "minimal"}, {"preset": "everything"}, covering_array()[2].answers],
    ids=["minimal", "everything", str(covering_array()[2])],
)
def test_the_fast_render_is_the_plain_one(answers, tmp_path):
    plain, fast = tmp_path / "plain", tmp_path / "fast"
    data = {"project_name": "Leaf Diseases"} | answers
    # Outside of git, as the fast one is: else the answers would name a version.
    template = tmp_path / "template"
    shutil.copytree(ROOT / "template", template / "template")
    shutil.copy(ROOT / "copier.yml", template)
    subprocess.run(
        [
            *(RUFF.with_name("copier"), "copy", "--defaults", "--quiet"),
            *(f"--data={name}={value}" for name, value in data.items()),
            *(template, plain),
        ],
        check=True,
    )
    for _ in range(2):  # The second one finds the templates compiled.
        shutil.rmtree(fast, ignore_errors=True)
        render(fast, answers)
        assert contents(fast) == contents(plain)


def contents(project: Path) -> dict[str, tuple[int, bytes]]:
    """Modes and bytes of all files, where the answers do not say where they came from."""
    return {
        str(path.relative_to(project)): (
            path.stat().st_mode,
            re.sub(rb"_src_path: .*", b"", path.read_bytes()),
        )
        for path in project.rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="session")
def full_projects(tmp_path_factory):
    """The projects with all tricks, by the choice among the forms of one of them."""
    return {
        choice: render_subset(
            tmp_path_factory.mktemp(choice) / "x", everything(parallel=choice)
        )
        for choice in questions()["parallel"][1:]
    }


def test_every_trace_is_in_the_full_projects_that_may_have_it(full_projects):
    texts = {
        choice: "".join(
            f"{name}\n{text}\n" for name, text in inspection.text_files(project).items()
        )
        for choice, project in full_projects.items()
    }
    for owners, patterns in inspection.TRACES.items():
        # What goes with several tricks need not go with each of their forms.
        choices = set(owners) if set(owners) <= set(texts) else {"any of them"}
        whole = texts | {"any of them": "".join(texts.values())}
        for choice, pattern in product(choices, patterns):
            found = re.search(pattern, whole[choice], re.IGNORECASE)
            assert found, (choice, pattern)
    for name, exceptions in inspection.EXCEPTIONS.items():
        text = (full_projects["dp"] / name).read_text(encoding="utf-8")
        assert all(re.search(exception, text) for exception in exceptions), name


LOOP, MODULE, MANIFEST = "train.py", f"{PACKAGE}/files.py", "pyproject.toml"


@pytest.mark.parametrize(
    ("check", "name", "old", "new", "finding"),
    [
        ("foreign_traces", LOOP, "import time", "import time  # no AMP", "'AMP' is a"),
        ("foreign_traces", MANIFEST, '"numpy', '"h5py",\n    "numpy', "'h5py' is a"),
        ("unparsable_files", LOOP, "def main(", "def main)", "unmatched ')'"),
        ("unparsable_files", MANIFEST, "[project]", "[project", "pyproject.toml: "),
        ("unparsable_files", ".github/workflows/ci.yml", "on:", "on: [", "ci.yml: "),
        ("untidy_files", LOOP, "import time", "import time ", "trailing space"),
        ("untidy_files", LOOP, "\n\n\ndef", "\n\n\n\ndef", "too many blank lines"),
        ("untidy_files", MANIFEST, "\n\n[", "\n\n\n[", "too many blank lines"),
        ("untidy_files", LOOP, '"""Trains', '\n"""Trains', "begins with a blank line"),
        ("untidy_files", LOOP, "import time", "{{ amp }}", "a tag of the template"),
        ("dead_code", MODULE, "def", "def spare(): ...\n\n\ndef", "uses spare"),
        ("dead_code", MODULE, "def", "SPARE = 1\n\n\ndef", "uses SPARE"),
        (
            "dead_code",
            MODULE,
            "def",
            "def spare(x):\n    return 1\n\n\ndef",
            "not use x",
        ),
    ],
)
def test_each_check_can_fail(tmp_path, check, name, old, new, finding):
    nothing = all_subsets()[0]
    project = render_subset(tmp_path / "project", nothing)
    arguments = (project, nothing) if check == "foreign_traces" else (project,)
    assert list(getattr(inspection, check)(*arguments)) == []
    path = project / name
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    findings = list(getattr(inspection, check)(*arguments))
    assert any(finding in found for found in findings), findings


@pytest.mark.parametrize(("chosen", "other"), [("ddp", "fsdp"), ("fsdp", "ddp")])
def test_words_of_another_form_are_found(tmp_path, chosen, other):
    subset = Subset(
        tuple(chosen if "ddp" in levels else False for levels in questions().values())
    )
    project = render_subset(tmp_path / "project", subset)
    assert list(inspection.foreign_traces(project, subset)) == []
    job = project / "slurm.sh"
    job.write_text(f"# as with {other}\nif true\n", encoding="utf-8")
    [finding] = inspection.foreign_traces(project, subset)
    assert f"'{other}' is a trace" in finding
    [finding] = inspection.unparsable_files(project)
    assert finding.startswith("slurm.sh: ")


def test_a_module_that_nothing_imports_is_found(tmp_path):
    subset = Subset((True, *all_subsets()[0].levels[1:]))
    project = render_subset(tmp_path / "project", subset)
    loop = project / "train.py"
    loop.write_text(loop.read_text().replace(f"{PACKAGE}.seeding", "elsewhere"))
    assert list(inspection.missing_modules(project, subset)) == [
        "nothing imports seeding"
    ]
    (project / PACKAGE / "seeding.py").unlink()
    assert len(list(inspection.missing_modules(project, subset))) == 2
