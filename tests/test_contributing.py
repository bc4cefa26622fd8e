"""The places that a trick touches agree, and the worked example in CONTRIBUTING.md works."""

import ast
import json
import math
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import copier
import pytest
import ranks
import training
import yaml
from inspection import PACKAGE, TRACES
from rendering import render
from subsets import Subset, all_subsets, everything, questions
from torch_tricks.catalogue import TRICKS

ROOT = Path(__file__).parents[1]
QUESTIONS = yaml.safe_load((ROOT / "copier.yml").read_text(encoding="utf-8"))
GUARDED = re.compile(r'{% if (\w+)(?: == "\w+")? %}(\w+)\.py{% endif %}(?:\.jinja)?')


def guarded(directory: str) -> set[tuple[str, str]]:
    """Returns the files of a directory that come with a trick: the trick and the name."""
    matches = map(GUARDED.fullmatch, os.listdir(ROOT / "template" / directory))
    files = {match.groups() for match in matches if match}
    # Some depend on more than one trick, by way of a hidden question.
    return {file for file in files if not is_hidden(QUESTIONS.get(file[0]))}


def is_hidden(question: object) -> bool:
    return isinstance(question, dict) and question.get("when") is False


def preset_list(name: str) -> list[str]:
    """Returns the tricks of a preset, as `preset_tricks` in copier.yml lists them."""
    text = QUESTIONS["preset_tricks"]["default"]
    return re.findall(r'"(\w+)"', re.search(rf"set {name} = \[([^]]*)\]", text)[1])


def sections() -> dict[str, tuple[str, str]]:
    """Returns title and text of the section of each trick in the project's README."""
    text = (ROOT / "template" / "README.md.jinja").read_text(encoding="utf-8")
    found = re.findall(
        r"{% if (\w+).*? %}\n### (.+)\n((?s:.*?)^- Source: .*\n)", text, re.MULTILINE
    )
    return {trick: (title, section) for trick, title, section in found}


