"""Colours and emphasis, for a terminal only."""

import os
import sys

LOUD = ("conflict", "kept aside", "missing")
"""How the lines begin that the owner must not overlook."""


def colored() -> bool:
    """Tells whether the output may have colours (see no-color.org)."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not plain


def emphasized(line: str) -> str:
    """Returns a line about a file, in red if the owner must look at it."""
    return f"\033[31m{line}\033[m" if colored() and line.startswith(LOUD) else line
