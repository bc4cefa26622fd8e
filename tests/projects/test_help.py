"""The `--help` of a project's commands: groups of flags, in order, and examples."""

import ast
import re

import pytest
from footprint import SETTINGS, footprint
from rendering import render, render_files
from subsets import TASKS, TRICKS, everything

GROUPS = ["Data", "Model", "Optimizer", "Run"]


def groups_of(text: str) -> dict[str, list[str]]:
    """Returns the flags of the settings, by the title above them."""
    [settings] = [
        node
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef) and node.name == "Settings"
    ]
    groups: dict[str, list[str]] = {}
    for node in settings.body:
        if isinstance(node, ast.AnnAssign):
            if title := re.search(r"title='(\w+)'", ast.unparse(node)):
                flags = groups[title[1]] = []
            flags.append(f"--{node.target.id.replace('_', '-')}")
    return groups


@pytest.mark.parametrize("task", TASKS)
def test_a_group_has_the_flags_of_its_trick(task):
    groups = groups_of(render_files(everything(task=task).answers)[SETTINGS])
    assert [*groups][:4] == GROUPS
    assert {*groups} - {*GROUPS} <= {trick.name for trick in TRICKS}
    if task == TASKS[0]:  # Footprints are of this one.
        for title in [*groups][4:]:
            assert {*groups[title]} <= {*footprint(title).flags}, title


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return render(tmp_path_factory.mktemp("help") / "x", {"preset": "everything"})


def titles(printed: str) -> list[str]:
    return re.findall(r"^╭─ (.+?) ─", printed, re.MULTILINE)


def test_train_shows_groups_and_examples(project, zygote):
    settings = project / SETTINGS
    text = settings.read_text("utf-8")
    field = '    mine: int = 3\n    """An addition of the owner."""\n'
    settings.write_text(text.replace("    momentum:", f"{field}    momentum:"), "utf-8")
    try:
        printed = zygote.output(project, "train.py", "--help")
    finally:
        settings.write_text(text, "utf-8")
    shown = [title.removesuffix(" options") for title in titles(printed)]
    expected = [title.replace("_", "-") for title in groups_of(text)]
    assert shown == ["options", *expected]
    before, _, optimizer = printed.partition("Optimizer options")
    assert "--mine INT" in optimizer.partition("╰")[0]
    examples = re.findall(r"^    python train\.py --\w.*$", before, re.MULTILINE)
    assert len(examples) == 3


def test_flags_of_a_script_have_a_group(project, zygote):
    printed = zygote.output(project, "sweep.py", "--help")
    assert titles(printed)[-1] == "sweep options"
    assert "--trials INT" in printed.rpartition("sweep options")[2]
    printed = zygote.output(project, "errors.py", "--help")
    assert titles(printed) == ["positional arguments", "options"]


def test_a_positional_argument_is_no_flag(project, zygote):
    ran = zygote.run(project, "evaluate.py", "--weights", "model.pt")
    assert "argument 'weights'" in ran.stderr
    ran = zygote.run(project, "predict.py", "--images", "a.jpg", "--weights", "b.pt")
    assert "Unrecognized options: --images" in ran.stderr


OWN = """from pydantic import BaseModel
from leaf_diseases.command_line import parse_arguments
class Part(BaseModel):
    lr: float = 0.1
class Own(BaseModel):
    lr: float = 0.2
    head: Part = Part()
print(parse_arguments(Own, "Doc."))
"""


def test_a_nested_model_of_the_owner_keeps_its_name_in_flags(project, zygote):
    (project / "own.py").write_text(OWN, "utf-8")
    said = zygote.output(project, "own.py", "--head.lr", "3", "--lr", "4")
    assert said == "lr=4.0 head=Part(lr=3.0)\n"
