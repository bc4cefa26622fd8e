"""State of the code: its commit, and a patch of the changes since.

https://git-scm.com/docs/git-diff
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).parents[1]
PACKAGE = Path(__file__).parent.name
LARGEST = 2**20
"""Bytes of a new file in a patch at most."""
DIFF = (
    "diff",
    *("--binary", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames"),
    *("--no-relative", "--unified=3", "--inter-hunk-context=0", "--full-index"),
    *("--submodule=short", "--ignore-submodules=none"),
    *("--src-prefix=a/", "--dst-prefix=b/"),
)
"""Patches that `git apply` reads, and that are equal for all users and repositories."""


def describe_code() -> tuple[str | None, str, bytes]:
    """Returns the commit, the place of the project in its repository, and a patch.

    The patch has the changes since the commit, and small new files. A line is printed
    about what it lacks, and if there is no commit, which is None then.
    """
    try:
        new = new_code()
        code, missing = read_code(new), [*missing_code(new)]
    except (OSError, subprocess.CalledProcessError) as error:
        print(
            "the code is not saved, so repeat.py cannot train again: before the next run, "
            f"commit the project with git ({explain(error)})"
        )
        return None, "", b""
    for line in missing:
        print(f"not saved for repeat.py: {line}")
    return code


def read_code(new: list[str], since: str = "HEAD") -> tuple[str, str, bytes]:
    """Returns commit, place, and a patch since a commit; or raises what git raises.

    Args:
        new: files that git does not track, of which the patch has the small ones.
        since: the commit before the changes.
    """
    names = "HEAD", "--show-prefix", "--git-path", "index"
    commit, place, index, _ = os.fsdecode(git("rev-parse", *names)).split("\n")
    small = [name for name in new if size_of(name) <= LARGEST]
    with tempfile.TemporaryDirectory() as directory:
        # In a copy of git's index, so that the repository stays as it is. By the time of
        # the index, git knows which files may have changed in the same second.
        aside = Path(directory) / "index"
        shutil.copy2(PROJECT / index, aside)
        if small:
            # By standard input, as there may be too many names for a command.
            add = "--literal-pathspecs", "add", "--intent-to-add"
            read = "--pathspec-from-file=-", "--pathspec-file-nul"
            git(*add, *read, index=aside, given=os.fsencode("\0".join(small)))
        return commit, place, git(*DIFF, since, index=aside)


def missing_code(new: list[str]) -> Iterator[str]:
    """Yields a line about large new files, and one about ignored code: no patch has it."""
    if large := [name for name in new if size_of(name) > LARGEST]:
        yield f"new files above 1 MB, such as {min(large)}: commit them"
    if ignored := untracked("--ignored", "--", "train.py", f"{PACKAGE}/*.py"):
        yield f"code that git ignores, such as {min(ignored)}: change .gitignore"


def new_code() -> list[str]:
    """Returns the new files of the package, and others of Python and TOML."""
    return untracked("--", f"{PACKAGE}/", "*.py", "*.toml")


def untracked(*options: str) -> list[str]:
    """Returns files that git does not track: not ignored ones, or only these."""
    names = git("ls-files", "--others", "--exclude-standard", "-z", *options)
    return os.fsdecode(names).split("\0")[:-1]


def size_of(name: str) -> int:
    """Returns the bytes of a file of the project."""
    return (PROJECT / name).lstat().st_size


def git(*arguments: str, index: Path | None = None, given: bytes = b"") -> bytes:
    """Runs git in the project, and returns what it prints."""
    return subprocess.run(
        ["git", "-c", "core.quotePath=true", *arguments],
        cwd=PROJECT,
        env=os.environ | ({"GIT_INDEX_FILE": str(index)} if index else {}),
        input=given,
        capture_output=True,
        check=True,
    ).stdout


def explain(error: OSError | subprocess.CalledProcessError) -> str:
    """Returns git's message in one line, or why git did not start."""
    if isinstance(error, OSError):
        return str(error)
    return " ".join(error.stderr.decode(errors="replace").split())
