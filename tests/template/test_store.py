"""The versions of templates that are kept, and what their addresses are."""

import os
from copy import deepcopy

import pytest
import yaml
from blocks import File
from commands import commit, git
from torch_tricks.catalogue import own_questions
from torch_tricks.errors import Refusal
from torch_tricks.git import GitError
from torch_tricks.preview import complete, from_files, own_version
from torch_tricks.store import Store, address_of


@pytest.mark.parametrize(
    "source",
    [
        "gh:org/torch-tricks",
        "gh:/org/torch-tricks.git",
        "gl:group/template",
        "git@host:org/template",
        "git://host/template",
        "git+https://host/template",
        "git+ssh://git@host/template.git",
        "https://github.com/org/template",
        "https://gitlab.com/group/template.git",
        "https://host/template",
        "host:template.git",
        "folder/template.git",
        "folder/template",
        ".",
    ],
)
def test_addresses_are_those_of_copier(source, tmp_path, monkeypatch):
    from copier._vcs import get_repo

    monkeypatch.chdir(tmp_path)
    assert address_of(source) == get_repo(source)


@pytest.fixture
def repository(tmp_path):
    """A template with two versions."""
    folder = tmp_path / "template repository"
    (folder / "template").mkdir(parents=True)
    (folder / "copier.yml").write_text("a: 1\n")
    (folder / "template" / "é\n.txt").write_text("text")
    (folder / "template" / "run.sh").write_text("")
    (folder / "template" / "run.sh").chmod(0o755)
    git(folder, "init", "--quiet")
    commit(folder)
    git(folder, "tag", "v1")
    git(folder, "tag", "--annotate", "v1.1", "--message", "annotated")
    return folder


@pytest.fixture(params=["folder", "address"])
def store(request, repository, tmp_path, monkeypatch):
    if request.param == "folder":
        return Store.of_folder(repository, tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    store = Store.of_address(repository.as_uri())
    assert store.find("v1") is None and store.tags() == {}
    store.fetch(repository.as_uri())
    return store


def test_it_has_the_files_of_a_version(store):
    files = store.files(store.find("v1"))
    assert files.keys() == {"copier.yml", "template/é\n.txt", "template/run.sh"}
    assert files["template/é\n.txt"] == (b"text", False)
    assert files["template/run.sh"] == (b"", True)


def test_versions_are_tags_and_commits_and_no_branches(store, repository):
    commit = git(repository, "rev-parse", "HEAD").strip()
    for version in ("v1", "v1.1", commit, commit[:7], f"v1-0-g{commit[:9]}"):
        assert store.find(version) == commit
    for version in ("v2", "HEAD", "main", "master", "--all", "v1\nv1", "v1^{tree}"):
        assert store.find(version) is None
    assert store.tags().keys() == {"v1", "v1.1"}
    assert store.describe(commit) in ("v1", "v1.1")


def test_a_moved_tag_is_fetched_again(repository, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    store, address = Store.of_address(repository.as_uri()), repository.as_uri()
    store.fetch(address)
    (repository / "copier.yml").write_text("a: 2\n")
    commit(repository)
    git(repository, "tag", "--force", "v1")
    git(repository, "tag", "--delete", "v1.1")
    store.fetch(address)
    assert store.files(store.find("v1"))["copier.yml"].content == b"a: 2\n"
    assert store.find("v1.1") is None


def test_links_are_left_to_copier(repository, tmp_path):
    os.symlink("run.sh", repository / "template" / "link")
    commit(repository)
    store = Store.of_folder(repository, tmp_path)
    assert store.files(git(repository, "rev-parse", "HEAD").strip()) is None


def test_a_cache_that_cannot_be_written_is_an_error(repository, tmp_path):
    (tmp_path / "file").write_text("")
    store = Store(tmp_path / "file" / "store.git")
    with pytest.raises(GitError):
        store.fetch(repository.as_uri())
    assert store.find("v1") is None


@pytest.mark.parametrize(
    ("name", "entry", "value"),
    [
        ("author", "when", "{{ preset == 'minimal' }}"),
        ("author", "secret", True),
        ("description", "multiselect", True),
        ("tricks", "validator", "no"),
        ("preset", "validator", "no"),
    ],
)
def test_questions_that_are_asked_in_another_way_are_left_to_copier(
    name, entry, value, tmp_path
):
    raw = deepcopy(own_questions())
    everything = complete(own_version(), {"preset": "custom"}, new=tmp_path)
    given = {name: everything[name] for name in own_version().questions.asked}
    raw[name] |= {"help": "In other words"}
    assert complete(from_files(stored(raw), "v1"), given) == everything
    raw[name] |= {entry: value}
    if version := from_files(stored(raw), "v1"):
        with pytest.raises(Refusal):
            complete(version, given)


def stored(raw, *paths):
    files = {"copier.yml": File(yaml.safe_dump(raw, sort_keys=False).encode())}
    return files | {f"template/{path}": File(b"text") for path in paths}


def test_what_is_excluded_is_in_no_project(tmp_path):
    raw = own_questions() | {"_exclude": ["/left", "/out.txt"]}
    version = from_files(stored(raw, "left/a.txt", "out.txt", "kept/out.txt"), "v1")
    answers = complete(version, {"preset": "minimal"}, new=tmp_path)
    project = version.render(answers)
    assert project.keys() == {"kept/out.txt"}


@pytest.mark.parametrize("excluded", [["*.md"], ["/left", "/a*"], ["a"], None])
def test_patterns_are_left_to_copier(excluded):
    assert from_files(stored(own_questions() | {"_exclude": excluded}), "v1") is None


def test_a_version_with_missing_files_is_left_to_copier(repository, tmp_path):
    store = Store.of_folder(repository, tmp_path)
    oid = git(repository, "rev-parse", "v1:copier.yml").strip()
    (repository / ".git" / "objects" / oid[:2] / oid[2:]).unlink()
    assert store.files(store.find("v1")) is None


def test_compiled_templates_are_kept_until_their_text_changes(tmp_path, monkeypatch):
    """Also those of a clone, whose versions all have their own text."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    name, questions = "template/a.txt.jinja", stored(own_questions())
    for text, is_compiled in (("preset", True), ("preset", False), ("task", True)):
        files = questions | {name: File(f"{{{{ {text} }}}}".encode())}
        version, compiled = from_files(files, "v1"), []
        compile_one = version.environment.compile

        def noted(source, name=None, *rest, todo=compile_one, noted=compiled):
            noted.append(name)
            return todo(source, name, *rest)

        monkeypatch.setattr(version.environment, "compile", noted)
        answers = complete(version, {"preset": "minimal"}, new=tmp_path)
        assert version.render(answers)["a.txt"][0].decode() == answers[text]
        assert (name in compiled) == is_compiled
