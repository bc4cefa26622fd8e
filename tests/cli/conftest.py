"""Templates at a hub, and projects that were made of them."""

import shutil

import copier
import pytest
import versions
from commands import NAME, commit, edit, git
from plumbum import local
from rendering import clones_kept, quick_copier
from torch_tricks.template import PUBLISHED
from versions import Hub


def newer(tree):
    """A version with one trick more, a changed loop, a change in a file without Jinja,
    schedule.py under another name, and a trick that needs another.
    """
    versions.trick(tree)
    versions.rename(tree, "*/optim/schedule.py*", "schedule", "rates")
    edit(tree / "template/train.py.jinja", "Trains a model", "Trains a new model")
    edit(tree / versions.PACKAGE / "files.py.jinja", "Atomic writing", "Whole writing")
    with (tree / "template/{{ trick.l1 }}/row.yml").open("a") as row:
        row.write("needs: [ema]\n")


@pytest.fixture(scope="session")
def hub(tmp_path_factory):
    """The template where `gh:` finds it, in two versions."""
    versions_here = {"v0.1.0": versions.as_it_is, "v0.2.0": newer}
    return Hub(tmp_path_factory.mktemp("versions"), versions_here).directory / "hub"


@pytest.fixture(autouse=True)
def at_the_hub(hub, tmp_path_factory, monkeypatch):
    """Leads `gh:` to the hub, and lets the tool take it for its own template."""
    for key, value in versions.environment(hub, tmp_path_factory.getbasetemp()).items():
        monkeypatch.setenv(key, value)
    monkeypatch.setattr(
        "torch_tricks.template.default_source", lambda: (PUBLISHED, "v0.1.0")
    )
    monkeypatch.setattr(
        "torch_tricks.creating.default_source", lambda: (PUBLISHED, "v0.1.0")
    )
    clones = tmp_path_factory.getbasetemp() / "clones"
    clones.mkdir(exist_ok=True)
    with quick_copier(), clones_kept(clones):
        yield


@pytest.fixture(scope="session")
def fresh(hub, tmp_path_factory):
    """Returns a function that makes a project with Copier alone, each kind once."""
    made = {}

    def make(version="v0.1.0", source=PUBLISHED, **answers):
        key = (version, source, str(answers))
        if key not in made:
            made[key] = tmp_path_factory.mktemp("fresh") / "project"
            data = {"project_name": NAME} | answers
            options = {"vcs_ref": version, "defaults": True, "quiet": True}
            # Plumbum, by which Copier runs git, read the environment when it was imported.
            with local.env(**versions.environment(hub, tmp_path_factory.getbasetemp())):
                copier.run_copy(source, made[key], data, **options)
        return made[key]

    return make


@pytest.fixture
def project(fresh, tmp_path, monkeypatch):
    """Returns a function that makes a committed project and goes there."""

    def make(place="project", **answers):
        directory = tmp_path / place
        shutil.copytree(fresh(**answers), directory)
        git(tmp_path, "init", "--quiet", str(tmp_path if "/" in place else directory))
        commit(directory, "Start")
        monkeypatch.chdir(directory)
        return directory

    return make


@pytest.fixture
def asked(monkeypatch):
    """Somebody takes the default of each prompt; returns the boxes of those shown."""
    asked = {}

    def answer(questions, answers):
        [question] = questions
        if "when" in question and not question["when"](answers):
            return answers
        choices = question.get("choices", ())
        asked[question["name"]] = {choice.value: choice.checked for choice in choices}
        ticked = [choice.value for choice in choices if choice.checked]
        return answers | ({"tricks": ticked} if question["name"] == "tricks" else {})

    monkeypatch.setattr("copier._main.unsafe_prompt", answer)
    monkeypatch.setattr("torch_tricks.cli.can_ask", lambda: True)
    return asked
