"""GitHub's workflows and the hooks of commits: minimal rights, and targets that exist."""

import re

import pytest
import yaml
from subsets import ROOT

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([\w-]+):", MAKEFILE, re.MULTILINE))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MAY_WRITE = {
    ("release", "publish"): {"contents": "write"},
    ("site", "example"): {"contents": "write"},
    ("site", "deploy"): {"pages": "write", "id-token": "write"},
}
"""The jobs that publish something. They run no code of the repository."""


def load(path):
    # YAML takes the key `on` for true.
    return yaml.load(path.read_text(encoding="utf-8"), yaml.BaseLoader)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_has_bounds(path):
    workflow = load(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["concurrency"]["group"].startswith(path.stem)
    for name, job in workflow["jobs"].items():
        publishes = MAY_WRITE.get((path.stem, name))
        assert job.get("permissions") == publishes
        assert int(job["timeout-minutes"]) <= 300
        for step in job["steps"]:
            if uses := step.get("uses"):
                assert re.fullmatch(r"actions/[\w-]+@v\d+", uses)
                if uses.startswith("actions/checkout@"):
                    assert step["with"]["persist-credentials"] == "false"
                    assert not publishes
            # What others may name, as a branch, must not become a part of a script.
            assert "${{" not in step.get("run", "")
            for target in re.findall(r"\bmake ([\w-]+)", step.get("run", "")):
                assert target in TARGETS


def test_a_project_uses_the_versions_of_actions_that_this_repository_uses():
    ours = {uses for path in WORKFLOWS for uses in actions(path)}
    theirs = actions(ROOT / "template" / ".github" / "workflows" / "ci.yml")
    assert theirs
    assert theirs <= ours


def actions(path):
    """Returns the actions of a workflow, with their versions."""
    return set(re.findall(r"uses: (\S+)", path.read_text(encoding="utf-8")))


def test_the_tests_run_on_each_python_that_is_promised():
    [matrix] = [
        job["strategy"]["matrix"]
        for job in load(ROOT / ".github" / "workflows" / "test.yml")["jobs"].values()
    ]
    text = (ROOT / "docs" / "proof.md").read_text(encoding="utf-8")
    promised = re.search(r"all of it runs on ([\d.,\s]+ and\s+3\.\d+)", text)[1]
    assert re.findall(r"3\.\d+", promised) == matrix["python"]


def test_commits_are_checked_as_make_lint_checks():
    recipe = re.search(r"^lint:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)[1]
    config = load(ROOT / ".pre-commit-config.yaml")
    hooks = [hook for repo in config["repos"] for hook in repo["hooks"]]
    assert [hook["entry"] for hook in hooks] == [
        line.strip() for line in recipe.splitlines()
    ]
    # Another repository's hooks would be downloaded.
    assert {repo["repo"] for repo in config["repos"]} == {"local"}
