"""Kills a command of `torch-tricks` in the middle of its work, and looks at what is left."""

import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from processes import call_any
from torch_tricks.cli import app
from updating import Files, Project, read_files
from versions import git

CHANGING = {
    *("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink"),
    *("os.chmod", "os.truncate", "os.utime", "subprocess.Popen"),
}
"""Audit events that announce a change of files; `open` is looked at closer."""

Step = Callable[[int], None]


class Killing:
    """A command that is killed again and again, each time in a new copy of one project."""

    def __init__(self, project: Project, command: tuple[str, ...]) -> None:
        self.project, self.command = project, command
        self.path = project.path.with_name(f"{project.path.name}-killed")
        self.snapshots = project.path.with_name(f"{project.path.name}-snapshots")
        self.output = self.path.with_suffix(".out")
        self.restore()
        self.before = self.state()
        self.run()
        self.after = self.state()
        assert self.after != self.before, self.output.read_text()

    def restore(self, source: Path | None = None) -> None:
        """Puts a copy of the project, or of a snapshot of it, in the same place."""
        shutil.rmtree(self.path, ignore_errors=True)
        shutil.copytree(source or self.project.path, self.path, symlinks=True)

    def state(self) -> tuple[Files, str]:
        """All files, ignored ones included, and what git says of them."""
        status = git(self.path, "status", "--porcelain", "--ignored")
        return read_files(self.path), status

    def at_every_step(self) -> dict[int, str]:
        """Judges what a kill would leave before each step of the command, by its number.

        The command runs once and the project is copied before each step, for that is
        what a kill would leave: nothing that it has not yet written can come after. Steps
        that have changed nothing are skipped.
        """
        self.restore()
        shutil.rmtree(self.snapshots, ignore_errors=True)
        self.snapshots.mkdir()
        seen: list[Any] = []
        self.run(lambda step: self.take_snapshot(step, seen))
        assert self.state() == self.after
        judgements = {}
        for snapshot in sorted(self.snapshots.glob("*.out")):
            self.restore(snapshot.with_suffix(""))
            printed = snapshot.read_text(encoding="utf-8")
            judgements[int(snapshot.stem)] = self.judge(printed)
        return judgements

    def take_snapshot(self, step: int, seen: list[Any]) -> None:
        status = {
            path: (status.st_ino, status.st_size, status.st_mtime_ns)
            for path in self.path.rglob("*")
            if (status := path.lstat())
        }
        if [status] == seen:
            return
        seen[:] = [status]
        snapshot = self.snapshots / f"{step:05}"
        shutil.copytree(self.path, snapshot, symlinks=True)
        shutil.copy(self.output, snapshot.with_suffix(".out"))

    def at_step(self, number: int) -> str:
        """Kills the command just before a step, and judges what it leaves."""

        def kill(step: int) -> None:
            if step == number:
                os.kill(os.getpid(), signal.SIGKILL)

        self.restore()
        self.run(kill)
        return self.judge(self.output.read_text(encoding="utf-8"))

    def when_changed(self, name: str) -> str:
        """Kills the command as soon as a file has changed, and judges what it leaves.

        The git processes that it has started are killed, too.
        """
        self.restore()
        path, content = self.path / name, self.before[0].get(name)

        def has_changed() -> bool:
            try:
                return path.read_bytes() != content
            except FileNotFoundError:
                return content is not None

        self.run(kill_when=has_changed)
        return self.judge(self.output.read_text(encoding="utf-8"))

    @property
    def changed_files(self) -> list[str]:
        """The files that the command changes, adds and removes."""
        (before, _), (after, _) = self.before, self.after
        return [
            name
            for name in sorted(before.keys() | after.keys())
            if before.get(name) != after.get(name)
        ]

    def judge(self, printed: str) -> str:
        """Returns whether the project is as before, updated, or was brought back.

        Raises:
            AssertionError: it is none of these.
        """
        if (state := self.state()) in (self.before, self.after):
            return "before" if state == self.before else "after"
        commands = set(re.findall(r"^to go back: (git .*)$", printed, re.MULTILINE))
        assert len(commands) == 1, printed
        undone = call_any(*shlex.split(commands.pop()), cwd=self.path)
        assert undone.returncode == 0, undone.stderr
        assert self.state() == self.before
        return "undone"

    def run(
        self, step: Step | None = None, kill_when: Callable[[], bool] | None = None
    ) -> None:
        """Runs the command in a fork, with a call before each step that changes files."""
        child = os.fork()
        if child == 0:
            self.be_the_command(step)
        ended = (0, 0)
        while kill_when and ended == (0, 0):
            if kill_when():
                # The child leads a group, to which the git processes belong.
                os.killpg(child, signal.SIGKILL)
                break
            ended = os.waitpid(child, os.WNOHANG)
        if ended == (0, 0):
            os.waitpid(child, 0)

    def be_the_command(self, step: Step | None) -> None:
        """Becomes the command, in a process that does not return."""
        os.setsid()
        descriptor = os.open(self.output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8")
        sys.stderr = os.fdopen(2, "w", encoding="utf-8")
        # What a killed process leaves there goes with the test's own directory.
        tempfile.tempdir = str(self.path.parent)
        os.chdir(self.path)
        steps, busy = 0, False

        def watch(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal steps, busy
            if not busy and changes_files(event, arguments, self.path):
                steps, busy = steps + 1, True
                step(steps)
                busy = False

        if step is not None:
            sys.addaudithook(watch)
        try:
            app(self.command, prog_name="torch-tricks")
        finally:
            busy = True
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)


def changes_files(event: str, arguments: tuple[Any, ...], directory: Path) -> bool:
    """Tells whether an audit event announces a change of files in a directory.

    A process that is started there counts, for git may write into its own files.
    """
    if event == "open":
        path, _, flags = arguments
        if not flags & (os.O_WRONLY | os.O_RDWR):
            return False
    elif event == "subprocess.Popen":
        path = arguments[2] or os.getcwd()
    elif event in CHANGING:
        path = arguments[1] if event == "os.rename" else arguments[0]
    else:
        return False
    if isinstance(path, int):
        return False
    if event in ("os.remove", "os.rmdir", "os.mkdir") and arguments[-1] != -1:
        # Relative to a directory that is open, as shutil.rmtree does it.
        path = os.path.join(os.readlink(f"/proc/self/fd/{arguments[-1]}"), path)
    path = os.path.abspath(os.fsdecode(path))
    return path == str(directory) or path.startswith(f"{directory}{os.sep}")
