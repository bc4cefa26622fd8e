"""Colours of the output in a terminal."""

import os
import sys

LOUD = ("conflict", "kept aside", "missing")
"""Beginnings of lines that need the owner's attention."""


def colored() -> bool:
    """Returns whether the output may have colours (see no-color.org)."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not plain


def emphasized(line: str) -> str:
    """Returns a line about a file, in red if it needs the owner's attention."""
    return f"\033[31m{line}\033[m" if colored() and line.startswith(LOUD) else line
