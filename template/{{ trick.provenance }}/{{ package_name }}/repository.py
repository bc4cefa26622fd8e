"""State of the code: its commit, and a patch of the changes since.

https://git-scm.com/docs/git-diff
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

PROJECT = Path(__file__).parents[1]
LARGEST = 2**20
"""Bytes of a new file in a patch at most."""
DIFF = (
    "diff",
    *("--binary", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames"),
    *("--no-relative", "--unified=3", "--submodule=short", "--ignore-submodules=none"),
    *("--src-prefix=a/", "--dst-prefix=b/"),
)
"""Patches that `git apply` reads, whatever the user has configured."""


def describe_code() -> tuple[str | None, str, bytes]:
    """Returns the commit, the place of the project in its repository, and a patch.

    The patch has the changes since the commit, and small new files. Without a commit, or
    if git cannot read them, the commit is None, and a line is printed.
    """
    try:
        return read_code()
    except (OSError, subprocess.CalledProcessError) as error:
        print(
            "the commit of the code is not known, so repeat.py cannot train again: commit "
            f"the project with git before the next run ({explain(error)})"
        )
    return None, "", b""


def read_code(since: str = "HEAD") -> tuple[str, str, bytes]:
    """Returns commit, place, and a patch since a commit; or raises what git raises."""
    names = "HEAD", "--show-prefix", "--git-path", "index"
    commit, place, index, _ = os.fsdecode(git("rev-parse", *names)).split("\n")
    new = git("ls-files", "--others", "--exclude-standard", "-z").split(b"\0")[:-1]
    small = [name for name in new if is_small_code(PROJECT / os.fsdecode(name))]
    with tempfile.TemporaryDirectory() as directory:
        # In a copy of git's index, so that the repository stays as it is. By the time of
        # the index, git knows which files may have changed in the same second.
        aside = Path(directory) / "index"
        shutil.copy2(PROJECT / index, aside)
        if small:
            # By standard input, as there may be too many names for a command.
            add = "--literal-pathspecs", "add", "--intent-to-add"
            read = "--pathspec-from-file=-", "--pathspec-file-nul"
            git(*add, *read, index=aside, given=b"\0".join(small))
        patch = git(*DIFF, since, index=aside)
    left = {*new} - {*small}
    if since == "HEAD" and left:
        print(
            f"provenance without {len(left):,} new files, such as "
            f"{os.fsdecode(min(left))}: only .py and .toml of up to 1 MB are saved"
        )
    return commit, place, patch


def is_small_code(path: Path) -> bool:
    """Returns whether a new file belongs into a patch."""
    return path.suffix in (".py", ".toml") and path.lstat().st_size <= LARGEST


def git(*arguments: str, index: Path | None = None, given: bytes = b"") -> bytes:
    """Runs git in the project, and returns what it prints."""
    return subprocess.run(
        ["git", *arguments],
        cwd=PROJECT,
        env=os.environ | ({"GIT_INDEX_FILE": str(index)} if index else {}),
        input=given,
        capture_output=True,
        check=True,
    ).stdout


def explain(error: OSError | subprocess.CalledProcessError) -> str:
    """Returns the first line of git's message, or why it did not start."""
    if isinstance(error, OSError):
        return str(error)
    return error.stderr.decode(errors="replace").strip().partition("\n")[0]
