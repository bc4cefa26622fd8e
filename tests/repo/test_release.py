"""The rules for releases: the changelog's form, and what a candidate is refused for."""

import sys
import tomllib
from dataclasses import replace

import pytest
import release
from address import ADDRESS, REPOSITORY, is_published
from commands import commit, copy_questions
from release import Entry, Surface, read_changelog
from release_notes import notes
from subsets import ROOT
from versions import NEW_TRICK, git

CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
BEFORE = Surface(
    frozenset({"train.py", "leaf_diseases/optim/swa.py"}),
    frozenset({"lr", "swa_lr"}),
    frozenset({"preset", "tricks"}),
    frozenset({"amp", "swa"}),
    checkpoint_format=1,
)
NOTHING = Entry("1.0.0", "unreleased", {})
EXPLAINED = Entry("1.0.0", "unreleased", {"To do by hand": "-", "Checkpoints": "-"})


def test_the_changelog_has_its_form_and_begins_with_this_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert read_changelog(CHANGELOG)[0].version == project["version"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("## 0.1\n", "is not like"),
        ("## 0.1.0\n", "is not like"),
        ("## 0.1.0 - soon\n", "is not like"),
        ("## 0.1.0 - unreleased\n### New\n- x\n", "in this order"),
        ("## 0.1.0 - unreleased\n### Added\n", "filled"),
        ("## 0.1.0 - unreleased\n### Fixed\n- x\n### Added\n- x\n", "in this order"),
        ("## 0.1.0 - unreleased\n## 0.2.0 - 2031-05-17\n", "do not go down"),
        ("## 0.1.0 - unreleased\n## 0.1.0 - 2031-05-17\n", "do not go down"),
    ],
)
def test_a_changelog_of_another_form_is_refused(text, sentence):
    with pytest.raises(ValueError, match=sentence):
        read_changelog(f"# Changelog\n\n{text}")


def test_the_notes_of_a_release_are_its_section():
    text = "# Changelog\n\n## 0.10.0 - 2031-05-17\n\nNew.\n\n### Added\n\n- x\n\n"
    text += "## 0.1.0 - 2031-01-01\n\n### Added\n\n- y\n"
    assert notes(text, "0.10.0") == "New.\n\n### Added\n\n- x\n"
    assert notes(text, "0.1.0") == "### Added\n\n- y\n"
    for version in ("0.2.0", "0.1", "0.1.00"):
        with pytest.raises(ValueError, match=f"nothing about {version}"):
            notes(text, version)
    newest = read_changelog(CHANGELOG)[0]
    assert all(part in notes(CHANGELOG, newest.version) for part in newest.sections)


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("0.1.0", "0.1.1", "patch"),
        ("0.1.9", "0.2.0", "major"),
        ("0.9.0", "1.0.0", "major"),
        ("1.0.0", "1.0.1", "patch"),
        ("1.0.9", "1.1.0", "minor"),
        ("1.9.0", "2.0.0", "major"),
    ],
)
def test_what_went_up(old, new, name):
    assert release.step(release.parse(old), release.parse(new)) == name


MORE = {"flags": {"lr", "swa_lr", "clip_norm"}}
ANOTHER = {"tricks": {"amp", "swa", "sign"}}
BUMPS = [
    ({}, "patch", NOTHING, []),
    (MORE, "minor", NOTHING, []),
    (MORE, "patch", NOTHING, ["new minor"]),
    ({"files": {"train.py"}}, "major", EXPLAINED, []),
    ({"files": {"train.py"}}, "minor", EXPLAINED, ["leaf_diseases/optim/swa.py went"]),
    ({"flags": {"lr"}}, "minor", NOTHING, ["--swa-lr went", "'To do by hand'"]),
    ({"questions": {"preset"}}, "patch", EXPLAINED, ["the question tricks went"]),
    (ANOTHER, "minor", NOTHING, []),
    (ANOTHER, "patch", NOTHING, ["or tricks: that takes"]),
    ({"checkpoint_format": 2}, "major", EXPLAINED, []),
    ({"checkpoint_format": 2}, "major", NOTHING, ["needs 'Checkpoints'"]),
    ({"checkpoint_format": 2}, "minor", EXPLAINED, ["new major version"]),
]


