"""Help, completion, colours and pipes."""

import re
import shlex
import sys
from importlib.metadata import version

import pytest
from commands import OF_THIS_CLONE, git, python, run
from parts import few_of
from processes import call_any
from torch_tricks import cli, output


def shell(command, program="sh"):
    """Runs a command of the tool, with redirections and pipes."""
    command = f"{shlex.quote(sys.executable)} -m torch_tricks {command}"
    return call_any(program, "-c", command, **OF_THIS_CLONE)


class TestTerminal:
    def test_help_needs_neither_copier_nor_torch(self):
        code = "import sys, torch_tricks.cli; print(*sys.modules)"
        loaded = set(python("-c", code).stdout.split())
        assert "typer" in loaded
        assert not loaded & {"copier", "jinja2", "yaml", "torch", "rich"}

    def test_help_names_every_command(self):
        output = run("--help")
        assert "PyTorch training projects" in output
        names = ("new", "list", "show", "add", "remove", "update", "measure", "status")
        for name in names:
            assert re.search(rf"^  {name} .*\.$", output, re.MULTILINE), name
            help_of = run(name, "--help", terminal_width=80)
            assert f"Usage: torch-tricks {name} " in help_of
            assert re.search(rf"  Examples:\n    torch-tricks {name}\b", help_of), name
            assert max(map(len, help_of.splitlines())) <= 80
        assert run() == output

    def test_wrong_commands_get_a_suggestion(self):
        assert "Did you mean 'update'?" in run("updat", code=2)
        assert run("new", code=2).endswith("'DEST'; see torch-tricks new --help")

    @pytest.mark.parametrize(
        ("words", "expected"),
        few_of(
            [
                ("new x --with amp,mi", ["amp,mixup"]),
                ("add sw", ["swa", "sweep"]),
                ("new x --preset m", ["minimal"]),
                ("list --task c", ["classification"]),
                ("sho", ["show"]),
            ],
            0,
        ),
    )
    def test_completion(self, words, expected):
        variables = {
            "_TORCH_TRICKS_COMPLETE": "complete_bash",
            "COMP_WORDS": f"torch-tricks {words}",
            "COMP_CWORD": str(len(words.split())),
        }
        result = python("-m", "torch_tricks", **variables)
        assert sorted(result.stdout.split()) == expected, result.stderr

    @pytest.mark.parametrize("command", ["list", "show swa"])
    def test_a_closed_pipe_is_no_error(self, command):
        """The reader ends before the first line: click alone would exit with 1."""
        result = shell(f"{command} | exec 0<&-; echo ${{PIPESTATUS[0]}}", "bash")
        assert (result.stdout, result.stderr) == ("0\n", "")

    def test_a_pipe_may_close_while_an_error_is_handled(self):
        code = """
import torch_tricks.cli as cli

def main(*_, **__):
    try:
        raise KeyError
    except KeyError:
        raise BrokenPipeError

cli.TyperGroup.main = main
cli.app()
"""
        result = python("-c", code)
        assert (result.returncode, result.stderr) == (0, "")

    @pytest.mark.parametrize(
        "command",
        few_of(["list <&- >&- 2>&-", "add swa >&-", "status >&-", "--version >&-"], 0),
    )
    def test_a_closed_output_is_no_error(self, project, command):
        directory = project(preset="minimal")
        result = shell(command)
        assert (result.returncode, result.stderr) == (0, "")
        assert ("swa.py" in git(directory, "status", "--short")) == ("swa" in command)

    def test_version(self):
        assert run("--version") == f"torch-tricks {version('torch-tricks')}\n"

    @pytest.mark.parametrize(
        ("no_color", "terminal", "expected"),
        [("", "xterm", True), ("1", "xterm", False), ("", "dumb", False)],
    )
    def test_colours_are_for_those_who_can_see_them(
        self, monkeypatch, no_color, terminal, expected
    ):
        monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
        monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
        monkeypatch.setenv("NO_COLOR", no_color)
        monkeypatch.setenv("TERM", terminal)
        assert output.colored() == expected
        assert cli.can_ask() == (terminal != "dumb")

    def test_variables_of_a_hook_do_not_mislead(self, project, tmp_path, monkeypatch):
        directory = project(preset="minimal")
        git(tmp_path, "init", "--quiet", "other")
        monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
        run("add", "swa")
        monkeypatch.delenv("GIT_DIR", raising=False)
        assert "swa.py" in git(directory, "status", "--porcelain")
