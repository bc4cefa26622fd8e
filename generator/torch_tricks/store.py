"""Template versions in git: in a repository on this disk, or in the user's cache.

Git reads them from a repository of torch-tricks. The configuration of another repository may be
untrusted, and make git run programs.
"""

import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple
from urllib.parse import urlsplit

from torch_tricks.git import ISOLATED, git, git_bytes, quoted, read_tree

HUBS = {"gh:": "https://github.com/", "gl:": "https://gitlab.com/"}
"""Copier's short addresses of hubs."""

REMOTE = ("git@", "git://", "git+", *HUBS.values())
"""Prefixes of other git addresses."""

TAGS = "+refs/tags/*:refs/tags/*"
BRANCHES = "+refs/heads/*:refs/heads/*"


class File(NamedTuple):
    """A file of a template, as stored."""

    content: bytes
    executable: bool = False


def files_in(directory: Path) -> dict[str, File]:
    """Reads the files of a folder, by relative path with forward slashes."""
    return {
        path.relative_to(directory).as_posix(): File(
            path.read_bytes(), bool(path.stat().st_mode & 0o100)
        )
        for path in sorted(directory.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def address_of(source: str) -> str | None:
    """Returns the git address of a template, or None for a path."""
    for hub, url in HUBS.items():
        if source.startswith(hub):
            source = url + source.removeprefix(hub).removeprefix("/")
            return source if source.endswith(".git") else f"{source}.git"
    if not (source.startswith(REMOTE) or source.endswith(".git")):
        return None
    if source.startswith("git+"):
        return source.removeprefix("git+")
    ends = source.endswith(".git") or not source.startswith("https://")
    return source if ends else f"{source}.git"


class Store:
    """A repository of torch-tricks with the versions of one template.

    Args:
        repository: directory, which is created at the first write.
        env: environment variables for git.
    """

    def __init__(self, repository: Path, **env: str) -> None:
        self.repository = repository
        self.env = ISOLATED | {"GIT_DIR": str(repository)} | env

    @classmethod
    def of_folder(cls, folder: Path, scratch: Path) -> "Store":
        """Opens a repository on this disk, and reads its objects in place.

        Raises:
            GitError: the folder is not a repository.
        """
        objects = folder / git("rev-parse", "--git-path", "objects", cwd=folder)
        store = cls(
            Path(mkdtemp(dir=scratch)), GIT_ALTERNATE_OBJECT_DIRECTORIES=quoted(objects)
        )
        store.fetch(str(folder.absolute()), store.env)
        return store

    @classmethod
    def of_address(cls, address: str) -> "Store":
        """Opens the cached copy of a remote repository, which may be empty."""
        from platformdirs import user_cache_path

        parts = urlsplit(address)
        # Without user name and password.
        known = address.replace(parts.netloc, parts.netloc.rpartition("@")[2], 1)
        name = hashlib.sha256(known.encode(errors="surrogateescape")).hexdigest()
        folder = user_cache_path("torch-tricks", appauthor=False) / "templates"
        return cls(folder / f"{name}.git")

    def fetch(self, address: str, env: Mapping[str, str] | None = None) -> None:
        """Fetches the current state of a repository.

        Args:
            env: environment variables for git. Default: the user's configuration.

        Raises:
            GitError: the repository cannot be reached, or the cache cannot be written.
        """
        with suppress(OSError):
            self.repository.parent.mkdir(parents=True, exist_ok=True)
        git("init", "--quiet", "--bare", "--template=", env=self.env)
        command = ("fetch", "--quiet", "--force", "--prune", "--no-tags", "--", address)
        env = env or {"GIT_DIR": str(self.repository)}
        git(*command, TAGS, BRANCHES, cwd=self.repository, env=env)

    def tags(self) -> dict[str, str]:
        """Returns the objects of the stored tags, by name."""
        if not self.repository.is_dir():
            return {}
        command = ("for-each-ref", "--format=%(refname:strip=2) %(objectname)")
        listing = git(*command, "refs/tags", env=self.env)
        return dict(line.split(" ") for line in listing.splitlines())

    def find(self, version: str) -> str | None:
        """Returns the commit of a tag or of a description by git; None if it is not stored.

        Branches are not supported, as they move.
        """
        if not self.repository.is_dir() or re.search(r"[\s^~:@{]", version):
            return None
        names = [f"refs/tags/{version}"]
        if re.fullmatch(r"(.*-\d+-g)?[0-9a-f]{7,64}", version):
            names.append(version)
        wanted = "".join(f"{name}^{{commit}}\n" for name in names).encode()
        command = ("cat-file", "--batch-check=%(objectname)")
        found = git(*command, env=self.env, input=wanted).splitlines()
        return next(
            (oid for oid in found if re.fullmatch("[0-9a-f]{40,64}", oid)), None
        )

    def describe(self, commit: str) -> str:
        """Returns the description of a commit by git, as Copier records it."""
        return git("describe", "--tags", "--always", commit, env=self.env)

    def files(self, commit: str) -> dict[str, File] | None:
        """Returns `copier.yml` and the files of the template.

        None if the commit has links or submodules, or if files are missing, as in a partial clone.
        """
        tree = read_tree(commit, "copier.yml", "template", env=self.env)
        if not {mode for mode, _ in tree.values()} <= {"100644", "100755"}:
            return None
        oids = "".join(f"{entry.oid}\n" for entry in tree.values()).encode()
        stored = git_bytes("cat-file", "--batch", env=self.env, input=oids)
        files, start = {}, 0
        for path, (mode, _) in tree.items():
            # Format: a line with ID, type and size, then the content and a newline.
            end = stored.index(b"\n", start)
            about = stored[start:end].split()
            if len(about) < 3:
                return None
            start, size = end + 1, int(about[2])
            files[path] = File(stored[start : start + size], mode == "100755")
            start += size + 1
        return files
