"""The template's face: questions, presets, messages, refusals, and the real command."""

import json
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import copier
import jinja2
import pytest
from footprint import MODULES
import yaml
from parts import few_of
from subsets import TASKS, TRICKS
from torch_tricks.errors import Refusal
from torch_tricks.template import read_answers
from versions import REPOSITORY, SOURCE

ROOT = Path(__file__).parents[2]
COPIER = Path(sys.executable).with_name("copier")
QUESTIONS = yaml.safe_load((ROOT / "copier.yml").read_text(encoding="utf-8"))
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


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_decides_on_the_tricks(copie, preset, capsys):
    result = copie.copy({"project_name": "Leaf Diseases", "preset": preset})
    assert result.exception is None
    # Only the preset is recorded, so that an update brings what it has gained.
    assert result.answers == {
        "project_name": "Leaf Diseases",
        "package_name": "leaf_diseases",
        "description": "Image classification with PyTorch",
        "author": "",
        "task": "classification",
        "preset": preset,
    }
    package = result.project_dir / "leaf_diseases"
    for trick, modules in MODULES.items():
        for module in modules:
            exists = (package / f"{module}.py").exists()
            assert exists == (trick in tricks_of(preset)), module
    message = " ".join(capsys.readouterr().err.split())
    listed = ", ".join(tricks_of(preset)) or "no tricks"
    assert f"Leaf Diseases is ready with {listed}." in message
    assert 'pip install -e ".[dev]" python train.py' in message


DESCRIPTIONS = {
    "classification": "Image classification with PyTorch",
    "multilabel": "Multi-label image classification with PyTorch",
    "regression": "Image regression with PyTorch",
    "segmentation": "Image segmentation with PyTorch",
}


# Each preset once, and each task.
@pytest.mark.parametrize(
    ("preset", "task"), few_of(product([*PRESETS, "custom"], TASKS), 1, 6, 11, 12)
)
def test_a_preset_has_the_tricks_for_the_task(copie, preset, task, capsys):
    result = copie.copy({"preset": preset, "task": task})
    assert result.exception is None
    assert result.answers["task"] == task
    assert result.answers["description"] == DESCRIPTIONS[task]
    expected = tricks_of("recommended" if preset == "custom" else preset, task)
    message = " ".join(capsys.readouterr().err.split())
    assert f"is ready with {', '.join(expected) or 'no tricks'}." in message


def test_a_task_is_asked_for_after_the_name():
    asked = [n for n, q in QUESTIONS.items() if isinstance(q, dict) and "help" in q]
    assert asked[:3] == ["project_name", "task", "preset"]
    assert QUESTIONS["task"]["default"] == TASKS[0] == "classification"
    assert {*TASKS} <= {*DESCRIPTIONS}


def test_recommended_is_the_default_and_marked_as_such():
    preset = QUESTIONS["preset"]
    assert preset["default"] == "recommended"
    labels = {value: label for label, value in preset["choices"].items()}
    assert list(labels) == ["recommended", "minimal", "everything", "custom"]
    assert [v for v, label in labels.items() if "(recommended)" in label] == [
        "recommended"
    ]


def test_the_custom_preset_begins_with_the_recommended_tricks(copie):
    result = copie.copy({"project_name": "Leaf Diseases", "preset": "custom"})
    assert result.answers["parallel"] == "none"
    assert result.answers["tricks"] == tricks_of("recommended")


WANTED = [(trick, other) for trick in TRICKS for other in trick.goes_with]


def test_copier_says_what_a_trick_is_of_little_use_without(copie, capsys):
    for trick, other in WANTED:
        note = f"Note: {trick.name} needs {trick.wants}: choose {other}, too."
        for tricks in ([trick.name], [trick.name, other]):
            copie.copy({"preset": "custom", "tricks": tricks})
            message = " ".join(capsys.readouterr().err.split())
            assert (note in message) == (other not in tricks)


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


def missing(
    rows: dict[str, dict[str, Any]], preset: str, answers: dict[str, str]
) -> list[str]:
    """Returns what the tricks that a preset begins with need and do not have."""
    known = {"catalogue": rows, "preset": preset, "choice_answers": answers}
    known["choice_questions"] = QUESTIONS["choice_questions"]["default"]
    for name in ("refusals", "preset_tricks"):
        template = jinja2.Template(QUESTIONS[name]["default"])
        known[name] = yaml.safe_load(template.render(known))
    names = known["preset_tricks"]
    needed = (need for name in names for need in rows[name].get("needs", ()))
    return [need for need in needed if need not in names]


@pytest.mark.parametrize("parallel", ["none", "dp", "ddp", "fsdp"])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("preset", ["recommended", "everything", "custom"])
def test_a_preset_has_what_its_tricks_need(preset, task, parallel):
    rows = QUESTIONS["catalogue"]["default"]
    answers = {"task": task, "parallel": parallel}
    assert missing(rows, preset, answers) == []
    bound = {
        "needy": {"recommended": True, "needs": ["lonely"]},
        "lonely": {"excludes": ["amp"]},
    }
    assert missing(rows | bound, preset, answers) == ["lonely"]


