"""Sections of Markdown files."""

import re


def section(text: str, heading: str) -> str:
    """Returns what stands below a heading of the second level, or an empty text.

    Args:
        heading: a regular expression that the whole heading matches.
    """
    pattern = rf"^## {heading}\n+(.*?)(?=^## |\Z)"
    match = re.search(pattern, text, re.DOTALL | re.MULTILINE)
    return match[1].strip() + "\n" if match and match[1].strip() else ""
