"""A repository of git with a project, for tests."""

import subprocess
from pathlib import Path

OWNER = "-c", "user.name=owner", "-c", "user.email=owner@example.com"


def git(place: Path, *arguments: str) -> str:
    command = ["git", "-C", str(place), *OWNER, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def make_project(work: Path) -> Path:
    """Makes a project with a commit, in a folder of its repository."""
    place = work / "project"
    place.mkdir(parents=True)
    (place / "train.py").write_text("1\n2\n3\n4\nold\n6\n7\n8\n9\n", encoding="utf-8")
    (place / ".gitignore").write_text("ignored.py\n", encoding="utf-8")
    git(work, "init", "--quiet")
    git(place, "add", ".")
    git(place, "commit", "--quiet", "--message", "first")
    return place
