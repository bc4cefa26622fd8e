"""Rendering with Copier, and versions of the template.

Only this module uses Copier. It is imported on first use, as that takes a quarter of a second.
`pyproject.toml` pins its minor version, and a test runs with the newest version, for these
undocumented parts:

- `answers.combined` and `template.questions_data` of the worker that `copier.run_copy` returns;
- the first words of its errors, which identify refusals;
- its use of plumbum to run git, with a directory and an environment of its own.
"""

import json
import os
import re
import tomllib
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import chdir, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import distribution
from pathlib import Path
from shutil import copyfile
from tempfile import gettempdir
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from torch_tricks.catalogue import own_file, with_catalogue
from torch_tricks.errors import Refusal
from torch_tricks.git import GitError, check_not_bare, git, reason
from torch_tricks.questions import LIST, Questions
from torch_tricks.store import Store, address_of

ANSWERS_FILE = ".copier-answers.yml"
PUBLISHED = "gh:org/torch-tricks"

DIRTY = (
    "the template has changes that are not committed, and this version of it cannot be found "
    "again: commit them and make the project anew before you rely on updates"
)
"""Note about a clone with changes."""

UNWRITABLE = "[\0\ud800-\udc7f\udd00-\udfff]"
"""Characters that are valid in YAML, but not in command arguments."""


@dataclass(frozen=True)
class Rendering:
    """A project as rendered, without edits."""

    directory: Path
    answers: dict[str, Any]
    """Answers to all questions, including computed questions."""
    recorded: dict[str, Any]
    """Content of its answers file."""
    questions: Questions
    notes: list[str]
    """Notes for the user, one line each."""

    @property
    def version(self) -> str:
        """Tag or description of a commit. Empty: outside of git."""
        return str(self.recorded.get("_commit") or "")

    @property
    def release(self) -> Any:
        """The version in comparable form, or None without a release."""
        tag, commits = re.fullmatch(
            r"(.*?)(?:-(\d+)-g[0-9a-f]+)?", self.version
        ).groups()
        return as_release(f"{tag}.post{commits}" if commits else tag)

    @property
    def tricks(self) -> list[str]:
        """The tricks of the project, in the order of the catalogue."""
        return list(self.answers["chosen"])

    @property
    def installation(self) -> str:
        """The command that installs its dependencies."""
        if "uv" in self.tricks:
            return "uv sync --extra cpu --extra dev    # or cu126, cu130, rocm"
        return 'pip install -e ".[dev]"'

    @property
    def dependencies(self) -> list[str]:
        """The requirements in its pyproject.toml, if the template has one."""
        with suppress(OSError, ValueError, LookupError, TypeError):
            text = (self.directory / "pyproject.toml").read_text(encoding="utf-8")
            return [*map(str, tomllib.loads(text)["project"]["dependencies"])]
        return []


def read_answers(content: bytes, file: str = ANSWERS_FILE) -> dict[str, Any]:
    """Parses an answers file.

    Raises:
        Refusal: the file is invalid.
    """
    import yaml

    try:
        answers = yaml.safe_load(content)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        message = " ".join(str(error).split())
        raise Refusal(f"{file} cannot be read ({message}): correct it") from error
    if not isinstance(answers, dict):
        raise Refusal(f"{file} holds no answers: get it back from git")
    for name, answer in answers.items():
        parts = answer if isinstance(answer, list) else [answer]
        # YAML anchors can make lists of any size in a few lines.
        nested = any(isinstance(part, list | dict | set | tuple) for part in parts)
        if nested or not isinstance(name, str):
            raise Refusal(f"{name} in {file} is no answer: get it back from git")
    for name in ("_src_path", "_commit"):
        answer = answers.get(name) or ""
        if isinstance(answer, list) or re.search(UNWRITABLE, str(answer)):
            raise Refusal(
                f"{name} in {file} is no path or version: get it back from git"
            )
    return answers


