"""Writes the recommended project of each task, to be read without an installation: make example.

A workflow publishes them as the branch `example`, which GitHub shows.
"""

import shutil
from pathlib import Path

from address import ADDRESS
from torch_tricks import preview
from torch_tricks.catalogue import choices_of, own_questions
from torch_tricks.questions import TASK
from torch_tricks.template import PUBLISHED
from write_page import version_here

ROOT = Path(__file__).parents[1]


def write(directory: Path, version: str) -> list[str]:
    """Writes a project of each task, and a README beside them; returns the tasks.

    Args:
        version: a tag or commit, which the projects record.
    """
    template = preview.own_files_as(version)
    tasks = list(choices_of(own_questions()[TASK]))
    for task in tasks:
        given = {"project_name": "Leaf Diseases", TASK: task}
        preview.render(template, PUBLISHED, directory / task, given, new=True)
    lines = [
        "# Example projects",
        "",
        f"What [torch-tricks]({ADDRESS}) {version} makes with the preset `recommended`, for each",
        "task. `train.py` is the training loop. Make your own with the tricks that you choose;",
        "pull requests belong to the template.",
        "",
        *(f"- [{task}]({task}): its [train.py]({task}/train.py)" for task in tasks),
        "",
    ]
    (directory / "README.md").write_text("\n".join(lines), encoding="utf-8")
    return tasks


def main() -> None:
    directory = ROOT / "build/example"
    shutil.rmtree(directory, ignore_errors=True)
    print(f"{directory}: {', '.join(write(directory, version_here()))}")


if __name__ == "__main__":
    main()