def links(page: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    computed = re.search(
        r"<!-- the (?:tricks|index) -->(.*?)<!-- end -->", text, re.DOTALL
    )
    return re.findall(r"tricks/(\w+)\.md\)", computed[1])


FORMS = set(questions()["parallel"])
"""The choices of a trick, where it has several."""

PLACES = {
    "preset": preset_list("everything"),
    "tricks": re.findall(r'\("(\w+)", ', QUESTIONS["tricks"]["default"]),
    "modules": {trick for trick, _ in guarded("{{ package_name }}")},
    "project tests": {trick for trick, _ in guarded("tests")},
    "project README": sections(),
    "catalogue": [trick.name for trick in TRICKS],
    "handbook": [path.stem for path in (ROOT / "docs" / "tricks").iterdir()],
    "handbook index": links("docs/README.md"),
    "README": links("README.md"),
    "traces": {trick for tricks in TRACES for trick in tricks} - FORMS,
}
"""Where the tricks are named, other than in their questions."""


@pytest.mark.parametrize("place", PLACES)
def test_every_place_has_the_tricks_that_are_asked_for(place):
    assert sorted(PLACES[place]) == sorted(questions())


@pytest.mark.parametrize(
    "place", ["preset", "tricks", "catalogue", "handbook index", "README"]
)
def test_lists_keep_the_order_of_the_questions(place):
    assert list(PLACES[place]) == list(questions())


def test_recommended_tricks_exist():
    assert set(preset_list("recommended")) < set(questions())


@pytest.mark.parametrize("trick", TRICKS, ids=lambda trick: trick.name)
class TestRowOfTheCatalogue:
    def test_question(self, trick):
        assert QUESTIONS[trick.name]["help"] == f"{trick.title}: {trick.buys}"

    def test_module_and_its_tests(self, trick):
        assert (trick.name, trick.module) in guarded("{{ package_name }}")
        assert (trick.name, f"test_{trick.module}") in guarded("tests")

    def test_section_in_the_project(self, trick):
        title, text = sections()[trick.name]
        assert title == trick.title
        listed = re.search(r"^- Flags: (.*)$", text, re.MULTILINE)[1]
        assert tuple(re.findall(r"`([^`]+)`", listed)) == trick.flags
        assert f"`{{{{ package_name }}}}/{trick.module}.py`" in text
        assert f"<{trick.source}>" in text

    def test_module_names_its_source(self, trick, projects):
        code = projects(trick.name)[f"{PACKAGE}/{trick.module}.py"]
        assert trick.source.replace("https://arxiv.org/abs/", "arXiv:") in code

    def test_flags(self, trick, projects):
        added = flags(projects(trick.name)) - flags(projects(None))
        assert added == set(trick.flags)


@pytest.fixture(scope="module")
def projects(tmp_path_factory):
    """Returns a function that renders the project with one trick, or with none."""

    @cache
    def project(trick):
        levels = [levels[name == trick] for name, levels in questions().items()]
        directory = tmp_path_factory.mktemp("project")
        return text_files(render(directory, Subset(tuple(levels)).answers))

    return project


def text_files(project: Path) -> dict[str, str]:
    """Returns a project's files by path, less the one that says where it came from."""
    return {
        path.relative_to(project).as_posix(): path.read_text(encoding="utf-8")
        for path in project.rglob("*")
        if path.is_file() and path.name != ".copier-answers.yml"
    }


def flags(files: dict[str, str]) -> set[str]:
    """Returns the flags of a project, and `--data` with each of its choices."""
    tree = ast.parse(files[f"{PACKAGE}/settings.py"])
    settings = next(n for n in tree.body if getattr(n, "name", "") == "Settings")
    fields = [n.target.id for n in settings.body if isinstance(n, ast.AnnAssign)]
    data = next(n for n in tree.body if isinstance(n, ast.Assign))
    choices = [n.value for n in ast.walk(data) if isinstance(n, ast.Constant)]
    return {f"--{name.replace('_', '-')}" for name in fields} | {
        f"--data {choice}" for choice in choices
    }


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """Returns a copy of this repository with the worked example applied."""
    copy = tmp_path_factory.mktemp("example")
    for name in ("template", "generator", "docs", "tests"):
        shutil.copytree(ROOT / name, copy / name)
    for path in (ROOT / "copier.yml", ROOT / "pyproject.toml", *ROOT.glob("*.md")):
        shutil.copy(path, copy)
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    [diff] = re.findall(r"^```diff\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    # Else git would take the paths for those of a repository around the copy.
    environment = os.environ | {"GIT_CEILING_DIRECTORIES": str(copy.parent)}
    command = ["git", "apply", "-"]
    subprocess.run(
        command, input=diff, text=True, cwd=copy, env=environment, check=True
    )
    return copy


def render_example(example: Path, destination: Path, **answers: object) -> Path:
    # From a directory outside of git, Copier takes the files as they are.
    answers = {"project_name": "Leaf Diseases"} | answers
    copier.run_copy(str(example), destination, answers, defaults=True, quiet=True)
    return destination


def python(directory: Path, *arguments: object, **variables: str) -> None:
    command = [sys.executable, *map(str, arguments)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | variables
    result = subprocess.run(
        command,
        check=False,
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("preset", ["minimal", "recommended"])
def test_example_leaves_other_projects_alone(example, tmp_path, preset):
    before = render(tmp_path / "before", {"preset": preset})
    after = render_example(example, tmp_path / "after", preset=preset)
    assert text_files(before) == text_files(after)


@pytest.mark.parametrize(
    "subset",
    [all_subsets()[0], everything(), everything(parallel="fsdp")],
    ids=["alone", "everything", "everything with fsdp"],
)
def test_example_makes_a_clean_project_that_trains(example, tmp_path, subset):
    answers = subset.answers | {"grad_clipping": True}
    project = render_example(example, tmp_path / "project", **answers)
    python(project, "-m", "ruff", "check", "--isolated")
    python(project, "-m", "ruff", "format", "--check", "--isolated")
    python(project, "-m", "pytest", "-q", "tests/test_grad_clipping.py")
    short = ("--image-size", 8, "--max-steps", 3, "--num-workers", 0, "--device", "cpu")
    python(project, "train.py", *short, "--clip-norm", 0.5, "--run-dir", "run")
    [line] = (project / "run" / "metrics.jsonl").read_text().splitlines()
    assert json.loads(line)["step"] == 3
    assert math.isfinite(json.loads(line)["val_loss"])


@pytest.mark.parametrize("form", ["ddp", "fsdp"])
def test_example_clips_by_the_norm_over_all_ranks(
    form, example, tmp_path, zygote, folder
):
    answers = {"preset": "custom", "seeding": True, "grad_clipping": True}
    flags = ["--data", "folder", "--data-dir", folder, "--device", "cpu"]
    flags += [*training.COMMON, "--clip-norm", 0.1]
    one, two = tmp_path / "one", tmp_path / "two"
    plain = render_example(example, tmp_path / "none", **answers)
    project = render_example(example, tmp_path / form, **answers, parallel=form)
    alone, shared = (*flags, "--run-dir", one), (*flags, "--run-dir", two)
    results = [
        zygote.run(plain, ranks.SCRIPT, "comparable", *alone),
        training.run_ranks(zygote.run, project, *shared, events="comparable"),
    ]
    for result in results:
        assert (result.returncode, result.stderr) == (0, "")
    training.check_close_runs(one, two)


def test_example_touches_every_place(example):
    here = {"PYTHONPATH": str(example / "generator")}
    python(example, "tests/test_docs.py", "--write", **here)
    tests = [f"tests/test_{name}.py" for name in ("docs", "contributing", "template")]
    # The names of files count too; the example itself is in the copy already.
    chosen = "(docs or contributing or preset_decides) and not example"
    python(example, "-m", "pytest", "-q", *tests, "-k", chosen, **here)