def test_the_project_is_called_after_its_folder_unless_it_has_a_name(tmp_path):
    for folder, name, package in (
        ("leaf-diseases", "Leaf Diseases", "leaf_diseases"),
        ("MNISTnet", "MNISTnet", "mnistnet"),
        ("--_", "Project", "project"),
    ):
        result = copy(ROOT, tmp_path / folder, {})
        assert result.returncode == 0, result.stderr
        answers = (tmp_path / folder / ".copier-answers.yml").read_text()
        assert yaml.safe_load(answers)["project_name"] == name
        assert (tmp_path / folder / package).is_dir()


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
        if path.startswith("readme-sections/"):  # Included, and not rendered.
            continue
        rendered = path.endswith(".jinja")
        assert rendered == bool(re.search(r"\{\{ |\{% ", text)), path


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
        ({"project_name": "   "}, "Give the project a name"),
        ({"project_name": " Leaves"}, "with no space at either end"),
        ({"project_name": "Leaves\nand trees"}, "without control characters"),
        ({"project_name": "Leaves\x1b[31m"}, "without control characters"),
        ({"project_name": "a" * 81}, "at most 80 characters"),
        ({"package_name": ".."}, "lower-case letters, digits and underscores"),
        ({"package_name": "../outside"}, "lower-case letters"),
        ({"package_name": "/etc"}, "lower-case letters"),
        ({"package_name": ""}, "lower-case letters"),
        ({"package_name": "-rf"}, "lower-case letters"),
        ({"package_name": 'a"b'}, "lower-case letters"),
        ({"package_name": "a b"}, "lower-case letters"),
        ({"package_name": "Leaves"}, "lower-case letters"),
        ({"package_name": "leaves\n"}, "lower-case letters"),
        ({"package_name": "leaves_"}, "lower-case letters"),
        ({"package_name": "été"}, "lower-case letters"),
        ({"package_name": "1leaf"}, "lower-case letters"),
        ({"package_name": "a" * 31}, "at most 30 characters"),
        ({"package_name": "class"}, "class is taken"),
        ({"package_name": "torch"}, "torch is taken"),
        ({"package_name": "timm"}, "timm is taken"),
        ({"package_name": "pandas"}, "pandas is taken"),
        ({"package_name": "random"}, "random is taken"),
        ({"package_name": "train"}, "try my_train"),
        ({"package_name": "tests"}, "tests is taken"),
        ({"package_name": "test_leaves"}, "test_leaves is taken"),
        ({"description": ""}, "1 to 200 characters"),
        ({"description": "a\tb"}, "without control characters"),
        ({"description": "a" * 201}, "1 to 200 characters"),
        ({"author": "Ada\x07"}, "without control characters"),
        ({"author": "Ada "}, "with no space at either end"),
        ({"preset": "best"}, "Invalid choice"),
        ({"task": "detection"}, "Invalid choice"),
        ({"preset": "custom", "parallel": "tpu"}, "Invalid choice"),
        ({"tricks": "[swa]"}, "add -d preset=custom"),
        ({"preset": "minimal", "tricks": "[]"}, "add -d preset=custom"),
        ({"chosen": "[swa]"}, "It is not asked for"),
        (
            {"preset": "custom", "preset_tricks": "[swa]"},
            "It is not asked for",
        ),
        ({"distributed": "true"}, "It is not asked for"),
        ({"preset": "everything", "tricks": "[amp]"}, "add -d preset=custom"),
        ({"preset": "custom", "tricks": "[amp, best]"}, "Invalid choice"),
        ({"preset": "custom", "tricks": "[amp, needy]"}, "needy needs swa: choose"),
        (
            {"preset": "custom", "tricks": "[lonely, amp]"},
            "lonely excludes amp: choose",
        ),
        (
            {"preset": "custom", "tricks": "[shared]"},
            "shared is not for parallel=none: leave it out, or choose parallel=ddp or "
            "parallel=fsdp",
        ),
        (
            {"preset": "custom", "tricks": "[other]"},
            "other is not for task=classification: leave it out, or choose task=detection",
        ),
        ({"preset": "minimal", "parallel": "dp"}, "add -d preset=custom"),
        ({"preset": "everything", "parallel": "ddp"}, "add -d preset=custom"),
    ],
    ids=repr,
)
def test_a_refused_answer_leaves_nothing_behind(bound, tmp_path, answers, sentence):
    project = tmp_path / "project"
    with pytest.raises(ValueError, match=re.escape(sentence)):
        copier.run_copy(
            str(bound),
            project,
            data={"project_name": "Leaves"} | answers,
            defaults=True,
        )
    assert list(tmp_path.iterdir()) == []


