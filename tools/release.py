"""Checks whether a version can be released; docs/releasing.md has the rules.

make release-check VERSION=0.2.0
"""

import ast
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import copier
import yaml
from address import ADDRESS, is_published
from rendering import PACKAGE, PROJECT
from subsets import ROOT
from torch_tricks.catalogue import read_catalogue, read_questions
from torch_tricks.questions import Questions
from versions import git

BY_HAND, CHECKPOINTS = "To do by hand", "Checkpoints"
SECTIONS = (BY_HAND, CHECKPOINTS, "Added", "Changed", "Removed", "Fixed")
"""The headings that the entry of a version may have, in this order."""
PRESETS = ("minimal", "recommended", "everything")

Version = tuple[int, int, int]


@dataclass(frozen=True)
class Entry:
    """A version's part of the changelog."""

    version: str
    date: str
    """A day, or `unreleased`."""
    sections: dict[str, str]


def read_changelog(text: str) -> list[Entry]:
    """Returns the entries of a changelog, the newest first.

    Raises:
        ValueError: it does not have the form that docs/releasing.md lays down.
    """
    entries = []
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        pattern = r"(\d+\.\d+\.\d+) - (\d{4}-\d\d-\d\d|unreleased)"
        if not (match := re.fullmatch(pattern, heading)):
            raise ValueError(f"the heading {heading!r} is not like 1.2.0 - 2031-05-17")
        sections = {}
        for section in re.split(r"^### ", body, flags=re.MULTILINE)[1:]:
            title, _, content = section.partition("\n")
            sections[title] = content.strip()
        known = [title for title in SECTIONS if title in sections]
        if list(sections) != known or not all(sections.values()):
            raise ValueError(
                f"{match[1]} may have, filled and in this order: {', '.join(SECTIONS)}"
            )
        entries.append(Entry(match[1], match[2], sections))
    versions = [parse(entry.version) for entry in entries]
    if versions != sorted(set(versions), reverse=True):
        raise ValueError("the versions do not go down from the newest")
    return entries


def parse(version: str) -> Version:
    major, minor, patch = version.removeprefix("v").split(".")
    return int(major), int(minor), int(patch)


def step(old: Version, new: Version) -> str:
    """Names what went up. Before 1.0.0, the second number stands in for the first."""
    if new[0] != old[0] or (new[0] == 0 and new[1] != old[1]):
        return "major"
    return "minor" if new[1] != old[1] else "patch"


@dataclass(frozen=True)
class Surface:
    """The interface that owners rely on: a project with everything, in one version."""

    files: frozenset[str]
    flags: frozenset[str]
    questions: frozenset[str]
    tricks: frozenset[str]
    checkpoint_format: int


