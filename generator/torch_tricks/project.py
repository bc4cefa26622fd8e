"""A project on disk: where it came from, and whether it can be changed safely."""

import os
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torch_tricks.errors import Refusal
from torch_tricks.git import GitError, git, git_bytes, nul_separated
from torch_tricks.template import ANSWERS_FILE

MARKERS = ("<<<<<<< before updating", ">>>>>>> after updating")
"""The lines around a conflict, as Copier writes them too."""

UNFINISHED = {
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
}
"""What git leaves in its directory while one of its commands waits to be continued."""


UNDO = ("restore", "--source=HEAD", "--staged", "--worktree", ".")
"""Brings back what is committed, and removes what only the index has."""


@dataclass(frozen=True)
class Project:
    """A directory that holds a project, which may be a part of a larger repository."""

    directory: Path

    @classmethod
    def at(cls, directory: Path) -> "Project":
        """Opens a project.

        Raises:
            Refusal: there is none, or it does not say where it came from.
        """
        project = cls(directory.absolute())
        if not (project.directory / ANSWERS_FILE).is_file():
            raise Refusal(
                f"there is no project in {directory}: run this where {ANSWERS_FILE} is, "
                "or say where with --project"
            )
        if not project.source or not project.version:
            raise Refusal(
                f"{ANSWERS_FILE} does not say which version of which template the project "
                "came from: make the project from a git repository, with torch-tricks new"
            )
        return project

    @cached_property
    def answers_file(self) -> bytes:
        return (self.directory / ANSWERS_FILE).read_bytes()

    @cached_property
    def recorded(self) -> dict[str, Any]:
        """What the answers file holds."""
        import yaml

        try:
            answers = yaml.safe_load(self.answers_file)
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            message = " ".join(str(error).split())
            raise Refusal(
                f"{ANSWERS_FILE} cannot be read ({message}): correct it"
            ) from error
        if not isinstance(answers, dict):
            raise Refusal(f"{ANSWERS_FILE} holds no answers: get it back from git")
        return answers

    @property
    def source(self) -> str:
        return str(self.recorded.get("_src_path") or "")

    @property
    def version(self) -> str:
        return str(self.recorded.get("_commit") or "")

    def git(self, *arguments: str | Path, **options: Any) -> str:
        return git(*arguments, cwd=self.directory, **options)

    @cached_property
    def in_git(self) -> bool:
        try:
            return self.git("rev-parse", "--is-inside-work-tree") == "true"
        except GitError:
            return False

    @cached_property
    def git_directory(self) -> Path:
        """Where git has the index of this working tree, and notes of what is unfinished."""
        return Path(self.git("rev-parse", "--absolute-git-dir"))

    @cached_property
    def top(self) -> Path:
        """The root of the repository."""
        return Path(self.git("rev-parse", "--show-toplevel"))

    @cached_property
    def prefix(self) -> str:
        """The way from the root of the repository to the project: empty, or ending in /."""
        return self.git("rev-parse", "--show-prefix")

    @property
    def undo_command(self) -> str:
        """Brings everything in the project back to what is committed."""
        return shlex.join(["git", "-C", str(self.directory), *UNDO])

    def undo(self) -> None:
        """Does what the undo command does."""
        self.git(*UNDO)

    def check_unchanged(self) -> None:
        """Makes sure that git can bring back all that is there now.

        Raises:
            Refusal: something is not committed, or a git command is unfinished.
        """
        if not self.in_git:
            raise Refusal(
                "the project is not in a git repository, so nothing could bring it back: run "
                "git init, git add -A and git commit first"
            )
        for name, command in UNFINISHED.items():
            if (self.git_directory / name).exists():
                raise Refusal(
                    f"a {command} is in progress: finish it, or run git {command} --abort"
                )
        lock = self.git_directory / "index.lock"
        if lock.exists():
            raise Refusal(
                f"git is at work in the project: wait for it, or remove {lock} if it was killed"
            )
        self.check_committed()
        try:
            self.git(
                "rev-parse", "--verify", "--quiet", f"HEAD:{self.prefix}{ANSWERS_FILE}"
            )
        except GitError as error:
            raise Refusal(
                f"{ANSWERS_FILE} is not committed: run git add -f . and git commit first"
            ) from error
        if marked := self.with_markers():
            raise Refusal(
                f"{marked[0]} still has conflict markers: resolve them and commit first"
            )

    def check_committed(self) -> None:
        """Makes sure that no change would be lost.

        Raises:
            Refusal: something is not committed, or not even known to git.
        """
        status = (
            "status",
            "--porcelain",
            "--untracked-files=all",
            "--ignore-submodules=none",
        )
        changed = self.git(*status, "--", ".").splitlines()
        if changed:
            more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
            raise Refusal(
                f"{changed[0][3:]}{more} not committed: run git add -A and git commit, or git "
                "stash -u, first"
            )

    def with_markers(self) -> list[str]:
        """Returns the tracked files that git lists as unmerged, or that hold markers."""
        unmerged = git_bytes("ls-files", "-z", "--unmerged", cwd=self.directory)
        paths = {line.split("\t", 1)[1] for line in nul_separated(unmerged)}
        patterns = [option for marker in MARKERS for option in ("-e", f"^{marker}")]
        command = ("grep", "-z", "--files-with-matches", "-I", *patterns)
        marked = git_bytes(*command, cwd=self.directory, allowed=(0, 1))
        return sorted(paths.union(nul_separated(marked)))

    def check_free(self, paths: Iterable[str]) -> None:
        """Makes sure that nothing that git does not know is at paths that will be written.

        Raises:
            Refusal: something is.
        """
        for path in paths:
            for place in (path, *_parents(path)):
                target = self.directory / place
                in_the_way = os.path.lexists(target) and (
                    place == path or target.is_symlink() or not target.is_dir()
                )
                if in_the_way:
                    raise Refusal(
                        f"{place} is in the way of a file from the template, and git does not "
                        f"track it: move it, or run git add -f {shlex.quote(place)} and "
                        "commit, and run again"
                    )


def _parents(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]
