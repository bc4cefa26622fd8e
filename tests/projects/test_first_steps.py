"""README, the tutorial and guides show what the scripts print, but for the numbers."""

import json
import re
import shlex
import subprocess
import sys

import pytest
from PIL import Image
from rendering import PACKAGE, render, render_subset
from sklearn.datasets import load_digits
from subsets import ROOT, Subset

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


FILE = re.compile(r"^--- .+\n\+\+\+ (.+)\n", re.MULTILINE)
"""The head of a file in a block of changes."""


def guide(name):
    """Returns the blocks of a guide: the language of each, its text, and its page so far."""
    text = (ROOT / "docs" / "guides" / name).read_text(encoding="utf-8")
    text = re.sub(r"\bleaves\b", PACKAGE, text)
    return [
        (block[1], block[2], text[: block.start()]) for block in BLOCK.finditer(text)
    ]


def patch(project, diff):
    """Makes the changes of a block, whose hunks have no line numbers."""
    _, *parts = FILE.split(diff)
    for name, hunks in zip(parts[::2], parts[1::2]):
        path = project / name
        text = path.read_text(encoding="utf-8")
        for hunk in hunks.split("@@\n")[1:]:
            lines = hunk.splitlines(keepends=True)
            old = "".join(line[1:] for line in lines if line[0] != "+")
            assert text.count(old) == 1, f"{name} does not hold once: {old}"
            text = text.replace(old, "".join(x[1:] for x in lines if x[0] != "-"))
        path.write_text(text, encoding="utf-8")


def test_the_changes_of_a_guide_fit_and_train(digits, zygote):
    """Each block of the page in its order: a change, commands, or what they print."""
    project = render(digits / "extended", {"preset": "recommended"})
    printed, changes, compared = [], 0, 0
    for language, block, before in guide("extend.md"):
        if language == "diff":
            patch(project, block)
            changes += 1
            for options in (["check"], ["format", "--check"]):
                ruff = [sys.executable, "-m", "ruff", *options, "--quiet"]
                subprocess.run(ruff, cwd=project, check=True)
        elif language == "sh":
            printed = []
            for command in block.splitlines():
                if command.startswith(("mkdir ", "for ")):
                    subprocess.run(["bash", "-ec", command], cwd=project, check=True)
                elif command.startswith("python "):
                    _, *arguments = shlex.split(command)
                    cpu = ["--device", "cpu"]
                    result = zygote.run(project, *arguments, *cpu)
                    assert result.returncode == 0, result.stderr
                    printed += map(shape, result.stdout.splitlines())
        elif before.endswith(PRINTED):
            for line in block.splitlines():
                compared += 1
                assert line == "..." or shape(line) in printed, printed
    assert (changes, compared) == (5, 10)


def test_the_service_of_a_guide_answers_as_predict_py(digits, zygote):
    pytest.importorskip("fastapi")
    subset = Subset.of("export", "folders", "predict")
    project = render_subset(digits / "served", subset)
    [service] = [
        block for language, block, _ in guide("serve.md") if language == "python"
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
    weights, image = "runs/first/model.pt", "../digits/3/0003.png"
    data = ("--data", "folder", "--data-dir", "../digits", "--image-size", "32")
    short = ("--max-steps", "2", "--run-dir", "runs/first")
    printed = []
    for arguments in (
        ("train.py", *data, *short, "--device", "cpu"),
        ("export.py", weights, "--formats", "onnx"),
        ("predict.py", image, "--weights", weights, "--format", "json"),
        ("client.py", image),
    ):
        result = zygote.run(project, *arguments)
        assert result.returncode == 0, result.stderr
        printed.append(result.stdout)
    answer, refused = printed[-1].splitlines()
    predictions = json.loads(printed[-2])["predictions"]
    expected = {entry["class"]: entry["probability"] for entry in predictions}
    assert json.loads(answer) == pytest.approx(expected, abs=1e-3)
    assert refused == "refused"
