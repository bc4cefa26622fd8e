"""Git commands, and a temporary repository for merges."""

import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch_tricks.errors import Refusal

OF_ANOTHER_REPOSITORY = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
)
"""Variables of git hooks, which would select the wrong repository."""

SETTINGS = {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
"""English messages, and no lock of the index for reading: after a kill, a lock would block the
undo command."""

USAGE = 129
"""Exit code of git for an unknown option."""

FAULTS = ("fatal: ", "error: ")
"""Beginning of git's line with the cause of a failure."""

ISOLATED = {
    "GIT_CONFIG_COUNT": "0",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
}
"""Environment of git without the user's configuration."""

IDENTITY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "torch-tricks"), ("EMAIL", "torch-tricks@localhost"))
}


class GitError(Exception):
    """A git command failed. The message is the cause."""


class Entry(NamedTuple):
    """A file in a tree or in the index."""

    mode: str
    """Type and permissions in octal, such as 100644."""
    oid: str
    """Object ID of the content."""

    @property
    def is_file(self) -> bool:
        return self.mode.startswith("100")


Tree = dict[str, Entry]
"""Files by path, with forward slashes."""


def forget_other_repositories() -> None:
    """Removes environment variables that point git to another repository."""
    for name in OF_ANOTHER_REPOSITORY:
        os.environ.pop(name, None)


