"""Where the repository is published: the one address, and what follows from it.

The constant is `PUBLISHED` of the command line, as it decides whose template a project is
made from. Everything else that names the repository agrees with it; a test says so.
"""

import re

from torch_tricks.template import PUBLISHED

REPOSITORY = PUBLISHED.removeprefix("gh:")
"""The owner and the name."""
ADDRESS = f"https://github.com/{REPOSITORY}"
OWNER, NAME = REPOSITORY.split("/")
SITE = f"https://{OWNER.lower()}.github.io/{NAME}/"
"""Where GitHub Pages shows the site."""


def is_published(url: str) -> bool:
    """Whether a remote's URL, in any form that git takes, is the published repository."""
    pattern = (
        r"(?:gh:|https://(?:[^/@]*@)?github\.com/|git@github\.com:"
        r"|(?:ssh|git\+ssh)://git@github\.com/)(?P<path>[^/]+/[^/]+?)(?:\.git)?/?"
    )
    match = re.fullmatch(pattern, url, re.IGNORECASE)
    return bool(match) and match["path"].lower() == REPOSITORY.lower()