def render(
    source: str,
    version: str | None,
    directory: Path,
    data: Mapping[str, Any],
    *,
    ask: Iterable[str] = (),
    project: Path | None = None,
    files: bool = True,
) -> Rendering:
    """Renders a project. An existing answers file provides the remaining answers.

    Args:
        source: template.
        version: tag or commit. None: the highest tag.
        directory: folder of the project, which is created.
        data: answers to check and use.
        ask: questions to prompt for.
        project: existing project, for a relative source.
        files: whether to render files, and not only answers.

    Raises:
        Refusal: an answer is not allowed, or the template cannot be read.
    """
    # Without git, Copier would treat any template as a plain folder.
    git("--version")
    if project and git_address(source, project) is None:
        # As above: Copier would use the folder as it is for any version.
        raise Refusal(_not_reached(f"{source} is no git repository", project))
    if version in (None, AS_IT_STANDS):
        # Copier checks the working tree for uncommitted changes.
        folder = Path(project or "", Path(source).expanduser())
        if folder.is_dir():
            check_not_bare(folder)
    import copier
    from copier.errors import DirtyLocalWarning
    from plumbum import local

    here = project or Path.cwd()
    # As `git -c`: a rendering has the line endings of committed files.
    setting = {"GIT_CONFIG_PARAMETERS": "'core.autocrlf=false'"}
    # Plumbum, which runs git for Copier, has its own directory and environment.
    with (
        _errors_of_copier(project),
        chdir(here),
        local.cwd(here),
        local.env(**os.environ | setting),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        worker = copier.run_copy(
            source,
            directory,
            dict(data),
            vcs_ref=version,
            ask=list(ask),
            # A `.git` could have hooks, which git runs.
            exclude=[".git"] if files else ["*"],
            defaults=True,
            overwrite=True,
            quiet=True,
        )
    is_dirty = any(issubclass(each.category, DirtyLocalWarning) for each in caught)
    questions = _checked(worker.template.questions_data, source)
    answers, file = dict(worker.answers.combined), directory / ANSWERS_FILE
    # With a preset, Copier has an empty list.
    answers[LIST] = [name for name in questions.listable if name in answers["chosen"]]
    recorded = read_answers(file.read_bytes()) if files else {}
    return Rendering(directory, answers, recorded, questions, [DIRTY] * is_dirty)


def _checked(raw: Mapping[str, Any], source: str) -> Questions:
    """Returns the questions of a template after a check.

    Raises:
        Refusal: the template is not torch-tricks.
    """
    try:
        questions = Questions(with_catalogue(raw))
        if {"preset", "chosen"} <= raw.keys() and questions.tricks:
            return questions
    except (AttributeError, LookupError, TypeError):
        pass
    raise Refusal(
        f"{source} is not torch-tricks, as it has no preset or tricks: give --template another "
        "source, or use Copier's commands"
    )


def ask_own(
    directory: Path, data: Mapping[str, Any], ask: Iterable[str]
) -> dict[str, Any]:
    """Prompts for questions of the built-in template; returns all answers.

    Args:
        directory: path of the project; a folder beside it is used.
        data: known answers.
        ask: questions to prompt for.

    Raises:
        Refusal: an answer is not allowed.
    """
    # Outside of git, where Copier reads files as they are.
    questions = directory.with_name("questions")
    root = own_file("copier.yml").parent
    for path in (root / "copier.yml", *root.glob("template/*/row.yml")):
        copy = questions / path.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copyfile(path, copy)
    return render(str(questions), None, directory, data, ask=ask, files=False).answers


FULL_DISK = "No space left on device", "unable to write file", "Disk quota exceeded"
"""Parts of git's messages if it cannot write a clone or its files."""


@contextmanager
def _errors_of_copier(project: Path | None) -> Iterator[None]:
    """Raises errors of Copier as a Refusal with their cause, in one line."""
    from copier.errors import CopierAnswersInterrupt, CopierError
    from jinja2.exceptions import TemplateError
    from plumbum import ProcessExecutionError
    from yaml import YAMLError

    try:
        yield
    except CopierAnswersInterrupt as error:
        raise KeyboardInterrupt from error
    except ProcessExecutionError as error:
        raise Refusal(_not_reached(reason(error.stderr), project)) from error
    except (
        *(CopierError, ValueError, YAMLError, TemplateError),
        *(ArithmeticError, RecursionError),
    ) as error:
        message = " ".join(str(error).split())
        _, _, answer = message.partition("Validation error for question ")
        if message.startswith(("Unknown revision", "Local template must be")):
            answer = _not_reached(message, project)
        message = answer or f"Copier cannot render the project: {message}"
        raise Refusal(message) from error


def _not_reached(why: str, project: Path | None) -> str:
    if any(cause in why for cause in FULL_DISK):
        return (
            f"the template has no room in {gettempdir()} ({why}): make room there, or set TMPDIR "
            "to another folder"
        )
    where = (
        f"_src_path and _commit in {ANSWERS_FILE}"
        if project
        else "its address and version"
    )
    return (
        f"the template, or this version of it, cannot be had ({why}): check the network, and "
        f"{where}"
    )


AS_IT_STANDS = "HEAD"
"""The version of a clone with unreleased changes."""


@cache
def default_source() -> tuple[str, str]:
    """Returns the default template and its version.

    It is the clone, if torch-tricks runs in or is installed from a clone; otherwise the installed
    release or commit.
    """
    clone = Path(__file__).resolve().parents[2]
    if is_clone(clone):
        return str(clone), AS_IT_STANDS
    tool = distribution("torch-tricks")
    version = f"v{tool.version}"
    # Record of pip and others (PEP 610), which a package from an index does not have.
    origin = json.loads(tool.read_text("direct_url.json") or "{}")
    folder = Path(url2pathname(urlsplit(origin.get("url", "")).path))
    if "dir_info" in origin and is_clone(folder):
        return str(folder), AS_IT_STANDS
    if "vcs_info" not in origin:
        return PUBLISHED, version
    url, commit = f"git+{origin['url']}", origin["vcs_info"]["commit_id"]
    if address_of(origin["url"]) == address_of(PUBLISHED):
        url = PUBLISHED
    if origin["vcs_info"].get("requested_revision") != version:
        # As in git describe, without the number of commits since the release.
        version = f"{version}-0-g{commit}"
    return url, version


def is_clone(folder: Path) -> bool:
    """Returns whether a folder is a clone of the template."""
    return (folder / "copier.yml").is_file() and (folder / "template").is_dir()


def released_versions(source: str, project: Path | None = None) -> list[str]:
    """Returns the version tags of a template, the highest last.

    Pre-releases are left out, as in Copier.

    Raises:
        Refusal: the template cannot be reached.
    """
    url = git_address(source, project) or source
    try:
        listing = git("ls-remote", "--tags", "--refs", "--", url, cwd=project)
    except GitError as error:
        raise Refusal(_not_reached(str(error), project)) from error
    refs = (line.partition("\trefs/tags/") for line in listing.splitlines())
    tags = {tag: oid for oid, _, tag in refs}
    address = address_of(source)
    if address and not Path(project or "", source).is_dir():
        store = Store.of_address(address)
        # Without a cache, Copier fetches.
        with suppress(GitError):
            if store.tags() != tags:
                store.fetch(address)
    releases = {tag: release for tag in tags if (release := as_release(tag))}
    released = [tag for tag in releases if not releases[tag].is_prerelease]
    return sorted(released, key=lambda tag: releases[tag])


def git_address(source: str, project: Path | None = None) -> str | None:
    """Returns the git address of a template; None for a folder outside of git.

    Raises:
        Refusal: git refuses to read the repository.
    """
    if url := address_of(source):
        return url
    folder = Path(project or "", Path(source).expanduser())
    if not folder.is_dir():
        # A file can be a bundle of git.
        return str(folder) if folder.is_file() else None
    try:
        top = git("rev-parse", "--show-toplevel", cwd=folder)
    except GitError as error:
        if (folder / ".git").exists():
            raise Refusal(_not_reached(str(error), project)) from error
        return None
    return str(folder) if Path(top).samefile(folder) else None


def newest_of(released: list[str]) -> str:
    """Returns the highest tag, or HEAD without tags."""
    return released[-1] if released else "HEAD"


def find_version(wanted: str, released: list[str]) -> str:
    """Returns the tag of a version, with or without v; or a branch or commit unchanged.

    Raises:
        Refusal: there is no such release.
    """
    for tag in (wanted, f"v{wanted}"):
        if tag in released:
            return tag
    if as_release(wanted):
        known = ", ".join(released[-5:]) or "no versions at all"
        raise Refusal(f"the template has no version {wanted}; it has {known}")
    return wanted


def as_release(tag: str) -> Any:
    """Returns a tag as a comparable version, or None."""
    from packaging.version import InvalidVersion, Version

    try:
        # The short ID of a commit may have only digits.
        return None if re.fullmatch("[0-9a-f]{7,}", tag) else Version(tag)
    except InvalidVersion:
        return None
