"""Templates at a hub, and projects that were made of them."""

import shutil

import copier
import pytest
import versions
from commands import NAME, SOURCE, begin, commit, edit, git
from plumbum import local
from rendering import clones_kept, quick_copier


@pytest.fixture(scope="session")
def hub(tmp_path_factory):
    """The template where `gh:` finds it: v0.1.0 as it is here, and v0.2.0.

    The second has one trick more, a changed loop, a change in a file without Jinja, and
    schedule.py under another name.
    """
    work = tmp_path_factory.mktemp("work")
    begin(work)
    versions.trick(work)
    versions.rename(work, "*/optim/schedule.py*", "schedule", "rates")
    package = work / "template" / "{{ package_name }}"
    loop = work / "template" / "train.py.jinja"
    loop.write_text(loop.read_text().replace("Trains a model", "Trains a new model"))
    edit(package / "files.py.jinja", "Atomic writing", "Whole writing")
    commit(work)
    git(work, "tag", "v0.2.0")
    hub = tmp_path_factory.mktemp("hub")
    bare = hub / versions.REPOSITORY
    git(hub, "clone", "--quiet", "--bare", str(work), str(bare))
    return hub


@pytest.fixture(scope="session")
def strict(hub, tmp_path_factory):
    """Another template at the hub, in the second version of which tricks bind each other."""
    work = tmp_path_factory.mktemp("strict")
    begin(work)
    for name, binding in (
        ("swa", "needs: [amp]"),
        ("mixup", "excludes: [accumulation]"),
        ("prefetcher", "forms: [ddp, fsdp]"),
    ):
        row = work / "template" / f"{{{{ trick.{name} }}}}" / "row.yml"
        row.write_text(f"{row.read_text()}{binding}\n")
    commit(work)
    git(work, "tag", "v0.2.0")
    bare = hub / versions.REPOSITORY.replace("torch-tricks", "strict-tricks")
    git(hub, "clone", "--quiet", "--bare", str(work), str(bare))
    return SOURCE.replace("torch-tricks", "strict-tricks")


@pytest.fixture(autouse=True)
def at_the_hub(hub, tmp_path_factory, monkeypatch):
    """Leads `gh:` to the hub, and lets the tool take it for its own template."""
    for key, value in versions.environment(hub, tmp_path_factory.getbasetemp()).items():
        monkeypatch.setenv(key, value)
    monkeypatch.setattr(
        "torch_tricks.template.default_source", lambda: (SOURCE, "v0.1.0")
    )
    monkeypatch.setattr(
        "torch_tricks.creating.default_source", lambda: (SOURCE, "v0.1.0")
    )
    clones = tmp_path_factory.getbasetemp() / "clones"
    clones.mkdir(exist_ok=True)
    with quick_copier(), clones_kept(clones):
        yield


@pytest.fixture(scope="session")
def fresh(hub, tmp_path_factory):
    """Returns a function that makes a project with Copier alone, each kind once."""
    made = {}

    def make(version="v0.1.0", source=SOURCE, **answers):
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
