"""Prints a version's section of CHANGELOG.md, for the notes of its release.

python tools/release_notes.py 0.2.0
"""

import re
import sys
from pathlib import Path

CHANGELOG = Path(__file__).parents[1] / "CHANGELOG.md"


def notes(changelog: str, version: str) -> str:
    """Returns what stands below a version's heading, up to the next one.

    Raises:
        ValueError: there is no such version, or nothing below its heading.
    """
    pattern = rf"^## {re.escape(version)} - [^\n]*\n+(.*?)(?=^## |\Z)"
    found = re.search(pattern, changelog, re.DOTALL | re.MULTILINE)
    if not found or not found[1].strip():
        raise ValueError(f"CHANGELOG.md has nothing about {version}")
    return found[1].strip() + "\n"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("name the version: python tools/release_notes.py 0.2.0")
    try:
        print(notes(CHANGELOG.read_text(encoding="utf-8"), sys.argv[1]), end="")
    except ValueError as error:
        raise SystemExit(str(error)) from None