@pytest.mark.parametrize(("change", "went_up", "entry", "problems"), BUMPS)
def test_a_bump_that_is_too_small_is_refused(change, went_up, entry, problems):
    found = list(
        release.bump_problems(BEFORE, replace(BEFORE, **change), went_up, entry)
    )
    assert len(found) == len(problems)
    assert all(part in problem for part, problem in zip(problems, found, strict=True))


def test_what_owners_rely_on_is_read_from_the_template(workshop):
    before, after = (
        release.surface(workshop.hub.tree(version), workshop.directory / version)
        for version in ("v0.1.1", "v1.0.0")
    )
    assert before.files - after.files == {
        ".github/workflows/ci.yml",
        "leaf_diseases/optim/schedule.py",
        "leaf_diseases/optim/swa.py",
        "tests/optim/test_swa.py",
    }
    assert after.flags - before.flags == {"sign_scale"}
    asked = {"project_name", "task", "package_name", "description", "author"}
    assert before.questions == asked | {"preset", "parallel", "tricks"}
    assert after.questions == before.questions
    assert after.tricks - before.tricks == {NEW_TRICK}
    assert before.tricks > {"swa", "parallel", "parallel=ddp"}
    assert after.checkpoint_format == before.checkpoint_format + 1


def test_a_released_name_of_a_trick_never_changes():
    assert list(release.lost_names(ROOT)) == []


@pytest.mark.parametrize(
    ("trick", "old", "new", "lost"),
    [
        ("swa", "swa", "weight_averaging", "swa"),
        ("parallel", "[dp, ddp, fsdp]", "[dp, ddp, fsdp2]", "parallel=fsdp"),
    ],
)
def test_a_name_that_has_changed_is_refused(trick, old, new, lost, tmp_path):
    """Also many versions later, and once for all of them."""
    copy_questions(tmp_path)
    git(tmp_path, "init", "--quiet")
    for tag in ("v0.1.0", "v0.2.0"):
        git(tmp_path, "add", "--all")
        git(tmp_path, "commit", "--quiet", "--allow-empty", f"--message={tag}")
        git(tmp_path, "tag", tag)
    assert list(release.lost_names(tmp_path)) == []
    for name in ("copier.yml", f"template/{{{{ trick.{trick} }}}}/row.yml"):
        path = tmp_path / name
        path.write_text(path.read_text("utf-8").replace(old, new), "utf-8")
    git(tmp_path, "commit", "--quiet", "--all", "--message=v0.3.0")
    git(tmp_path, "tag", "v0.3.0")
    [problem] = release.lost_names(tmp_path)
    assert problem.startswith(f"v0.1.0 has the trick {lost}, ")


@pytest.fixture
def candidate(tmp_path):
    """A repository of version 0.2.0 after a release of 0.1.0."""
    git(tmp_path, "init", "--quiet")
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "0.1.0"\n')
    commit(tmp_path)
    git(tmp_path, "tag", "v0.1.0")
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "0.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(
        "## 0.2.0 - 2031-05-17\n\n### Added\n\n- x\n"
    )
    commit(tmp_path)
    return tmp_path


def test_a_candidate_that_agrees_with_itself(candidate):
    assert list(release.stated_problems(candidate, "0.2.0")) == []
    git(candidate, "tag", "v0.2.0")
    assert list(release.stated_problems(candidate, "0.2.0")) == []


