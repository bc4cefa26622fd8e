"""A project with the changes that the guide suggests gets and loses each trick."""

import re

import pytest
from commands import commit
from parts import few_of
from rendering import PACKAGE
from subsets import ROOT, TRICKS, forms_of
from test_first_steps import patch
from torch_tricks import cli
from torch_tricks.imports import with_imports_of_both
from typer.testing import CliRunner

BASE = """\
\"\"\"Doc.\"\"\"

import os

from .a import A, f
from .gone import gone, stays
from .noted import noted  # Why.
from .z import z
"""
OURS = BASE.replace("import os", "import math\nimport os").replace("A, f", "A, B_C, f")
OURS = OURS.replace("from .z", "from .own import Own\nfrom .z").replace("gone, ", "")
THEIRS = BASE.replace("import os", "import os\nimport re").replace("A, f", "A, Z, f, g")
THEIRS = THEIRS.replace("from .n", "from .new import new\nfrom .n")
UNION = """\
\"\"\"Doc.\"\"\"

import math
import os
import re

from .a import B_C, A, Z, f, g
from .gone import gone, stays
from .new import new
from .noted import noted  # Why.
from .own import Own
from .z import z
"""


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_imports_that_both_sides_add_are_in_all_versions(newline):
    texts = (text.replace("\n", newline) for text in (OURS, BASE, THEIRS))
    found = with_imports_of_both(*(text.encode() for text in texts))
    union = UNION.replace("\n", newline)
    ours = union.replace("gone, ", "")
    assert [text.decode() for text in found] == [ours, union, union]


@pytest.mark.parametrize("text", ["import", "a\rimport b\n", "\0"])
def test_other_files_are_merged_as_they_are(text):
    with pytest.raises((SyntaxError, ValueError)):
        with_imports_of_both(b"", text.encode(), b"")


CHANGE_THE_SAME_STATEMENT = {"label_smoothing", "class_balance"}
"""The guide replaces the loss: so do these tricks."""

OTHERS = [trick for trick in TRICKS if trick.works("task", "classification")]


@pytest.mark.share
@pytest.mark.parametrize("trick", few_of(OTHERS, 33), ids=lambda trick: trick.name)
def test_a_trick_comes_and_goes(trick, project):
    directory = project(preset="recommended")
    page = (ROOT / "docs/guides/extend.md").read_text("utf-8")
    for diff in re.findall(r"^```diff\n(.*?)^```$", page, re.DOTALL | re.MULTILINE):
        patch(directory, re.sub(r"\bleaves\b", PACKAGE, diff))
    commit(directory)
    form = [f"parallel={form}" for form in forms_of(trick)[:1] if form != "none"]
    steps = [("add", trick.name, *trick.needs, *form), ("remove", trick.name)]
    if trick.recommended:
        steps.reverse()
    for step in (*steps, steps[0]):
        result = CliRunner().invoke(cli.app, step)
        if trick.name in CHANGE_THE_SAME_STATEMENT:
            assert f"conflict {PACKAGE}/task.py" in result.output
            return
        assert result.exit_code == 0, result.output
        commit(directory)
    assert "def open_named" in (directory / PACKAGE / "data/own.py").read_text()
