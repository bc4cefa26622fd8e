"""The projects that are published to be read."""

import re

import write_example
import yaml
from rendering import render
from subsets import TASKS
from torch_tricks.template import PUBLISHED


def test_they_are_the_recommended_projects_of_all_tasks(tmp_path):
    directory = tmp_path / "example"
    assert write_example.write(directory, "v9.9.9") == [*TASKS]
    text = (directory / "README.md").read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\((.+?)\)", text) if ":" not in link]
    assert links == [f"{task}{end}" for task in TASKS for end in ("", "/train.py")]
    for task in TASKS:
        assert (directory / task / "train.py").is_file()
        wanted = render(tmp_path / task, {"preset": "recommended", "task": task})
        for path in wanted.rglob("*"):
            if path.is_file() and path.name != ".copier-answers.yml":
                place = path.relative_to(wanted)
                assert (directory / task / place).read_bytes() == path.read_bytes()
        answers = (directory / task / ".copier-answers.yml").read_text(encoding="utf-8")
        recorded = yaml.safe_load(answers)
        assert (recorded["_src_path"], recorded["_commit"]) == (PUBLISHED, "v9.9.9")
