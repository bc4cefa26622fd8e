"""Renders random answers at two commits, and compares the projects byte for byte.

Run python tools/compare_commits.py OLD NEW, after a change that must not change any project.
"""

import argparse
import json
import random
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[1]

RENDER = """
import hashlib, json, sys
from rendering import render_files, template_copy
for answers in json.load(sys.stdin):
    files = {p: t.replace(str(template_copy()), "") for p, t in render_files(answers).items()}
    print(json.dumps({p: hashlib.sha256(t.encode()).hexdigest() for p, t in files.items()}))
"""
"""Prints the digests of each project, from the code of the commit itself."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commits", nargs=2, metavar="COMMIT")
    parser.add_argument("--answers", type=int, default=300, metavar="NUMBER")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    answers = random_answers(options.answers, random.Random(options.seed))
    old, new = (digests(commit, answers) for commit in options.commits)
    differing = [
        (each, sorted(name for name in {*a, *b} if a.get(name) != b.get(name)))
        for each, a, b in zip(answers, old, new, strict=True)
        if a != b
    ]
    for each, names in differing[:5]:
        print(f"{json.dumps(each)}\n    {', '.join(names)}")
    print(f"{len(answers) - len(differing)} of {len(answers)} projects are equal")
    sys.exit(bool(differing))


def random_answers(number: int, source: random.Random) -> list[dict[str, Any]]:
    """Returns answers of all tasks, forms and presets, in turn."""
    from torch_tricks.errors import Refusal
    from torch_tricks.preview import own_version

    questions = own_version().questions
    tasks, forms = questions.choices["task"], questions.choices["parallel"]
    found: list[dict[str, Any]] = []
    while len(found) < number:
        preset = questions.presets[len(found) % len(questions.presets)]
        answers = {"task": source.choice(tasks), "preset": preset}
        if preset == "custom":
            answers["parallel"] = source.choice(forms)
            share = source.random()
            listed = [name for name in questions.listable if source.random() < share]
            # Without what does not go together: the first that is refused is left out.
            while True:
                try:
                    questions.check({**answers, "tricks": listed})
                    break
                except Refusal as error:
                    listed.remove(str(error).split()[0])
            answers["tricks"] = listed
        found.append(answers)
    return found


def digests(commit: str, answers: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Returns the digests of all files of each project at a commit."""
    with TemporaryDirectory() as tree:
        archive = subprocess.run(
            ["git", "archive", commit], cwd=ROOT, check=True, stdout=subprocess.PIPE
        )
        subprocess.run(["tar", "-x", "-C", tree], input=archive.stdout, check=True)
        paths = ":".join(f"{tree}/{n}" for n in ("tests/support", "tools", "generator"))
        done = subprocess.run(
            [sys.executable, "-c", RENDER],
            input=json.dumps(answers),
            env={"PYTHONPATH": paths, "PATH": ""},
            cwd=tree,
            check=True,
            text=True,
            stdout=subprocess.PIPE,
        )
    return [json.loads(line) for line in done.stdout.splitlines()]


if __name__ == "__main__":
    main()
