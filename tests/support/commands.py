"""Runs the commands of `torch-tricks` and git, and looks at what they leave."""

import re
import shutil
import subprocess
import sys

import versions
from processes import call_any
from rendering import PROJECT
from subsets import ROOT, TRICKS
from torch_tricks import cli
from typer.testing import CliRunner
from updating import read_files as files
from versions import git

GIT = shutil.which("git")
NAME = PROJECT["project_name"]
edit = versions.edit


def commit(directory, message="Work"):
    git(directory, "add", "--all", "--force")
    git(directory, "commit", "--quiet", "--message", message)


def copy_questions(work):
    """Copies what the template asks: copier.yml, and the rows of the tricks."""
    for path in (ROOT / "copier.yml", *ROOT.glob("template/*/row.yml")):
        copy = work / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)


def run(*arguments, code=0, **options):
    """Runs a command in this process; returns what it printed."""
    result = CliRunner().invoke(cli.app, [str(word) for word in arguments], **options)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    if code == 2:
        *progress, line = result.stderr.splitlines()
        assert progress == [] or arguments[0] == "measure"
        assert line.startswith("error: ")
        return line
    assert result.stderr == "" or arguments[0] == "measure"
    return result.stdout


def custom(*tricks, **answers):
    """Answers under the preset custom, with no tricks but those given."""
    chosen = {"preset": "custom", "parallel": "none", "tricks": list(tricks)}
    return chosen | answers


RECOMMENDED = [trick.name for trick in TRICKS if trick.recommended]


def notes(output):
    return re.findall(r"^note: (.*)$", output, re.MULTILINE)


def run_undo(output):
    """Runs the command that the output names for going back."""
    [command] = re.findall(r"^to go back: (.*)$", output, re.MULTILINE)
    subprocess.run(command, shell=True, check=True)


def state(directory):
    """The state of a project that must come back when a change is undone."""
    return (
        files(directory),
        git(directory, "status", "--porcelain", "--untracked-files=all"),
        git(directory, "ls-files", "--stage"),
    )


def python(*arguments, cwd=None, **variables):
    """Runs Python in a fresh process, on the tool of this clone."""
    return call_any(sys.executable, *arguments, cwd=cwd, **OF_THIS_CLONE, **variables)


OF_THIS_CLONE = {"PYTHONPATH": str(ROOT / "generator")}
"""The variables by which a new process finds the tool of this clone."""
