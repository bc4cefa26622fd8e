"""The places that a trick touches agree, and the worked example in CONTRIBUTING.md works."""

import json
import math
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

import copier
import pytest
import training
from footprint import MODULES, footprint
from inspection import ANSWERS, PACKAGE, WORDS, module_of
from packaging.requirements import Requirement
from packaging.version import Version
from parts import at_once
from processes import call
from rendering import render_files
from subsets import ROOT, TASKS, TRICKS, Subset, everything, forms_of, task_of
from torch_tricks.catalogue import Trick
from updating import read_files


def section(trick: Trick, files: dict[str, str]) -> str:
    """Returns what a project's README says of a trick."""
    pattern = rf"^### {re.escape(trick.title)}\n(.*?)(?=^##)"
    return re.search(pattern, files["README.md"], re.MULTILINE | re.DOTALL)[1]


def test_each_page_of_the_handbook_is_of_a_trick():
    pages = {path.stem for path in (ROOT / "docs" / "tricks").iterdir()}
    assert pages == {trick.name for trick in TRICKS}


def test_words_belong_to_tricks_of_the_catalogue():
    assert WORDS.keys() <= {trick.name for trick in TRICKS}
    for trick in TRICKS:
        if trick.choices:
            assert WORDS[trick.name].keys() == {*trick.choices}


@pytest.mark.parametrize("trick", TRICKS, ids=lambda trick: trick.name)
class TestRowOfTheCatalogue:
    def test_module_and_its_tests(self, trick):
        files = project(trick.name).keys() - project(None).keys()
        tests = [name for name in files if name.startswith("tests/")]
        assert tests, "nothing tests it"
        if modules := MODULES.get(trick.name):
            names = {f"test_{Path(module).name}.py" for module in modules}
            assert names & {Path(test).name for test in tests}

    def test_section_in_the_project(self, trick):
        text = section(trick, project(trick.name))
        assert footprint(trick.name).lines in text
        assert f"<{trick.source}>" in text

    def test_a_module_names_its_source(self, trick):
        source = trick.source.replace("https://arxiv.org/abs/", "arXiv:")
        modules, files = MODULES.get(trick.name, []), project(trick.name)
        codes = [files[f"{PACKAGE}/{module}.py"] for module in modules]
        assert not codes or any(source in code for code in codes)

    def test_depends(self, trick):
        """Each place has the dependencies of the row. The message lists all that are missing."""
        form = forms_of(trick)[0] if forms_of(trick) else "none"
        with_it, without = project(trick.name), project(None, form)
        assert "\n".join(missing_dependencies(trick, with_it, without)) == ""


@pytest.mark.parametrize(
    ("trick", "choice"),
    [(trick, choice) for trick in TRICKS for choice in trick.choices],
    ids=lambda value: getattr(value, "name", value),
)
def test_section_of_a_choice(trick, choice):
    assert footprint(trick.name, choice).lines in section(trick, project(None, choice))


def missing_dependencies(trick, with_it, without) -> Iterator[str]:
    """Yields where a dependency of a trick is missing, and what the row lacks."""
    manifest = tomllib.loads(with_it["pyproject.toml"])
    before = tomllib.loads(without["pyproject.toml"])["project"]["dependencies"]
    declared = {*manifest["project"]["dependencies"]} - {*before}
    own = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    dev = own["project"]["optional-dependencies"]["dev"]
    floors = (ROOT / "tests" / "floor.txt").read_text(encoding="utf-8").splitlines()
    floors = [Requirement(line) for line in floors if not line.startswith("#")]
    overridden = str(manifest["tool"]["mypy"].get("overrides", []))
    for line in sorted(declared - {*trick.depends}):
        yield f"copier.yml: {line!r} belongs to `depends` of {trick.name}"
    for line in trick.depends:
        if line not in declared:
            yield f"template/pyproject.toml.jinja: {trick.name} depends on {line!r}"
        if line not in dev:
            yield f"pyproject.toml: dev needs {line!r}, for {trick.name}"
        wanted = Requirement(line)
        lowest = Version(next(iter(wanted.specifier)).version)
        if not any(
            floor.name == wanted.name
            and Version(next(iter(floor.specifier)).version) == lowest
            for floor in floors
        ):
            yield f"tests/floor.txt: {wanted.name}=={lowest}, for {trick.name}"
        module = module_of(line)
        found = find_spec(module)
        if found is None:
            yield f"{module} is not installed: remove .venv/installed, and make test"
        elif f"'{module}.*'" not in overridden and not has_types(found):
            yield (
                f"template/pyproject.toml.jinja: {module} has no types, so that mypy "
                f"needs an override for '{module}.*', for {trick.name}"
            )


