"""The repository has one address: whatever names it names the same one."""

import re

from address import OWNER
from subsets import ROOT
from versions import git

NAMED = re.compile(
    r"(?:(?:gh:|github\.com[/:])(?P<owner>[\w.-]+)|(?P<host>[\w-]+)\.github\.io)"
    r"/torch-tricks\b"
)
SOMEBODY = "somebody"
"""The owner of a copy that tests show refused."""


def test_every_file_names_the_published_repository():
    owners = {}
    for name in git(ROOT, "ls-files").splitlines():
        if (ROOT / name).is_file():
            text = (ROOT / name).read_text(encoding="utf-8", errors="ignore")
            for match in NAMED.finditer(text):
                # GitHub Pages has it in small letters.
                owner = (match["owner"] or match["host"]).lower()
                owners.setdefault(owner, set()).add(name)
    owners.pop(SOMEBODY, None)
    assert owners.keys() == {OWNER.lower()}, owners
    # Who reads these installs something, or reports it.
    assert {"README.md", "CONTRIBUTING.md", "SECURITY.md"} <= owners[OWNER.lower()]
