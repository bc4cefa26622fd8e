"""The template's face: questions, presets, messages, refusals, and the real command."""

import ast
import json
import re
import sys
from functools import cache
from pathlib import Path

import copier
import jinja2
import pytest
import yaml
from commands import git
from footprint import modules
from processes import call_any
from rendering import (
    DESCRIPTIONS,
    quick_copier,
    render_files,
    template_copy,
)
from subsets import ROOT, TASKS, TRICKS
from torch_tricks.catalogue import own_questions
from torch_tricks.errors import Refusal
from torch_tricks.template import read_answers

COPIER = Path(sys.executable).with_name("copier")
QUESTIONS = own_questions()
PRESETS = ("minimal", "recommended", "everything")


def tricks_of(preset: str, task: str = "classification") -> list[str]:
    """The tricks of a preset for a task."""
    wanted = {
        "minimal": lambda _: False,
        "recommended": lambda trick: trick.recommended,
        "everything": lambda trick: (
            not trick.excludes and trick.works("parallel", "dp")
        ),
    }[preset]
    return [t.name for t in TRICKS if t.works("task", task) and wanted(t)]


@pytest.fixture
def copied(tmp_path, capsys):
    """Returns a function that makes a project with Copier.

    It returns the directory, the recorded answers, and what was printed on one line.
    """

    def copied(answers, folder="leaf-diseases"):
        project = tmp_path / folder
        with quick_copier():
            copier.run_copy(str(template_copy()), project, answers, defaults=True)
        answers = (project / ".copier-answers.yml").read_text("utf-8")
        recorded = yaml.safe_load(answers)
        del recorded["_src_path"]
        return project, recorded, " ".join(capsys.readouterr().err.split())

    return copied


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("preset", [*PRESETS, "custom"])
def test_a_preset_decides_on_the_tricks(copied, preset, task):
    tricks = tricks_of("recommended" if preset == "custom" else preset, task)
    project, recorded, printed = copied({"preset": preset, "task": task})
    # Only a preset is recorded, so that an update brings what it has gained.
    listed = {"parallel": "none", "tricks": tricks} if preset == "custom" else {}
    assert recorded == listed | {
        "project_name": "Leaf Diseases",
        "package_name": "leaf_diseases",
        "description": DESCRIPTIONS[task],
        "author": "",
        "task": task,
        "preset": preset,
    }
    for trick, names in modules(task).items():
        for name in names:
            exists = (project / "leaf_diseases" / f"{name}.py").exists()
            assert exists == (trick in tricks), name
    files = project.glob("leaf_diseases/**/*.py")
    # Masks may lie beside images.
    code = (path.read_text("utf-8") for path in files if path.name != "folders.py")
    assert bool(re.search(r"\bmasks?\b", "".join(code))) == (task == "segmentation")
    assert f"Leaf Diseases is ready with {', '.join(tricks) or 'no tricks'}." in printed
    assert 'pip install -e ".[dev]" python train.py' in printed


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("tricks", [None, ["smp", "pretrained"]])
def test_a_module_that_is_imported_late_is_looked_for_at_the_start(task, tricks):
    if tricks and task != "segmentation":
        tricks = ["timm"]
    preset = (
        {"preset": "custom", "tricks": tricks} if tricks else {"preset": "everything"}
    )
    files = render_files({"task": task} | preset)
    late = {
        node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
        for path, text in files.items()
        if path.endswith(".py") and not path.startswith("tests")
        for function in ast.walk(ast.parse(text))
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    late = {name.partition(".")[0] for name in late} - sys.stdlib_module_names
    listed = re.findall(
        '^    "(.+)",$', files["leaf_diseases/environment.py"], re.MULTILINE
    )
    assert late and sorted(late) == listed


def test_the_defaults_make_the_recommended_project(copie):
    result = copie.copy({"project_name": "Leaf Diseases"})
    assert result.exception is None
    assert result.answers["preset"] == "recommended"
    assert (result.project_dir / "train.py").exists()


def test_a_task_is_asked_for_after_the_name():
    asked = [n for n, q in QUESTIONS.items() if isinstance(q, dict) and "help" in q]
    assert asked[:3] == ["project_name", "task", "preset"]
    assert QUESTIONS["task"]["default"] == TASKS[0] == "classification"


def test_recommended_is_the_default_and_marked_as_such():
    preset = QUESTIONS["preset"]
    assert preset["default"] == "recommended"
    labels = {value: label for label, value in preset["choices"].items()}
    assert list(labels) == ["recommended", "minimal", "everything", "custom"]
    assert [v for v, label in labels.items() if "(recommended)" in label] == [
        "recommended"
    ]


WANTED = [(trick, other) for trick in TRICKS for other in trick.goes_with]


def test_copier_says_what_a_trick_is_of_little_use_without(copied):
    alone = {trick.name for trick, _ in WANTED}
    others = {other for _, other in WANTED}
    for tricks in (alone, alone | others):
        answers = {"preset": "custom", "tricks": sorted(tricks)}
        _, _, printed = copied(answers, folder=str(len(tricks)))
        for trick, other in WANTED:
            note = f"Note: {trick.name} needs {trick.wants}: choose {other}, too."
            assert (note in printed) == (other not in tricks)


def test_the_list_to_tick_says_what_a_trick_is_of_little_use_without():
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["to_json"] = json.dumps
    choices = environment.from_string(QUESTIONS["tricks"]["choices"]).render(
        catalogue=QUESTIONS["catalogue"]["default"], preset="custom", refusals={}
    )
    labels = {row["value"]: label for label, row in yaml.safe_load(choices).items()}
    for trick, other in WANTED:
        assert labels[trick.name].endswith(f" (needs {trick.wants}: {other})")
    said = {name for name, label in labels.items() if "(needs" in label}
    assert said == {trick.name for trick, _ in WANTED} >= {"freeze", "distillation"}


@pytest.mark.parametrize(
    ("folder", "name", "package"),
    [("MNISTnet", "MNISTnet", "mnistnet"), ("--_", "Project", "project")],
)
def test_the_project_is_called_after_its_folder(copied, folder, name, package):
    project, recorded, _ = copied({"preset": "minimal"}, folder=folder)
    assert recorded["project_name"] == name
    assert (project / package).is_dir()


@cache
def template_files() -> dict[str, str]:
    """Returns the texts of the template by path."""
    root = ROOT / "template"
    return {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for path in root.rglob("*")
        if path.is_file()
    }


def test_only_what_holds_jinja_is_rendered():
    for path, text in template_files().items():
        if path.endswith("/readme_section.md.jinja"):  # Included, and not rendered.
            continue
        rendered = path.endswith(".jinja")
        assert rendered == bool(re.search(r"\{\{ |\{% ", text)), path


def test_all_paths_exist_on_windows():
    """Also below a folder of the user, with the 260 characters that Windows allows."""
    for path in git(ROOT, "ls-files", "-z").split("\0"):
        assert not re.search(r'[<>:"\\|?*\x00-\x1f]|[. ](/|$)', path), path
        assert len(path) <= 150, path
        stems = {part.partition(".")[0].lower() for part in path.split("/")}
        assert not stems & {"con", "prn", "aux", "nul", "com1", "lpt1"}, path


def test_folders_have_the_conditions():
    for path in template_files():
        assert "{%" not in path, path


def test_templates_ask_what_is_chosen():
    """Where a preset decides, the list that the owner ticks is empty."""
    for path, text in template_files().items():
        for tag in re.findall(r"\{[{%].*?[%}]\}", f"{path}\n{text}"):
            assert not re.search(r"\btricks\b", tag), f"{path}: {tag}"


def test_conditions_are_nested_at_most_two_deep():
    for path, text in template_files().items():
        depth = 0
        for tag in re.findall(r"\{% (if|endif)\b", text):
            depth += 1 if tag == "if" else -1
            assert depth <= 2, path


def test_nobody_needs_to_trust_the_template():
    settings = {name for name in QUESTIONS if name.startswith("_")}
    assert not settings & {"_tasks", "_migrations", "_jinja_extensions"}


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        ({"project_name": ""}, "Give the project a name"),
        ({"project_name": " Leaves"}, "with no space at either end"),
        ({"project_name": "Leaves\nand trees"}, "without control characters"),
        ({"project_name": "a" * 81}, "at most 80 characters"),
        ({"package_name": "../outside"}, "lower-case letters, digits and underscores"),
        ({"package_name": ""}, "lower-case letters"),
        ({"package_name": "Leaves"}, "lower-case letters"),
        ({"package_name": "leaves\n"}, "lower-case letters"),
        ({"package_name": "leaves_"}, "lower-case letters"),
        ({"package_name": "été"}, "lower-case letters"),
        ({"package_name": "a" * 31}, "at most 30 characters"),
        ({"package_name": "class"}, "class is taken"),
        ({"package_name": "train"}, "try my_train"),
        ({"package_name": "test_leaves"}, "test_leaves is taken"),
        ({"description": ""}, "1 to 200 characters"),
        ({"description": "a\tb"}, "without control characters"),
        ({"description": "a" * 201}, "1 to 200 characters"),
        ({"author": "Ada\x07"}, "without control characters"),
        ({"author": "Ada "}, "with no space at either end"),
        ({"preset": "best"}, "Invalid choice"),
        ({"tricks": "[swa]"}, "add -d preset=custom"),
        ({"chosen": "[swa]"}, "It is not asked for"),
        ({"preset": "custom", "tricks": "[amp, best]"}, "Invalid choice"),
        ({"preset": "custom", "tricks": "[amp, video]"}, "video needs folders: choose"),
        (
            {"preset": "custom", "tricks": "[folders, video, hdf5]"},
            "video excludes hdf5: choose",
        ),
        (
            {"preset": "custom", "tricks": "[sync_bn]"},
            "sync_bn is not for parallel=none: leave it out, or choose parallel=ddp or",
        ),
        ({"preset": "minimal", "parallel": "dp"}, "add -d preset=custom"),
    ],
    ids=repr,
)
def test_a_refused_answer_leaves_nothing_behind(copied, tmp_path, answers, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        copied({"project_name": "Leaves"} | answers)
    assert list(tmp_path.iterdir()) == []


def test_the_real_command_refuses_an_answer(tmp_path):
    options = ("--defaults", "--data=project_name=   ")
    result = call_any(COPIER, "copy", *options, template_copy(), tmp_path / "project")
    assert result.returncode != 0
    assert "Give the project a name" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_every_module_that_python_has_is_refused_as_a_package_name():
    reserved = QUESTIONS["reserved_names"]["default"].split()
    modules = {name for name in sys.stdlib_module_names if name == name.lower()}
    assert not {name for name in modules if not name.startswith("_")} - set(reserved)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 3000,
        "author: [[a]]",
        "author: {a: b}",
        "author: !!pairs [a: b]",
        "5: a",
        "_src_path: [a]",
        '_src_path: "a\\0"',
        '_commit: "\\ud800"',
    ],
)
def test_answers_that_nobody_gave_are_refused(text):
    with pytest.raises(Refusal, match="answers"):
        read_answers(text.encode())
