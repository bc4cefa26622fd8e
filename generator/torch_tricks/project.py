"""A project on disk: where it came from, and whether it can be changed safely."""

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from tempfile import mkdtemp
from typing import Any

from torch_tricks import preview
from torch_tricks.errors import Refusal
from torch_tricks.git import (
    Entry,
    GitError,
    Scratch,
    Tree,
    check_not_bare,
    git,
    git_bytes,
    nul_separated,
)
from torch_tricks.questions import ABOUT_THE_PROJECT, LIST
from torch_tricks.template import ANSWERS_FILE, Rendering, read_answers, render

MARKERS = (
    "<<<<<<< before updating",
    "||||||| last update",
    ">>>>>>> after updating",
)
"""The lines around a conflict, and before the common ancestor; Copier writes two of them, too."""

UNFINISHED = {
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
}
"""Files in git's directory while one of its commands waits to be continued, with the command."""


UNDO = ("restore", "--source=HEAD", "--staged", "--worktree", ".")
"""Brings back what is committed, and removes what only the index has."""


@dataclass(frozen=True)
class Project:
    """A directory that holds a project, which may be a part of a larger repository."""

    directory: Path
    package_name: str = ""
    """The name that its package has now, if it is another one than the recorded."""

    @classmethod
    def at(cls, directory: Path) -> "Project":
        """Opens the project that is in a directory, or that the directory is in.

        Raises:
            Refusal: there is none, or it does not say where it came from.
        """
        root = find_root(directory)
        if root is None:
            where = "here" if directory == Path() else f"in {directory}"
            raise Refusal(
                f"no {ANSWERS_FILE} {where} or above: cd into a project, or pass --project"
            )
        project = cls(root)
        if not project.source or not project.version:
            raise Refusal(
                f"{ANSWERS_FILE} does not say which version of which template the project "
                "came from: make the project from a git repository, with torch-tricks new"
            )
        return project

    def seen(self, path: str) -> str:
        """Returns a path in the project as it is from where the user stands.

        Outside of the project, which was named then, it stays as it is.
        """
        here = Path.cwd()
        if not here.is_relative_to(self.directory):
            return path
        return os.path.relpath(self.directory / path, here)

    @property
    def there(self) -> str:
        """Says where the project is, if the user stands in a folder of it."""
        root = self.seen(".")
        return "" if root == "." else f" in {root}"

    @cached_property
    def answers_file(self) -> bytes:
        return (self.directory / ANSWERS_FILE).read_bytes()

    @cached_property
    def recorded(self) -> dict[str, Any]:
        """The content of the answers file."""
        return read_answers(self.answers_file)

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
        """Renders the project as the template gives it, in a new folder in another one.

        Args:
            scratch: the other folder.
            data: answers that are other ones than the recorded.
            version: a version that is another one than the recorded.
            ask: questions to ask.
            check: whether to refuse recorded answers that the version does not allow.
            files: whether files are wanted, and not only answers.
        """
        data = data or {}
        if self.package_name:
            data = {"package_name": self.package_name, **data}
        directory = Path(mkdtemp(dir=scratch))
        if not ask:
            wanted = version or self.version
            known = preview.read_version(self.source, wanted, self.directory, scratch)
            given = self.recorded | data
            found = known and preview.render(
                known, self.source, directory, given, files
            )
            if found:
                return found
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
        """Refuses an answers file without answers that its version of the template records."""
        recorded = self.recorded.keys() | data.keys()
        if missing := [name for name in rendering.recorded if name not in recorded]:
            raise Refusal(
                f"{ANSWERS_FILE} has no {' and no '.join(missing)}: write that into it again, as "
                f"git log -p {ANSWERS_FILE} shows it, and commit"
            )

    def _check_answers(self, rendering: Rendering, data: Mapping[str, Any]) -> None:
        """Refuses recorded answers that Copier has forgotten, to take the default."""
        answers = rendering.answers | self.recorded | dict(data)
        rendering.questions.check_preset(answers["preset"])
        if LIST in rendering.recorded:
            rendering.questions.check(answers)
        single = ABOUT_THE_PROJECT.union(rendering.questions.choices)
        for name in rendering.recorded.keys() & single:
            if str(answers[name]) != rendering.answers[name]:
                raise Refusal(
                    f"{name} in {ANSWERS_FILE} cannot be {answers[name]}: correct it, or run "
                    f"torch-tricks update --data {name}=..."
                )

    def git(self, *arguments: str | Path, **options: Any) -> str:
        return git(*arguments, cwd=self.directory, **options)

    @cached_property
    def in_git(self) -> bool:
        """Whether it is in the working tree of a repository.

        Raises:
            GitError: it may be, but git does not want to read it.
            Refusal: the repository is a bare one.
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

    def committed(self, scratch: Scratch) -> Tree:
        """Returns the project's files as committed, by a scratch repository that reads them."""
        prefix = self.prefix.rstrip("/")
        return scratch.files(self.git("rev-parse", f"HEAD:{prefix}"))

    def staged(self) -> Tree:
        """Returns the project's files as git's index has them."""
        listing = git_bytes("ls-files", "--stage", "-z", cwd=self.directory)
        entries = (line.split("\t", 1) for line in nul_separated(listing))
        return {path: Entry(*about.split()[:2]) for about, path in entries}

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
        try:
            self.git(
                "rev-parse", "--verify", "--quiet", f"HEAD:{self.prefix}{ANSWERS_FILE}"
            )
        except GitError as error:
            raise Refusal(
                f"{ANSWERS_FILE} is not committed: run git add, with -f where git ignores files, "
                "and git commit first"
            ) from error

    def check_committed(self) -> None:
        """Makes sure that no change of a file that git tracks would be lost.

        Raises:
            Refusal: something is not committed.
        """
        options = ("--untracked-files=no", "--ignore-submodules=untracked", "-z")
        command = ("status", "--porcelain", "--no-renames", *options, "--", ".")
        changed = nul_separated(git_bytes(*command, cwd=self.directory))
        marked = [path for path, letter in self.listed().items() if letter.islower()]
        if marked:
            raise Refusal(_hidden([*map(self.seen, marked)], "assume-unchanged"))
        if changed:
            more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
            # Here git names it from the root of the repository.
            path = self.seen(changed[0][3:].removeprefix(self.prefix))
            # What is gone may have been moved to where git does not know it yet.
            gone = any(line[1] == "D" for line in changed)
            moved = " (and git add before it for what you moved)" if gone else ""
            raise Refusal(
                f"{path}{more} not committed: run git commit -a{moved}, or git stash, first"
            )

    def listed(self) -> dict[str, str]:
        """Returns a letter for each file that git tracks.

        S if it is marked as skip-worktree, else H; in lower case if as assume-unchanged.
        """
        listing = nul_separated(git_bytes("ls-files", "-v", "-z", cwd=self.directory))
        return {line[2:]: line[0] for line in listing}

    def with_markers(self) -> list[str]:
        """Returns the tracked files that git lists as unmerged, or that hold markers."""
        unmerged = git_bytes("ls-files", "-z", "--unmerged", cwd=self.directory)
        paths = {line.split("\t", 1)[1] for line in nul_separated(unmerged)}
        patterns = [option for marker in MARKERS for option in ("-e", f"^{marker}")]
        command = ("grep", "-z", "--files-with-matches", "-I", *patterns)
        marked = git_bytes(*command, cwd=self.directory, allowed=(0, 1))
        return sorted(paths.union(nul_separated(marked)))

    def check_can_write(self, changed: Sequence[str], added: Iterable[str]) -> None:
        """Makes sure that git knows all that a change of files will overwrite.

        Args:
            changed: files that git tracks.
            added: files that it does not.

        Raises:
            Refusal: it does not.
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
            for place in (path, *parents(path)):
                target = self.directory / place
                in_the_way = (
                    os.path.lexists(target)
                    if place == path
                    else not is_free_for_folder(target)
                )
                if in_the_way:
                    seen = self.seen(place)
                    raise Refusal(
                        f"{seen} is in the way of a file from the template, and git does not "
                        f"track it: move it, or run git add -f {shlex.quote(seen)} and "
                        "commit, and run again"
                    )


def find_root(directory: Path) -> Path | None:
    """Returns the folder of the project that a directory is in, if there is one.

    It is looked for up to the root of the repository, or the home directory.
    """
    start = directory.resolve()
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
    """Tells whether a folder is there, or can be made there."""
    return not os.path.lexists(path) or (path.is_dir() and not path.is_symlink())


def parents(path: str) -> list[str]:
    """Returns the folders that a file is in."""
    return [str(parent) for parent in PurePosixPath(path).parents[:-1]]
