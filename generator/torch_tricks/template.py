"""The template at some version: its questions, its tricks, and projects rendered from it.

All dealings with Copier are here. It is imported on first use, as that takes a quarter of a
second. What its documentation does not promise is this, for which `pyproject.toml` pins its
minor version, and a test tries the newest one:

- `answers.combined` and `template.questions_data` of the worker that `copier.run_copy` returns;
- the words with which its errors begin, by which refusals are told apart;
- `copier._vcs.get_repo`, which knows what `gh:` stands for;
- that it runs git through plumbum, which keeps a directory and an environment of its own.
"""

import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

from torch_tricks.errors import Refusal
from torch_tricks.git import GitError, git, reason
from torch_tricks.questions import LIST, Questions

ANSWERS_FILE = ".copier-answers.yml"
PUBLISHED = "gh:org/torch-tricks"


@dataclass(frozen=True)
class Rendering:
    """A project as the template has it, before anybody edited it."""

    directory: Path
    answers: dict[str, Any]
    """Answers to all questions, those that are computed included."""
    recorded: dict[str, Any]
    """What its answers file holds."""
    questions: Questions
    notes: list[str]
    """What the user should know of it, in one line each."""

    @property
    def version(self) -> str:
        """A tag, or a description of a commit; empty outside of git."""
        return str(self.recorded.get("_commit") or "")

    @property
    def release(self) -> Any:
        """The version in a form that can be compared, or None if it belongs to no release."""
        tag, commits = re.fullmatch(
            r"(.*?)(?:-(\d+)-g[0-9a-f]+)?", self.version
        ).groups()
        return as_release(f"{tag}.post{commits}" if commits else tag)

    @property
    def tricks(self) -> list[str]:
        """The tricks that are in, in the order of the catalogue."""
        return list(self.answers["chosen"])


def read_answers(content: bytes) -> dict[str, Any]:
    """Reads an answers file.

    Raises:
        Refusal: it is none.
    """
    import yaml

    try:
        answers = yaml.safe_load(content)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        message = " ".join(str(error).split())
        raise Refusal(
            f"{ANSWERS_FILE} cannot be read ({message}): correct it"
        ) from error
    if not isinstance(answers, dict):
        raise Refusal(f"{ANSWERS_FILE} holds no answers: get it back from git")
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
    """Renders a project; an answers file that is there already answers what is not said here.

    Args:
        source: the template.
        version: a tag or commit, or None for the highest tag.
        directory: where to; it is made.
        data: answers, which are checked.
        ask: the questions that are asked.
        project: an existing project, from which a relative source is meant.
        files: whether files are wanted, and not only answers.

    Raises:
        Refusal: an answer is not allowed, or the template cannot be had.
    """
    import copier

    # Without git Copier would take any template for a plain folder.
    git("--version")
    if project and not is_repository(source, project):
        # As above, with the folder as it is for the version that was asked for.
        raise Refusal(_not_reached(f"{source} is no git repository", project))
    with _copier(project) as notes:
        worker = copier.run_copy(
            source,
            directory,
            dict(data),
            vcs_ref=version,
            ask=list(ask),
            exclude=[] if files else ["*"],
            defaults=True,
            overwrite=True,
            quiet=True,
        )
    template = worker.template
    questions = Questions(template.questions_data)
    if not {"preset", "chosen"} <= questions.raw.keys() or not questions.tricks:
        raise Refusal(
            f"{source} is not torch-tricks, as it has no preset or tricks: give --template another "
            "source, or use Copier's commands"
        )
    answers, file = dict(worker.answers.combined), directory / ANSWERS_FILE
    # Copier has an empty list where a preset decides.
    answers[LIST] = [name for name in questions.listable if name in answers["chosen"]]
    recorded = read_answers(file.read_bytes()) if files else {}
    return Rendering(directory, answers, recorded, questions, notes)