def run_git(
    *arguments: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    input: bytes = b"",
    allowed: Iterable[int] = (0,),
) -> subprocess.CompletedProcess[bytes]:
    """Runs git, without the hooks and the file system monitor of the repository.

    Raises:
        GitError: the exit code is not allowed.
        Refusal: git is not installed.
    """
    command = [
        "git",
        "-c",
        f"core.hooksPath={os.devnull}",
        "-c",
        "core.fsmonitor=false",
    ]
    try:
        result = subprocess.run(
            [*command, *map(str, arguments)],
            cwd=cwd,
            env={**os.environ, **SETTINGS, **(env or {})},
            input=input,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError as error:
        if cwd is not None and not cwd.is_dir():
            raise
        raise Refusal("git is not installed: install it and run again") from error
    if result.returncode not in allowed:
        raise GitError(reason(result.stderr.decode(errors="replace")))
    return result


def reason(stderr: str) -> str:
    """Returns the cause and remedy in git's messages as one line."""
    lines = [line.strip() for line in stderr.splitlines()]
    lines = [line for line in lines if line and not line.startswith("hint:")]
    faults = [n for n, line in enumerate(lines) if line.startswith(FAULTS)]
    if faults:
        # The lines up to the next cause explain the first.
        lines = lines[faults[0] : faults[1] if faults[1:] else None]
    line = " ".join(lines) or "git failed"
    return line.removeprefix(FAULTS[0]).removeprefix(FAULTS[1])


def git_bytes(*arguments: str | Path, **options: Any) -> bytes:
    """Runs git like `run_git`, and returns the output as bytes."""
    return run_git(*arguments, **options).stdout


def git(*arguments: str | Path, **options: Any) -> str:
    """Runs git like `run_git`, and returns the output without the last newline."""
    return os.fsdecode(git_bytes(*arguments, **options)).removesuffix("\n")


def quoted(path: Path) -> str:
    """Quotes a path for a colon-separated list of git."""
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def git_names(command: str, *arguments: str, **options: Any) -> list[str]:
    """Runs git like `run_git`, with -z; returns the names or lines of the output."""
    output = git_bytes(command, "-z", *arguments, **options)
    return [os.fsdecode(part) for part in output.split(b"\0") if part]


def read_index(**options: Any) -> Iterator[tuple[str, int, Entry]]:
    """Yields the path and stage of each entry in an index."""
    for line in git_names("ls-files", "--stage", **options):
        about, path = line.split("\t", 1)
        mode, oid, stage = about.split()
        yield path, int(stage), Entry(mode, oid)


def read_tree(commit: str, *paths: str, **options: Any) -> Tree:
    """Returns the files of a commit, below the current folder."""
    lines = git_names("ls-tree", "-r", commit, "--", *paths, **options)
    entries = (line.split("\t", 1) for line in lines)
    return {path: Entry(*about.split()[::2]) for about, path in entries}


def check_not_bare(folder: Path) -> None:
    """Refuses bare repositories, whose configuration may be untrusted.

    A bare repository can be committed as files in another repository. Its configuration could make
    git run programs. A `.git` folder cannot be committed.

    Raises:
        Refusal: the folder is a bare repository, or in one.
    """
    here = folder.resolve()
    for place in (here, *here.parents):
        if (place / ".git").exists():
            return
        if os.path.lexists(place / "HEAD"):
            raise Refusal(
                f"{folder} is in a bare git repository, whose configuration could run programs: "
                "clone that, and use the clone"
            )


class Scratch:
    """A temporary repository to build and merge trees.

    It ignores the user's configuration, so that line endings, signatures, merge drivers and
    identities do not change the result.
    """

    def __init__(self, directory: Path, borrow_from: Path | None = None) -> None:
        """Creates an empty repository in a directory.

        Args:
            directory: existing directory for this repository only.
            borrow_from: repository whose objects are readable from here.
        """
        self.directory = directory / "scratch"
        self.repository = self.directory / "git"
        self.worktree = self.directory / "files"
        self.worktree.mkdir(parents=True)
        self.env = {
            **IDENTITY,
            **ISOLATED,
            "GIT_DIR": str(self.repository),
            "GIT_WORK_TREE": str(self.worktree),
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_LITERAL_PATHSPECS": "1",
            "HOME": str(self.directory),
            "XDG_CONFIG_HOME": str(self.directory),
        }
        options = ["--quiet", "--template="]
        if borrow_from is not None:
            command = ("rev-parse", "--show-object-format", "--git-path", "objects")
            kind, path = git(*command, cwd=borrow_from).split("\n", 1)
            options.append(f"--object-format={kind}")
            self.env["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = quoted(borrow_from / path)
        git("init", *options, env=self.env)

    @property
    def objects(self) -> Path:
        """Directory of the objects of this repository."""
        return self.repository / "objects"

    def git(self, *arguments: str | Path, **options: Any) -> str:
        return git(*arguments, cwd=self.worktree, env=self.env, **options)

    def add_directory(self, directory: Path) -> Tree:
        """Stores the files of a directory, also ignored ones."""
        env = self._with_new_index() | {"GIT_WORK_TREE": str(directory)}
        git("add", "--all", "--force", ".", cwd=directory, env=env)
        return {path: entry for path, _, entry in read_index(cwd=directory, env=env)}

    def write_out(self, files: Tree, directory: Path) -> None:
        """Writes files into a new directory."""
        env = self.with_index_of(files)
        git("checkout-index", "--all", f"--prefix={directory}/", env=env)

    def _with_new_index(self) -> dict[str, str]:
        """Returns the environment variables for git, with an index that is empty."""
        index = self.directory / "index"
        index.unlink(missing_ok=True)
        return {**self.env, "GIT_INDEX_FILE": str(index)}

    def with_index_of(self, files: Tree) -> dict[str, str]:
        """Returns the environment variables for git, with an index of some files."""
        env = self._with_new_index()
        lines = "".join(
            f"{mode} {oid}\t{path}\0" for path, (mode, oid) in files.items()
        )
        git("update-index", "-z", "--index-info", env=env, input=os.fsencode(lines))
        return env

    def _make_tree(self, files: Tree) -> str:
        # A partial clone lacks files that are not checked out.
        return git("write-tree", "--missing-ok", env=self.with_index_of(files))

    def commit(self, files: Tree, *parents: str) -> str:
        """Stores a commit of files; returns its ID."""
        options = [option for parent in parents for option in ("-p", parent)]
        tree = self._make_tree(files)
        return self.git("commit-tree", tree, *options, "-m", "scratch")

    def read(self, entry: Entry) -> bytes:
        """Returns the content of a file."""
        return git_bytes("cat-file", "blob", entry.oid, env=self.env)

    def write(self, content: bytes) -> str:
        """Stores the content of a file; returns its ID."""
        return self.git("hash-object", "-w", "--stdin", input=content)

    def diff(self, before: Tree, after: Tree, color: bool) -> str:
        """Returns the unified diff of a change, with renames."""
        colored = "--color=always" if color else "--color=never"
        trees = (self._make_tree(before), self._make_tree(after))
        return self.git("diff-tree", "-r", "-p", "-M", colored, *trees)

    def renames(self, before: Tree, after: Tree) -> dict[str, str]:
        """Returns the renamed files of a change: old path to new path."""
        if before.keys() <= after.keys():
            return {}
        command = ("diff-tree", "-r", "-M", "--diff-filter=R", "--name-status")
        trees = (self._make_tree(before), self._make_tree(after))
        parts = git_names(*command, *trees, env=self.env)
        return dict(zip(parts[1::3], parts[2::3], strict=True))

    def merge(
        self, base: Tree, ours: Tree, theirs: Tree
    ) -> dict[str, dict[int, Entry]]:
        """Three-way merge; returns the merged index.

        The entries of each path by stage: only 0 after a clean merge, else 1 (base), 2 (ours)
        and 3 (theirs), as far as they exist.
        """
        start = self.commit(base)
        self.git("update-ref", "HEAD", self.commit(ours, start))
        # Nothing is checked out: a project can hold gigabytes of other files.
        self.git("read-tree", "HEAD")
        # New files of the owner do not move, even if neighbouring files move.
        self.git(
            *("-c", "merge.directoryRenames=false"),
            *("merge", "--quiet", "--no-commit", "--no-ff", "-m", "scratch"),
            self.commit(theirs, start),
            allowed=(0, 1),
        )
        merged: dict[str, dict[int, Entry]] = {}
        for path, stage, entry in read_index(cwd=self.worktree, env=self.env):
            merged.setdefault(path, {})[stage] = entry
        return merged

    def merge_file(self, ours: bytes, base: bytes, theirs: bytes) -> tuple[bytes, bool]:
        """Three-way merge of a text file; returns the result, and whether it has conflicts.

        The markers have the labels of Copier, and include the common ancestor.

        Raises:
            GitError: the content is binary.
        """
        labels = ("before updating", "last update", "after updating")
        paths = []
        for label, content in zip(labels, (ours, base, theirs), strict=True):
            paths.append(self.directory / f"merge-file {label}")
            paths[-1].write_bytes(content)
        options = [option for label in labels for option in ("-L", label)]
        # The exit code is the number of conflicts, or 255 for binary content.
        for style in ("--zdiff3", "--diff3"):
            command = ("merge-file", "-p", style, *options, *paths)
            result = run_git(*command, env=self.env, allowed=(*range(128), USAGE))
            # Git before 2.35 has only the second style.
            if result.returncode != USAGE:
                break
        return result.stdout, result.returncode > 0
