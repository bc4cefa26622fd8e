"""README, the tutorial and guides show what the scripts print, but for the numbers."""

import json
import re
import shlex
import subprocess
import sys

import pytest
from parts import at_once
from PIL import Image
from rendering import PACKAGE, render, render_subset
from subsets import ROOT, Subset

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PRINTED = "<!-- printed -->\n"
NUMBER = re.compile(r"\d[\d,.]*(e-?\d+)?")


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """The digits of scikit-learn, as the tutorial writes them, but fewer."""
    # It takes seconds, which collecting the tests need not wait for.
    from sklearn.datasets import load_digits

    root = tmp_path_factory.mktemp("world")
    found = load_digits()
    for number, (image, label) in enumerate(zip(found.images, found.target)):
        if number % 6 == 3:
            path = root / "digits" / str(label) / f"{number:04}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray((image * 255 / 16).astype("uint8")).save(path)
    return root


PAGES = {
    "README.md": (0, 3),
    "docs/start.md": (1, 16),
    "docs/guides/extend.md": (5, 9),
    "docs/guides/own-images.md": (1, 12),
    "docs/guides/resume.md": (0, 9),
}
"""How many changes of the code a page has, and how many printed lines."""
FILE = re.compile(r"^--- .+\n\+\+\+ (.+)\n", re.MULTILINE)
"""The head of a file in a block of changes."""


def blocks(page):
    """Returns the blocks of a page: the language of each, its text, and the page so far."""
    text = (ROOT / page).read_text(encoding="utf-8")
    text = re.sub(r"\bleaves\b", PACKAGE, text)
    return [
        (block[1], block[2], text[: block.start()]) for block in BLOCK.finditer(text)
    ]


@pytest.mark.parametrize("page", at_once(PAGES, "README.md"))
def test_a_page_shows_what_the_scripts_print(page, digits, zygote):
    """Each block of the page in its order: a change, commands, or what they print."""
    project = digits / page.replace("/", "-")
    render(project, {"preset": "recommended", "task": "classification"})
    printed, changes, compared = [], 0, 0
    for language, block, before in blocks(page):
        if language == "diff" and FILE.match(block):
            patch(project, block)
            changes += 1
            for options in (["check"], ["format", "--check"]):
                ruff = [sys.executable, "-m", "ruff", *options, "--quiet"]
                subprocess.run(ruff, cwd=project, check=True)
        elif language == "sh":
            printed = []
            for command in block.replace("\\\n", " ").splitlines():
                if re.match(r"mkdir |for .*; do ", command):
                    subprocess.run(["bash", "-ec", command], cwd=project, check=True)
                # A trick that the page adds has flags that the project lacks here.
                elif command.startswith("python ") and "torch-tricks add" not in block:
                    printed += run(zygote, project, command)
        elif before.endswith(PRINTED):
            for line in block.splitlines():
                compared += 1
                assert line == "..." or shape(line) in map(shape, printed), printed
    assert (changes, compared) == PAGES[page]


def run(zygote, project, command):
    """Runs a script for two epochs, or three if it resumes, and returns its lines."""
    _, *arguments = shlex.split(command, comments=True)
    if not arguments[0].endswith(".py"):
        return []
    if arguments[0] == "train.py":
        arguments += ["--device", "cpu"]
        arguments += ["--epochs", "3" if "--resume" in arguments else "2"]
    return zygote.output(project, *arguments).splitlines()


def patch(project, diff):
    """Makes the changes of a block, whose hunks have no line numbers."""
    _, *parts = FILE.split(diff)
    for name, hunks in zip(parts[::2], parts[1::2]):
        path = project / name
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        for hunk in hunks.split("@@\n")[1:]:
            lines = hunk.splitlines(keepends=True)
            old = "".join(line[1:] for line in lines if line[0] != "+")
            assert text.count(old) == 1, f"{name} does not hold once: {old}"
            text = text.replace(old, "".join(x[1:] for x in lines if x[0] != "-"))
        path.write_text(text, encoding="utf-8")


OF_THE_MACHINE = re.compile(r"\+(cu\d+|cpu)|(?<=^mixed precision: )(none|bfloat16)$")
"""The build of torch, and the type that `auto` chooses for the processor."""


def shape(line):
    """A line without its numbers, and without what differs between machines."""
    return NUMBER.sub("#", OF_THE_MACHINE.sub("", line))


def test_the_readme_shows_the_files_of_a_project(tmp_path):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    [tree] = [block[2] for block in BLOCK.finditer(text) if "├──" in block[2]]
    project = render(tmp_path / "project", {"preset": "recommended"})
    folders = [project]
    for line in tree.splitlines()[1:]:
        branch, name = re.match(r"([│├└─ ]+)(\S+)", line).groups()
        depth = len(branch) // 4
        path = folders[depth - 1] / name.replace("leaves", PACKAGE)
        assert path.is_dir() if name.endswith("/") else path.is_file(), line
        folders[depth:] = [path]


def test_the_service_of_a_guide_answers_as_predict_py(digits, zygote):
    pytest.importorskip("fastapi")
    subset = Subset.of("export", "folders", "predict")
    project = render_subset(digits / "served", subset)
    service, _ = [
        block
        for language, block, _ in blocks("docs/guides/serve.md")
        if language == "python"
    ]
    client = """
import sys
from pathlib import Path

print(json.dumps(classify(Path(sys.argv[1]).read_bytes())))
try:
    classify(b"no image")
except OSError:
    print("refused")
"""
    (project / "client.py").write_text(service + client, encoding="utf-8")
    weights, image = "runs/first/best.pt", "../digits/3/0003.png"
    data = ("--data", "folder", "--data-dir", "../digits", "--image-size", "32")
    short = ("--max-steps", "2", "--run-dir", "runs/first")
    printed = []
    for arguments in (
        ("train.py", *data, *short, "--device", "cpu"),
        ("export.py", weights, "--formats", "onnx"),
        ("predict.py", image, "--weights", weights, "--format", "json"),
        ("client.py", image),
    ):
        printed.append(zygote.output(project, *arguments))
    answer, refused = printed[-1].splitlines()
    predictions = json.loads(printed[-2])["predictions"]
    expected = {entry["class"]: entry["probability"] for entry in predictions}
    assert json.loads(answer) == pytest.approx(expected, abs=1e-3)
    assert refused == "refused"