@contextmanager
def _copier(project: Path | None) -> Iterator[list[str]]:
    """Turns what Copier raises into refusals, and what it warns of into a list."""
    from copier.errors import CopierAnswersInterrupt, CopierError, DirtyLocalWarning
    from jinja2.exceptions import TemplateError
    from plumbum import ProcessExecutionError, local
    from yaml import YAMLError

    notes: list[str] = []
    directory = project or Path.cwd()
    # The copy that is compared with what is committed must have the same line endings.
    environment = {**os.environ}
    if project:
        environment |= _without_conversion_of_line_endings()
    try:
        # Plumbum, which runs git for Copier, keeps its own directory and environment.
        with (
            chdir(directory),
            local.cwd(directory),
            local.env(**environment),
            warnings.catch_warnings(record=True) as caught,
        ):
            warnings.simplefilter("always")
            yield notes
        if any(issubclass(warning.category, DirtyLocalWarning) for warning in caught):
            notes.append(
                "the template has changes that are not committed, and this version of it "
                "cannot be found again: commit them and make the project anew before you "
                "rely on updates"
            )
    except CopierAnswersInterrupt as error:
        raise KeyboardInterrupt from error
    except ProcessExecutionError as error:
        raise Refusal(_not_reached(reason(error.stderr), project)) from error
    except (CopierError, ValueError, YAMLError, TemplateError) as error:
        message = " ".join(str(error).split())
        _, _, answer = message.partition("Validation error for question ")
        if answer:
            raise Refusal(answer) from error
        if message.startswith(("Unknown revision", "Local template must be")):
            raise Refusal(_not_reached(message, project)) from error
        raise Refusal(f"Copier cannot render the project: {message}") from error


def _not_reached(why: str, project: Path | None) -> str:
    where = (
        f"_src_path and _commit in {ANSWERS_FILE}"
        if project
        else "its address and version"
    )
    return (
        f"the template, or this version of it, cannot be had ({why}): check the network, and "
        f"{where}"
    )


def _without_conversion_of_line_endings() -> dict[str, str]:
    """Returns the variables that give git this setting beside those that it has by now."""
    count = int(os.environ.get("GIT_CONFIG_COUNT") or 0)
    return {
        "GIT_CONFIG_COUNT": str(count + 1),
        f"GIT_CONFIG_KEY_{count}": "core.autocrlf",
        f"GIT_CONFIG_VALUE_{count}": "false",
    }


def default_source() -> tuple[str, str]:
    """Returns the template of this tool and its version.

    In a clone that is the clone as it stands, else what is published under the tool's own
    version.
    """
    clone = Path(__file__).resolve().parents[2]
    if (clone / "copier.yml").is_file() and (clone / "template").is_dir():
        return str(clone), "HEAD"
    return PUBLISHED, f"v{installed_version('torch-tricks')}"


def released_versions(source: str, project: Path | None = None) -> list[str]:
    """Returns the tags of a template that are versions, the highest last.

    Pre-releases are left out, as Copier does not update to them by itself.

    Raises:
        Refusal: the template cannot be reached.
    """
    url = _address(source, project) or source
    try:
        listing = git("ls-remote", "--tags", "--refs", "--", url, cwd=project)
    except GitError as error:
        raise Refusal(_not_reached(str(error), project)) from error
    tags = [line.partition("refs/tags/")[2] for line in listing.splitlines()]
    releases = {tag: release for tag in tags if (release := as_release(tag))}
    released = [tag for tag in releases if not releases[tag].is_prerelease]
    return sorted(released, key=lambda tag: releases[tag])


def is_repository(source: str, project: Path | None = None) -> bool:
    """Tells whether a template is in git, or claims to be: an address is not visited."""
    return _address(source, project) is not None


def _address(source: str, project: Path | None) -> str | None:
    """Returns where git finds a template; None if it is a folder outside of git.

    Raises:
        Refusal: it is a repository that git does not want to read.
    """
    from copier._vcs import get_repo

    with _copier(project):
        url = get_repo(source)
    folder = Path(project or "", source)
    if url is None and (folder / ".git").exists():
        try:
            git("rev-parse", "--git-dir", cwd=folder)
        except GitError as error:
            raise Refusal(_not_reached(str(error), project)) from error
    return url


def find_version(wanted: str, released: list[str]) -> str:
    """Returns the tag of a version, with or without its v; or a branch or commit as it is.

    Raises:
        Refusal: it is written as a version, and there is no such release.
    """
    for tag in (wanted, f"v{wanted}"):
        if tag in released:
            return tag
    if as_release(wanted):
        known = ", ".join(released[-5:]) or "no versions at all"
        raise Refusal(f"the template has no version {wanted}; it has {known}")
    return wanted


def as_release(tag: str) -> Any:
    """Returns a version in a form that can be compared, or None if the tag is none."""
    from packaging.version import InvalidVersion, Version

    try:
        # The short name of a commit may have digits only.
        return None if re.fullmatch("[0-9a-f]{7,}", tag) else Version(tag)
    except InvalidVersion:
        return None