def surface(template: Path, project: Path) -> Surface:
    """Renders a project with everything, and reads what its owner relies on.

    Args:
        template: a version of the template, outside of git.
        project: where the project goes.
    """
    answers = PROJECT | {"preset": "everything"}
    copier.run_copy(str(template), project, answers, defaults=True, quiet=True)
    files = {
        path.relative_to(project).as_posix()
        for path in project.rglob("*")
        if path.is_file()
    }
    settings = ast.parse((project / PACKAGE / "settings.py").read_text("utf-8"))
    fields = {
        node.target.id
        for node in ast.walk(settings)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    [checkpoint] = (project / PACKAGE).rglob("checkpoint.py")
    text = checkpoint.read_text("utf-8")
    [number] = re.findall(r"^FORMAT = (\d+)$", text, re.MULTILINE)
    raw = read_questions(template)
    questions = Questions({name: row for name, row in raw.items() if name[0] != "_"})
    return Surface(
        frozenset(files),
        frozenset(fields),
        frozenset(questions.asked),
        frozenset(names_in_answers(raw)),
        int(number),
    )


def names_in_answers(questions: Mapping[str, Any]) -> Iterator[str]:
    """Yields what the answers of a project may hold: names of tricks, and their forms."""
    for name, trick in read_catalogue(questions).items():
        yield name
        yield from (f"{name}={form}" for form in trick.choices)


def lost_names(root: Path) -> Iterator[str]:
    """Yields the tricks of each released version that the working tree no longer has.

    Whatever number goes up: Copier forgets the whole list of a project that has one.
    """
    known = set(names_in_answers(read_questions(root)))
    for tag in released(root):
        with tempfile.TemporaryDirectory() as directory:
            extract(root, tag, Path(directory))
            names = [*names_in_answers(read_questions(Path(directory)))]
        for name in names:
            if name not in known:
                known.add(name)
                yield (
                    f"{tag} has the trick {name}, and projects may have it in their "
                    "answers: a name stays for good"
                )


def extract(root: Path, ref: str, directory: Path) -> None:
    """Writes the template as it is at a tag or commit."""
    archive = subprocess.run(
        ["git", "-C", root, "archive", ref, "copier.yml", "template"],
        capture_output=True,
        check=True,
    )
    subprocess.run(["tar", "-x", "-C", directory], input=archive.stdout, check=True)


def bump_problems(
    old: Surface, new: Surface, went_up: str, entry: Entry
) -> Iterator[str]:
    """Yields what the number or the changelog leaves unsaid about a change."""
    gone = [
        *sorted(old.files - new.files),
        *(f"--{flag.replace('_', '-')}" for flag in sorted(old.flags - new.flags)),
        *(f"the question {name}" for name in sorted(old.questions - new.questions)),
    ]
    if gone and went_up != "major":
        yield f"{', '.join(gone)} went away: that takes a new major version"
    if gone and BY_HAND not in entry.sections:
        yield f"{', '.join(gone)} went away: CHANGELOG.md needs a section {BY_HAND!r}"
    if old.checkpoint_format != new.checkpoint_format:
        if went_up != "major":
            yield "older checkpoints are refused: that takes a new major version"
        if CHECKPOINTS not in entry.sections:
            yield f"older checkpoints are refused: CHANGELOG.md needs {CHECKPOINTS!r}"
    if went_up == "patch" and (
        new.flags - old.flags
        or new.questions - old.questions
        or new.tricks - old.tricks
    ):
        yield "there are new flags, questions or tricks: that takes a new minor version"


def stated_problems(root: Path, version: str) -> Iterator[str]:
    """Yields where the files and the tags disagree with the version."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    if project["version"] != version:
        yield f"pyproject.toml says {project['version']}, not {version}"
    try:
        newest = read_changelog((root / "CHANGELOG.md").read_text("utf-8"))[0]
    except ValueError as error:
        yield f"CHANGELOG.md: {error}"
    else:
        if newest.version != version:
            yield f"CHANGELOG.md begins with {newest.version}, not {version}"
        elif newest.date == "unreleased":
            yield f"CHANGELOG.md has no date for {version}"
    if git(root, "status", "--porcelain"):
        yield "there are uncommitted changes: commit or stash them"
    tags = released(root)
    if f"v{version}" in tags:
        if git(root, "rev-list", "-1", f"v{version}") != git(root, "rev-parse", "HEAD"):
            yield f"the tag v{version} is on another commit: take a new version"
    elif tags and parse(tags[-1]) > parse(version):
        yield f"{tags[-1]} is out already: take a higher version"


def origin_problems(root: Path) -> Iterator[str]:
    """Yields why projects would be made from another repository than this clone's own."""
    command = ["git", "-C", root, "remote", "get-url", "origin"]
    found = subprocess.run(command, capture_output=True, check=False, encoding="utf-8")
    if found.returncode:
        yield (
            "this clone has no remote called origin, so nobody can tell whose repository "
            f"the wheel would use: git remote add origin {ADDRESS}"
        )
    elif not is_published(url := found.stdout.strip()):
        # There may be a password in it, which no log should show.
        shown = re.sub(r"//[^/@]*@", "//", url)
        yield (
            f"the wheel would make projects from {ADDRESS}, but origin is {shown}: "
            "docs/releasing.md says how to move the address"
        )


def released(root: Path) -> list[str]:
    """Returns the tags of versions, the newest last."""
    tags = re.findall(r"^v\d+\.\d+\.\d+$", git(root, "tag"), re.MULTILINE)
    return sorted(tags, key=parse)


def update_problems(
    root: Path,
    old: str,
    version: str,
    directory: Path,
    presets: Sequence[str] = PRESETS,
) -> Iterator[str]:
    """Updates untouched projects from an old tag, and yields how they differ from new ones."""
    candidate = directory / "candidate"
    git(directory, "clone", "--quiet", root, candidate)
    git(candidate, "tag", "--force", f"v{version}")
    for preset in presets:
        updated, fresh = directory / f"{preset}-updated", directory / f"{preset}-fresh"
        source = ("--template", candidate, "--ref")
        choice = ("--preset", preset, "--name", "Leaf Diseases")
        torch_tricks("new", updated, *source, old, *choice)
        git(updated, "init", "--quiet")
        git(updated, "add", "--all")
        git(updated, "commit", "--quiet", "--message=Start")
        torch_tricks("update", "--to", f"v{version}", "--project", updated)
        # An answer that was a default stays what it was when the default moves.
        recorded = yaml.safe_load((updated / ".copier-answers.yml").read_text("utf-8"))
        answers = [f"--data={k}={v}" for k, v in recorded.items() if k[0] != "_"]
        torch_tricks("new", fresh, *source, f"v{version}", *answers)
        # It compares all files, and would compare git's own.
        shutil.rmtree(updated / ".git")
        result = subprocess.run(
            ["git", "diff", "--no-index", "--stat", fresh, updated],
            capture_output=True,
            check=False,
            encoding="utf-8",
        )
        if result.returncode:
            yield f"{preset}, updated from {old}, is not a fresh copy:\n{result.stdout}"


def torch_tricks(*arguments: object) -> None:
    """Runs the command line of this checkout."""
    command = [sys.executable, "-m", "torch_tricks", *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, check=False, encoding="utf-8")
    if result.returncode:
        raise SystemExit(f"{' '.join(command[2:])}: {result.stderr or result.stdout}")


def main() -> None:
    """Prints each problem, and ends with 1 if there is any, with 2 on a bad version."""
    version = sys.argv[1] if len(sys.argv) == 2 else ""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        print("name the version: make release-check VERSION=1.2.0", file=sys.stderr)
        raise SystemExit(2)
    problems = [
        *origin_problems(ROOT),
        *stated_problems(ROOT, version),
        *lost_names(ROOT),
    ]
    older = [tag for tag in released(ROOT) if parse(tag) < parse(version)]
    if not older:
        print("no earlier version is tagged: there is nothing to update from")
    elif not problems:
        with tempfile.TemporaryDirectory() as name:
            problems = list(compared_problems(older[-1], version, Path(name)))
    for problem in problems:
        print(problem)
    if problems:
        raise SystemExit(1)
    print(f"{version} agrees with pyproject.toml, CHANGELOG.md, the tags and origin")


def compared_problems(old: str, version: str, directory: Path) -> Iterator[str]:
    """Yields what is wrong between the last version and the candidate."""
    surfaces = []
    for ref in (old, "HEAD"):
        template = directory / ref / "template-of-version"
        template.mkdir(parents=True)
        extract(ROOT, ref, template)
        surfaces.append(surface(template, directory / ref / "project"))
    entry = read_changelog((ROOT / "CHANGELOG.md").read_text("utf-8"))[0]
    yield from bump_problems(*surfaces, step(parse(old), parse(version)), entry)
    yield from update_problems(ROOT, old, version, directory)


if __name__ == "__main__":
    main()