def has_types(module: ModuleSpec) -> bool:
    return any(
        (Path(d) / "py.typed").exists() for d in module.submodule_search_locations or []
    )


def test_a_dependency_that_is_nowhere_is_named_with_every_place():
    trick = replace(TRICKS[0], depends=("yaml>=6",))
    files = project(None)
    found = list(missing_dependencies(trick, files, files))
    places = ("template/pyproject.toml.jinja", "pyproject.toml", "tests/floor.txt")
    assert [line.partition(": ")[0] for line in found] == [*places, places[0]]


@cache
def project(trick: str | None, form: str = "none") -> dict[str, str]:
    """Returns the files of the project with one trick, or with none."""
    if trick == "parallel":
        form = "dp"
    row = next((row for row in TRICKS if row.name == trick), None)
    if row and forms_of(row):
        form = forms_of(row)[0]
    listed = [trick] if row and not row.choices else []
    task = task_of(row) if row else TASKS[0]
    return render_files(Subset.of(*listed, parallel=form, task=task).answers)


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """Returns a copy of this repository with the worked example applied."""
    copy = tmp_path_factory.mktemp("example")
    for name in ("template", "generator", "docs", "tests", "tools"):
        shutil.copytree(ROOT / name, copy / name)
    for name in ("copier.yml", "pyproject.toml", "CITATION.cff", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    for path in ROOT.glob("*.md"):
        shutil.copy(path, copy)
    # Else git would take the paths for those of a repository around the copy.
    alone = {"GIT_CEILING_DIRECTORIES": str(copy.parent)}
    call("git", "apply", "docs/example.patch", cwd=copy, **alone)
    return copy


def render_example(example: Path, destination: Path, **answers: object) -> Path:
    # From a directory outside of git, Copier takes the files as they are.
    answers = {"project_name": "Leaf Diseases"} | answers
    copier.run_copy(str(example), destination, answers, defaults=True, quiet=True)
    return destination


@pytest.mark.parametrize("preset", at_once(["minimal", "recommended"], "minimal"))
def test_example_leaves_other_projects_alone(example, tmp_path, preset):
    before = render_files({"preset": preset})
    after = read_files(render_example(example, tmp_path / "after", preset=preset))
    # Which says where it came from.
    del before[ANSWERS], after[ANSWERS]
    assert {name: text.encode() for name, text in before.items()} == after


@pytest.mark.proof
@pytest.mark.parametrize(
    "subset",
    [Subset.of(), everything(), everything(parallel="fsdp")],
    ids=["alone", "everything", "everything with fsdp"],
)
def test_example_makes_a_clean_project_that_trains(example, tmp_path, subset, zygote):
    answers = subset.answers
    answers["tricks"].append("sign_gradients")
    project = render_example(example, tmp_path / "project", **answers)
    for command in (("check",), ("format", "--check")):
        call(sys.executable, "-m", "ruff", *command, "--isolated", cwd=project)
    result = zygote.pytest(project, "-q", "tests/optim/test_sign_gradients.py")
    assert result.returncode == 0, result.stdout
    training.make_shapes_few(project)
    short = ("--image-size", 8, "--batch-size", 6, "--max-steps", 3)
    short += ("--num-workers", 0, "--device", "cpu", "--run-dir", "run")
    zygote.output(project, "train.py", *short)
    [line] = (project / "run" / "metrics.jsonl").read_text().splitlines()
    assert json.loads(line)["step"] == 3
    assert math.isfinite(json.loads(line)["val_loss"])


@pytest.mark.proof
def test_example_touches_every_place(example):
    path = (example / "generator", example / "tests" / "support")
    here = {"PYTHONPATH": os.pathsep.join(map(str, path)), "OMP_NUM_THREADS": "1"}
    call(sys.executable, "tools/write_docs.py", cwd=example, **here)
    files = ("repo/test_docs", "repo/test_contributing", "template/test_template")
    tests = [f"tests/{file}.py" for file in files]
    # Those of the trick, and of all that lists tricks. The example is in the copy already.
    chosen = (
        "sign_gradients or each_page or words_belong or shown_code or preset_decides"
    )
    command = (
        sys.executable,
        "-m",
        "pytest",
        "-q",
        *tests,
        "-k",
        f"({chosen}) and not example",
    )
    call(*command, cwd=example, **here)
