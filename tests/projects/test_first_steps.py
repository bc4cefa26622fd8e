"""README, the tutorial and two guides show what the scripts print, but for the numbers."""

import re
import shlex

import pytest
from PIL import Image
from rendering import render
from sklearn.datasets import load_digits
from subsets import ROOT

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PRINTED = "<!-- printed -->\n"
NUMBER = re.compile(r"\d[\d,.]*(e-?\d+)?")


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """The digits of scikit-learn, as the tutorial writes them, but fewer."""
    root = tmp_path_factory.mktemp("world")
    found = load_digits()
    for number, (image, label) in enumerate(zip(found.images, found.target)):
        if number % 3 == 0:
            path = root / "digits" / str(label) / f"{number:04}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray((image * 255 / 16).astype("uint8")).save(path)
    return root


def commands_and_output(text):
    """Yields the commands of each block of a shell, and what the page says they print."""
    blocks = list(BLOCK.finditer(text))
    for block, following in zip(blocks, [*blocks[1:], None]):
        if block[1] == "sh":
            shown = following and text[: following.start()].endswith(PRINTED)
            commands = block[2].replace("\\\n", " ").splitlines()
            yield commands, following[2].splitlines() if shown else []


def edits(text):
    """Yields the lines that a page replaces in a file of the project."""
    for block in BLOCK.finditer(text):
        if block[1] == "diff" and "DatasetSpec(" in block[2]:
            yield tuple(line[1:] for line in block[2].splitlines())


PAGES = (
    "README.md",
    "docs/start.md",
    "docs/guides/own-images.md",
    "docs/guides/resume.md",
)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_what_the_scripts_print(page, digits, zygote):
    text = (ROOT / page).read_text(encoding="utf-8")
    project = digits / page.replace("/", "-")
    render(project, {"preset": "recommended", "task": "classification"})
    data = project / "leaf_diseases" / "data" / "datasets.py"
    code = data.read_text(encoding="utf-8")
    for old, new in edits(text):
        assert code.count(old) == 1
        code = code.replace(old, new)
    data.write_text(code, encoding="utf-8")
    compared = 0
    for commands, shown in commands_and_output(text):
        printed = []
        for command in commands:
            python, *arguments = shlex.split(command, comments=True) or [""]
            if python != "python" or not arguments[0].endswith(".py"):
                continue
            if "--patience" in arguments or ("--resume" in arguments and not shown):
                continue
            if "train.py" in arguments:
                arguments += ["--device", "cpu"]
            if "train.py" in arguments and "--resume" not in arguments:
                arguments += ["--epochs", "2"]
            result = zygote.run(project, *arguments)
            assert result.returncode == 0, result.stderr
            printed += result.stdout.splitlines()
        for line in shown:
            compared += 1
            assert line == "..." or shape(line) in map(shape, printed), printed
    assert compared > 3


def shape(line):
    """A line without its numbers, and without the build of torch."""
    return NUMBER.sub("#", re.sub(r"\+(cu\d+|cpu)", "", line))