def test_the_real_command_refuses_an_answer(bound, tmp_path):
    result = copy(bound, tmp_path / "project", {"project_name": "   "})
    assert result.returncode != 0
    assert "Give the project a name" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def bound(tmp_path_factory):
    """A template with tricks that are bound to others, as those of no release may be."""
    template = tmp_path_factory.mktemp("bound")
    (template / "template").mkdir()
    questions = yaml.safe_load((ROOT / "copier.yml").read_text(encoding="utf-8"))
    row = {"title": "A", "buys": "b", "group": "C", "source": "d"}
    questions["catalogue"]["default"] |= {
        "needy": row | {"title": "Needy", "needs": ["swa"]},
        "lonely": row | {"title": "Lonely", "excludes": ["amp"]},
        "shared": row | {"title": "Shared", "forms": ["ddp", "fsdp"]},
        "other": row | {"title": "Other", "tasks": ["detection"]},
    }
    text = yaml.safe_dump(questions, sort_keys=False, allow_unicode=True)
    (template / "copier.yml").write_text(text, encoding="utf-8")
    return template


def test_everything_leaves_out_what_does_not_go_with_the_rest(bound, tmp_path):
    (bound / "template" / "list.txt.jinja").write_text("{{ chosen | join(' ') }}\n")
    for preset in ("everything", "recommended"):
        result = copy(bound, tmp_path / preset, {"preset": preset})
        assert result.returncode == 0, result.stderr
        listed = (tmp_path / preset / "list.txt").read_text().split()
        expected = {*tricks_of(preset), *({"needy"} if preset == "everything" else ())}
        assert {*listed} == expected


def test_every_module_that_python_has_is_refused_as_a_package_name():
    reserved = QUESTIONS["reserved_names"]["default"].split()
    modules = {name for name in sys.stdlib_module_names if name == name.lower()}
    assert not {name for name in modules if not name.startswith("_")} - set(reserved)


def copy(template, project, answers, *options, env=None):
    """Runs the real `copier copy`, without --trust, and answers nothing else."""
    data = [f"--data={name}={value}" for name, value in answers.items()]
    return subprocess.run(
        [COPIER, "copy", "--defaults", *options, *data, str(template), str(project)],
        capture_output=True,
        check=False,
        encoding="utf-8",
        env=os.environ | (env or {}),
    )


def git(directory, *arguments):
    return subprocess.run(
        ["git", "-C", directory, *arguments],
        capture_output=True,
        check=True,
        encoding="utf-8",
        env=os.environ
        | {f"GIT_{who}_NAME": "Test" for who in ("AUTHOR", "COMMITTER")}
        | {f"GIT_{who}_EMAIL": "test@example.com" for who in ("AUTHOR", "COMMITTER")},
    ).stdout


@pytest.fixture
def published(tmp_path):
    """The template, tagged v0.1.0, where the published address finds it."""
    work = tmp_path / "work"
    shutil.copytree(ROOT / "template", work / "template")
    shutil.copy(ROOT / "copier.yml", work)
    git(tmp_path, "init", "--quiet", "--initial-branch=main", str(work))
    git(work, "add", "--all")
    git(work, "commit", "--quiet", "--message=Release")
    git(work, "tag", "v0.1.0")
    bare = tmp_path / "hub" / REPOSITORY
    git(tmp_path, "clone", "--quiet", "--bare", str(work), str(bare))
    git(work, "remote", "add", "origin", str(bare))
    env = {
        "COPIER_CACHE_DIR": str(tmp_path / "cache"),
        "COPIER_SETTINGS_PATH": str(tmp_path / "no-settings.yml"),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{tmp_path}/hub/.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://github.com/",
    }
    return work, env


def test_the_real_command_copies_from_the_hub_and_updates(tmp_path, published):
    work, env = published
    project = tmp_path / "project"
    result = copy(SOURCE, project, {"project_name": "Leaves"}, env=env)
    assert result.returncode == 0, result.stderr
    answers = yaml.safe_load((project / ".copier-answers.yml").read_text())
    assert answers["_src_path"] == SOURCE
    assert answers["_commit"] == "v0.1.0"

    # The owner commits, and edits the settings; the next version edits the loop.
    git(tmp_path, "init", "--quiet", str(project))
    settings = project / "leaves" / "settings.py"
    settings.write_text(
        settings.read_text().replace("epochs: PositiveInt = 10", "epochs: PositiveInt = 7")
    )
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message=Start")
    loop = work / "template" / "train.py.jinja"
    loop.write_text(loop.read_text().replace("Trains a model", "Trains a new model"))
    git(work, "commit", "--quiet", "--all", "--message=Better")
    git(work, "tag", "v0.2.0")
    git(work, "push", "--quiet", "--tags", "origin", "main")

    result = subprocess.run(
        [COPIER, "update", "--defaults"],
        capture_output=True,
        check=False,
        cwd=project,
        encoding="utf-8",
        env=os.environ | env,
    )
    assert result.returncode == 0, result.stderr
    assert (
        "Leaves now has folders, csv, evaluate, predict, seeding, resume, prefetcher, amp."
        in result.stderr
    )
    assert "epochs: PositiveInt = 7" in settings.read_text()
    assert "Trains a new model" in (project / "train.py").read_text()
    assert "_commit: v0.2.0" in (project / ".copier-answers.yml").read_text()
    assert "UU" not in git(project, "status", "--short")


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
