"""Compares plain `copier update` with `torch-tricks update`, and counts the lines that are lost.

PYTHONPATH=tests/support python tools/compare_updates.py 200
"""

import argparse
import tempfile
from collections import Counter
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import copier
from covering import FORMS
from updating import (
    Case,
    Report,
    Workshop,
    form_of,
    lost_lines,
    owner_lines,
    trick_case,
    update_case,
)
from versions import VERSIONS


def plain_update(project: Path, case: Case) -> None:
    """Does with plain Copier what a case's command does."""
    data: dict[str, Any] = {}
    if case.command[0] != "update":
        tricks = sorted(case.tricks - {FORMS})
        form = form_of(case.answers) if FORMS in case.tricks else "none"
        data = {"preset": "custom", FORMS: form, "tricks": tricks}
    copier.run_update(
        project, data, vcs_ref=case.new, defaults=True, overwrite=True, quiet=True
    )


def compare(workshop: Workshop, number: int) -> None:
    """Prints what plain Copier and torch-tricks lose in the same cases."""
    random, pairs = Random(0), list(combinations(VERSIONS, 2))
    totals: Counter[str] = Counter()
    for case_number in range(number):
        seed, edits = random.randrange(2**32), random.randint(1, 12)
        # Every other one changes the tricks.
        if case_number % 2:
            case = trick_case(seed, edits)
        else:
            case = update_case(*random.choice(pairs), seed, edits)
        project = workshop.project(case.old, case.answers)
        project.edit(case.edits)
        mine, plain = project.files(), workshop.copy(project)
        report = project.torch_tricks(*case.command)
        assert report.exit_code in (0, 1), report.errors
        plain_update(plain.path, case)
        lost = lost_lines(mine, project.files(), report)
        plain_lost = lost_lines(mine, plain.files(), Report(0, ""))
        totals.update(
            {
                "cases": 1,
                "lines of owners": len(owner_lines(mine)),
                "lines that plain Copier lost": len(plain_lost),
                "cases in which plain Copier lost lines": bool(plain_lost),
                "lines that torch-tricks lost": len(lost),
                "cases in which torch-tricks lost lines": bool(lost),
                "files kept aside": len(report.kept_aside),
                "cases with files kept aside": bool(report.kept_aside),
                "files renamed": len(report.renamed),
                "files with conflicts": len(report.names("conflict")),
            }
        )
        workshop.remove(project)
        workshop.remove(plain)
    for what, total in totals.items():
        print(f"{total:8,} {what}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", type=int)
    cases = parser.parse_args().cases
    with tempfile.TemporaryDirectory() as directory:
        workshop = Workshop(Path(directory))
        with workshop.at_hand():
            compare(workshop, cases)


if __name__ == "__main__":
    main()