@pytest.mark.parametrize(
    ("name", "old", "new", "problem"),
    [
        ("pyproject.toml", "0.2.0", "0.1.0", "pyproject.toml says 0.1.0"),
        ("CHANGELOG.md", "0.2.0", "0.3.0", "CHANGELOG.md begins with 0.3.0"),
        ("CHANGELOG.md", "2031-05-17", "unreleased", "no date"),
        ("CHANGELOG.md", "### Added", "### News", "CHANGELOG.md: 0.2.0 may have"),
    ],
)
def test_a_candidate_that_does_not(candidate, name, old, new, problem):
    text = (candidate / name).read_text()
    (candidate / name).write_text(text.replace(old, new))
    found = list(release.stated_problems(candidate, "0.2.0"))
    assert len(found) == 2
    assert problem in found[0]
    assert "uncommitted" in found[1]


def test_a_candidate_whose_version_is_taken(candidate):
    git(candidate, "tag", "v0.2.0", "v0.1.0")
    [problem] = release.stated_problems(candidate, "0.2.0")
    assert "another commit" in problem
    git(candidate, "tag", "v0.3.0", "v0.1.0")
    git(candidate, "tag", "--delete", "v0.2.0")
    [problem] = release.stated_problems(candidate, "0.2.0")
    assert "v0.3.0 is out already" in problem


@pytest.mark.parametrize(
    ("url", "published"),
    [
        (ADDRESS, True),
        (f"{ADDRESS}.git", True),
        (f"{ADDRESS.upper()}/", True),
        (f"https://token@github.com/{REPOSITORY}.git", True),
        (f"git@github.com:{REPOSITORY}.git", True),
        (f"ssh://git@github.com/{REPOSITORY}", True),
        ("https://github.com/somebody/torch-tricks", False),
        (f"https://github.com.example.org/{REPOSITORY}", False),
        (f"https://example.org/github.com/{REPOSITORY}", False),
        (f"{ADDRESS}-fork", False),
        (f"/somewhere/{REPOSITORY}", False),
    ],
)
def test_only_the_published_repository_has_these_urls(url, published):
    assert is_published(url) == published


@pytest.mark.parametrize(
    ("origin", "problem"),
    [
        ("https://me:secret@github.com/somebody/torch-tricks", "https://github.com/so"),
        ("", f"git remote add origin {ADDRESS}"),
        (ADDRESS, ""),
    ],
)
def test_a_clone_of_another_repository_is_refused(
    origin, problem, tmp_path, monkeypatch, capsys
):
    """Its wheel would make projects from a template that is not its own."""
    git(tmp_path, "clone", "--quiet", "--shared", ROOT, "clone")
    clone = tmp_path / "clone"
    git(clone, "remote", "remove", "origin")
    if origin:
        git(clone, "remote", "add", "origin", origin)
    monkeypatch.setattr(release, "ROOT", clone)
    monkeypatch.setattr(sys, "argv", ["release.py", "0.0.1"])
    # There is no such version to release.
    with pytest.raises(SystemExit):
        release.main()
    lines = capsys.readouterr().out.splitlines()
    named = [line for line in lines if "origin" in line]
    assert len(named) == bool(problem)
    assert problem in "".join(named)
    assert "secret" not in "".join(lines)


@pytest.mark.proof
def test_a_candidate_is_updated_to(workshop, tmp_path, monkeypatch):
    work = workshop.hub.directory / "work"
    arguments = (work, "v0.1.0", "1.0.0")
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.mkdir()
    assert list(release.update_problems(*arguments, good, ["minimal"])) == []

    def edit_too(*command, run=release.torch_tricks):
        run(*command)
        if command[0] == "update":
            (bad / "minimal-updated" / "train.py").write_text("")

    monkeypatch.setattr(release, "torch_tricks", edit_too)
    bad.mkdir()
    [problem] = release.update_problems(*arguments, bad, ["minimal"])
    assert "minimal, updated from v0.1.0, is not a fresh copy" in problem
    assert "train.py" in problem


@pytest.mark.parametrize("version", ["", "v0.1.0", "0.1", "0.1.0rc1"])
def test_a_version_that_is_none_is_refused_in_one_line(version, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["release.py", version])
    with pytest.raises(SystemExit) as ended:
        release.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "name the version: make release-check VERSION=1.2.0\n"
    )
