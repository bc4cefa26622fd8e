"""A project on disk: its template, its answers, and checks before changes."""

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from tempfile import mkdtemp
from typing import Any

from torch_tricks import preview
from torch_tricks.errors import Refusal
from torch_tricks.git import (
    GitError,
    Tree,
    check_not_bare,
    git,
    git_names,
    read_index,
    read_tree,
)
from torch_tricks.questions import ABOUT_THE_PROJECT, LIST
from torch_tricks.template import ANSWERS_FILE, Rendering, read_answers, render

MARKERS = (
    "<<<<<<< before updating",
    "||||||| last update",
    ">>>>>>> after updating",
)
"""Conflict markers. Copier writes two of them, too."""

UNFINISHED = {
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
}
"""Files in git's directory during an unfinished command, with the command."""


UNDO = ("restore", "--source=HEAD", "--staged", "--worktree", ".")
"""Restores committed files, and removes files that are only in the index."""


@dataclass(frozen=True)
class Project:
    """A project in a directory, which may be part of a larger repository."""

    directory: Path
    package_name: str = ""
    """Current name of its package, if it differs from the recorded name."""
    answers_name: str = ANSWERS_FILE
    """Name of its answers file."""

    @classmethod
    def at(cls, directory: Path) -> "Project":
        """Opens the project in a directory or in a parent, or of an answers file.

        Raises:
            Refusal: there is no project, or its template is not recorded.
        """
        root = find_root(directory)
        if root is None:
            where = "here" if directory == Path() else f"in {directory}"
            raise Refusal(
                f"no {ANSWERS_FILE} {where} or above: cd into a project, or pass --project"
            )
        name = directory.name if directory.is_file() else ANSWERS_FILE
        project = cls(root, answers_name=name)
        if project.recorded.keys().isdisjoint(("preset", "package_name")):
            raise Refusal(
                f"{name} is of another template ({project.source}): pass the answers file of "
                "torch-tricks as --project"
            )
        if not project.source or not project.version:
            raise Refusal(
                f"{name} does not say which version of which template the project "
                "came from: make the project from a git repository, with torch-tricks new"
            )
        return project

    def seen(self, path: str) -> str:
        """Returns a path of the project, relative to the current folder.

        Outside of the project, it stays relative to the project.
        """
        here = Path.cwd()
        if not here.is_relative_to(self.directory):
            return path
        return os.path.relpath(self.directory / path, here)

    @property
    def there(self) -> str:
        """Returns " in ROOT" if the current folder is below the project, else an empty text."""
        root = self.seen(".")
        return "" if root == "." else f" in {root}"

    @cached_property
    def answers_file(self) -> bytes:
        return (self.directory / self.answers_name).read_bytes()

    @cached_property
    def recorded(self) -> dict[str, Any]:
        """Content of the answers file."""
        return read_answers(self.answers_file, self.answers_name)

    @property
    def source(self) -> str:
        return str(self.recorded.get("_src_path") or "")

    @property
    def version(self) -> str:
        return str(self.recorded.get("_commit") or "")

    def render(
        self,
        scratch: Path,
        data: Mapping[str, Any] | None = None,
        *,
        version: str = "",
        ask: Iterable[str] = (),
        check: bool = True,
        files: bool = True,
    ) -> Rendering:
        """Renders the project from its template, in a new folder.

        Args:
            scratch: parent of the new folder.
            data: answers that replace recorded answers.
            version: version that replaces the recorded version.
            ask: questions to prompt for.
            check: whether to refuse recorded answers that the version does not allow.
            files: whether to render files, and not only answers.
        """
        data = data or {}
        if self.package_name:
            data = {"package_name": self.package_name, **data}
        directory = Path(mkdtemp(dir=scratch))
        if not ask:
            wanted = version or self.version
            known = preview.read_version(self.source, wanted, self.directory, scratch)
            given = self.recorded | data
            with suppress(*preview.UNFIT):
                if known:
                    return preview.render(
                        known, self.source, directory, given, files=files
                    )
        (directory / ANSWERS_FILE).write_bytes(self.answers_file)
        rendering = render(
            self.source,
            version or self.version,
            directory,
            data,
            ask=ask,
            project=self.directory,
        )
        if not version:
            self._check_complete(rendering, data)
        if check:
            self._check_answers(rendering, data)
        return rendering

    def _check_complete(self, rendering: Rendering, data: Mapping[str, Any]) -> None:
        """Refuses an answers file with missing answers."""
        recorded = self.recorded.keys() | data.keys()
        if missing := [name for name in rendering.recorded if name not in recorded]:
            raise Refusal(
                f"{self.answers_name} has no {' and no '.join(missing)}: write that into it again, "
                f"as git log -p {self.answers_name} shows it, and commit"
            )

    def _check_answers(self, rendering: Rendering, data: Mapping[str, Any]) -> None:
        """Refuses recorded answers that Copier would replace by defaults."""
        answers = rendering.answers | self.recorded | dict(data)
        rendering.questions.check_preset(answers["preset"])
        if LIST in rendering.recorded:
            rendering.questions.check(answers)
        single = ABOUT_THE_PROJECT.union(rendering.questions.choices)
        for name in rendering.recorded.keys() & single:
            if str(answers[name]) != rendering.answers[name]:
                raise Refusal(
                    f"{name} in {self.answers_name} cannot be {answers[name]}: correct it, or run "
                    f"torch-tricks update --data {name}=..."
                )

    def git(self, *arguments: str | Path, **options: Any) -> str:
        return git(*arguments, cwd=self.directory, **options)

    @cached_property
    def in_git(self) -> bool:
        """Whether the project is in the working tree of a repository.

        Raises:
            GitError: git refuses to read the repository.
            Refusal: the repository is bare.
        """
        check_not_bare(self.directory)
        try:
            return self.git("rev-parse", "--is-inside-work-tree") == "true"
        except GitError as error:
            if str(error).startswith("not a git repository"):
                return False
            raise

    @cached_property
    def git_directory(self) -> Path:
        """Git's directory for this working tree, with its index."""
        return Path(self.git("rev-parse", "--absolute-git-dir"))

    @cached_property
    def top(self) -> Path:
        """Root of the repository."""
        return Path(self.git("rev-parse", "--show-toplevel"))

    @cached_property
    def prefix(self) -> str:
        """Path from the root of the repository to the project: empty, or ending in /."""
        return self.git("rev-parse", "--show-prefix")

    def committed(self) -> Tree:
        """Returns the committed files of the project."""
        return read_tree("HEAD", cwd=self.directory)

    def staged(self) -> Tree:
        """Returns the project's files in git's index."""
        return {path: entry for path, _, entry in read_index(cwd=self.directory)}

    @property
    def undo_command(self) -> str:
        """Command that restores the committed state of the project."""
        return shlex.join(["git", "-C", str(self.directory), *UNDO])

    def undo(self) -> None:
        """Runs the undo command."""
        self.git(*UNDO)

    def check_unchanged(self) -> None:
        """Checks that git can restore the current state of the project.

        Raises:
            Refusal: there are uncommitted changes, or a git command is unfinished.
        """
        if not self.in_git:
            raise Refusal(
                "the project is not in a git repository, so nothing could bring it back: run "
                f"git init, git add -A and git commit first{self.there}"
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
        if marked := self.with_markers():
            path = self.seen(marked[0])
            raise Refusal(
                f"{path} still has conflict markers: resolve them, and run git add -u and "
                "git commit first"
            )
        self.check_committed()
        if self.answers_name not in self.listed():
            raise Refusal(
                f"{self.answers_name} is not committed: run git add, with -f where git ignores "
                "files, and git commit first"
            )

    def check_committed(self) -> None:
        """Checks that tracked files have no uncommitted changes.

        Raises:
            Refusal: a file has uncommitted changes.
        """
        options = ("--untracked-files=no", "--ignore-submodules=untracked")
        command = ("status", "--porcelain", "--no-renames", *options, "--", ".")
        changed = git_names(*command, cwd=self.directory)
        marked = [path for path, letter in self.listed().items() if letter.islower()]
        if marked:
            raise Refusal(_hidden([*map(self.seen, marked)], "assume-unchanged"))
        if changed:
            more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
            # Git prints paths from the root of the repository here.
            path = self.seen(changed[0][3:].removeprefix(self.prefix))
            # A missing file may have been moved to an untracked path.
            gone = any(line[1] == "D" for line in changed)
            moved = " (and git add before it for what you moved)" if gone else ""
            raise Refusal(
                f"{path}{more} not committed: run git commit -a{moved}, or git stash, first"
            )

    def listed(self) -> dict[str, str]:
        """Returns a letter for each tracked file.

        S for skip-worktree, else H; in lower case for assume-unchanged.
        """
        listing = git_names("ls-files", "-v", cwd=self.directory)
        return {line[2:]: line[0] for line in listing}

    def with_markers(self) -> list[str]:
        """Returns tracked files that are unmerged, or that hold conflict markers."""
        unmerged = {p for p, stage, _ in read_index(cwd=self.directory) if stage}
        patterns = [option for marker in MARKERS for option in ("-e", f"^{marker}")]
        command = ("grep", "--files-with-matches", "-I", *patterns)
        marked = git_names(*command, cwd=self.directory, allowed=(0, 1))
        return sorted(unmerged.union(marked))

    def check_can_write(self, changed: Sequence[str], added: Iterable[str]) -> None:
        """Checks that git can restore all files that a change overwrites.

        Args:
            changed: tracked files.
            added: untracked files.

        Raises:
            Refusal: it cannot.
        """
        listing = self.listed()
        for path in changed:
            if listing.get(path) == "S" and not os.path.lexists(self.directory / path):
                raise Refusal(
                    f"{self.seen(path)} would change, and is not here, as the checkout is "
                    "sparse: run git sparse-checkout disable first"
                )
            if listing.get(path) == "S":
                raise Refusal(_hidden([self.seen(path)], "skip-worktree"))
        for path in added:
            in_the_way = [path] if os.path.lexists(self.directory / path) else []
            in_the_way += [
                folder
                for folder in parents(path)
                if not is_free_for_folder(self.directory / folder)
            ]
            if in_the_way:
                seen = self.seen(in_the_way[0])
                raise Refusal(
                    f"{seen} is in the way of a file from the template, and git does not "
                    f"track it: move it, or run git add -f {shlex.quote(seen)} and "
                    "commit, and run again"
                )


def find_root(directory: Path) -> Path | None:
    """Returns the folder of the project around a directory, or of an answers file.

    The search ends at the root of the repository, or at the home directory.
    """
    start = directory.resolve()
    if start.is_file():
        return start.parent
    for folder in (start, *start.parents):
        if (folder / ANSWERS_FILE).is_file():
            return folder
        if folder == Path.home() or (folder / ".git").exists():
            break
    return None


def _hidden(paths: Sequence[str], mark: str) -> str:
    command = shlex.join(["git", "update-index", f"--no-{mark}", *paths])
    return f"git sees no edits in {paths[0]}, which is marked as {mark}: run {command} first"


def is_free_for_folder(path: Path) -> bool:
    """Returns whether a path is a folder, or can become one."""
    return not os.path.lexists(path) or (path.is_dir() and not path.is_symlink())


def parents(path: str) -> list[str]:
    """Returns the parent folders of a file."""
    return [str(parent) for parent in PurePosixPath(path).parents[:-1]]
