"""Tricks in loops that no project has: the page that says what each needs, and two examples."""

import ast
import math
import posixpath
import re
import shutil
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from processes import call
from rendering import PACKAGE, render_files, render_subset
from subsets import ROOT, Subset

PAGE = (ROOT / "docs" / "own-loop.md").read_text(encoding="utf-8")
EXAMPLES = Path(__file__).with_name("own_loops")


def rows(heading: str) -> list[tuple[str, list[str], str]]:
    """Returns the rows of the table below a heading: a trick, files, and what is to be done."""
    section = re.search(rf"^## {heading}\n(.*?)^## ", PAGE, re.MULTILINE | re.DOTALL)[1]
    cells = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*) \|$", section, re.MULTILINE)
    return [(trick, re.findall(r"`(.*?)`", files), use) for trick, files, use in cells]


def sources(trick: str, files: list[str]) -> dict[str, str]:
    """Returns the texts of these files in a project that has the trick alone."""
    project = render_files(Subset.of(trick).answers)
    return {name: project[f"{PACKAGE}/{name}"] for name in files}


def imported(name: str, text: str) -> set[str]:
    """Returns the files of the package that a file imports."""
    places = [
        posixpath.join(*[".."] * node.level, *(node.module or "").split("."))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    return {f"{posixpath.normpath(posixpath.join(name, place))}.py" for place in places}


WITHOUT_SETTINGS, WITH_SETTINGS = (
    rows("Files without settings"),
    rows("Files that read settings"),
)


@pytest.mark.parametrize(
    ("trick", "files", "use"),
    WITHOUT_SETTINGS,
    ids=[f"{trick}-{files[0]}" for trick, files, _ in WITHOUT_SETTINGS],
)
def test_files_need_nothing_but_each_other(trick, files, use):
    texts = sources(trick, files)
    for name, text in texts.items():
        assert imported(name, text) <= {*files}, name
    everything = "\n".join(texts.values())
    for name in re.findall(r"(?<![\w.])([a-z]\w+|[A-Z]\w+[a-z]\w+)\(", use):
        if name not in {"len"}:
            assert re.search(rf"(def|class) {name}\b", everything), name


@pytest.mark.parametrize(("trick", "files", "attributes"), WITH_SETTINGS)
def test_settings_need_no_more_than_is_said(trick, files, attributes):
    [(name, text)] = sources(trick, files).items()
    assert imported(name, text) <= {"settings.py", "task.py"}
    read = re.findall(r"\bsettings\.(\w+)", text)
    assert {*read} == {*re.findall(r"`(\w+)`", attributes)}


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A directory with both examples, and with the files of the page in `tricks`."""
    place = tmp_path_factory.mktemp("own")
    tricks = dict.fromkeys(trick for trick, *_ in WITHOUT_SETTINGS)
    donor = render_subset(place / "donor", Subset.of(*tricks))
    for name in dict.fromkeys(
        name for _, files, _ in WITHOUT_SETTINGS for name in files
    ):
        (place / "tricks" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(donor / PACKAGE / name, place / "tricks" / name)
    for path in EXAMPLES.glob("*.py"):
        shutil.copy(path, place)
    return place


@pytest.mark.proof
def test_a_gpt_that_is_stopped_ends_with_the_same_weights(place, zygote):
    text = place / "donor" / "README.md"
    run = partial(zygote.output, place, "gpt.py", text)
    said = run("whole", 60)
    run("stopped", 40)
    assert run("stopped", 60) in said
    # It began with the loss of a guess among all characters.
    guess = math.log(len({*text.read_text(encoding="utf-8")}))
    assert float(said.splitlines()[-1].split()[1]) < guess - 1
    whole, stopped = (place / name / "model.pt" for name in ("whole", "stopped"))
    assert whole.read_bytes() == stopped.read_bytes()


@pytest.mark.proof
def test_lightning_takes_the_average_along(place):
    run = partial(call, sys.executable, "lightning_run.py", cwd=place)
    run("whole", 6)
    run("stopped", 2)
    said = run("stopped", 6, "stopped/last.ckpt")
    assert float(re.search(r"'balanced_accuracy': ([\d.]+)", said)[1]) > 0.85
    whole, stopped = (
        torch.load(place / name / "last.ckpt", weights_only=False)
        for name in ("whole", "stopped")
    )
    for part in ("state_dict", "average", "clipping"):
        torch.testing.assert_close(whole[part], stopped[part], rtol=0, atol=0)
