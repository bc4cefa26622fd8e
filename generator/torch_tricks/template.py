"""The template at some version: its questions, its tricks, and projects rendered from it.

All dealings with Copier are here. It is imported on first use, as that takes a quarter of a
second.
"""

import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

from torch_tricks.errors import Refusal
from torch_tricks.git import GitError, git, reason
from torch_tricks.questions import Questions

ANSWERS_FILE = ".copier-answers.yml"
PUBLISHED = "gh:org/torch-tricks"
RECORDED = ":current:"
"""Copier's name for the version that the answers file records."""


Answers = Callable[
    [Questions, Callable[[Mapping[str, Any]], dict[str, Any]]], Mapping[str, Any]
]


@dataclass(frozen=True)
class Rendering:
    """A project as the template has it, before anybody edited it."""

    directory: Path
    answers: dict[str, Any]
    """Answers to all questions, those that are computed included."""
    questions: Questions
    version: str
    """What is recorded: a tag, or a description of a commit; empty outside of git."""
    release: Any
    """The version in a form that can be compared, or None outside of git."""
    notes: list[str]
    """What the user should know of it, in one line each."""

    @property
    def tricks(self) -> list[str]:
        """The tricks that are in, in the order of the questions."""
        return self.questions.chosen(self.answers)


def render(
    source: str | None,
    version: str | None,
    directory: Path,
    answers: Answers,
    *,
    project: Path | None = None,
    recorded: bytes | None = None,
    ask: bool = False,
) -> Rendering:
    """Renders a project.

    Args:
        source: the template, or None for the one that the answers file names.
        version: a tag or commit, RECORDED, or None for the highest tag.
        directory: where to; it is made.
        answers: returns what is answered anew, given the questions and a function that tells
            what all answers are when some are given.
        project: an existing project, from which a relative source is meant.
        recorded: its answers file, which answers the other questions.
        ask: whether questions that are not answered are asked, or else get their defaults.

    Raises:
        Refusal: an answer is not allowed, or the template cannot be had.
    """
    from copier import _main

    directory.mkdir(parents=True, exist_ok=True)
    options: dict[str, Any] = {} if ask else {"defaults": True}
    if recorded is not None:
        (directory / ANSWERS_FILE).write_bytes(recorded)
        options |= {"overwrite": True, "skip_answered": True}
    with (
        _copier(project) as notes,
        _main.Worker(
            src_path=source,
            dst_path=directory,
            vcs_ref=_main.VcsRef.CURRENT if version == RECORDED else version,
            quiet=True,
            **options,
        ) as worker,
    ):
        questions = _questions(worker.template)
        worker.data = dict(answers(questions, lambda data: _answered(worker, data)))
        worker.run_copy()
        return Rendering(
            directory=directory,
            answers=dict(worker.answers.combined),
            questions=questions,
            version=worker.template.commit or "",
            release=worker.template.version,
            notes=notes,
        )


def _answered(worker: Any, data: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the answers to all questions, without asking any."""
    defaults = worker.defaults
    worker.data, worker.defaults = dict(data), True
    worker._ask()
    worker.defaults = defaults
    return dict(worker.answers.combined)


def read_questions(source: str, version: str | None) -> Questions:
    """Returns the questions of a template, without rendering anything.

    Raises:
        Refusal: the template cannot be had.
    """
    from copier import _main

    with (
        _copier(None),
        tempfile.TemporaryDirectory(prefix="torch-tricks-") as directory,
        _main.Worker(
            src_path=source, vcs_ref=version, dst_path=Path(directory)
        ) as worker,
    ):
        return _questions(worker.template)


def _questions(template: Any) -> Questions:
    questions = Questions(
        template.questions_data, template.config_data.get("needs", {})
    )
    if "preset" not in questions.asked or not questions.tricks:
        message = f"{template.url} is not torch-tricks, as it asks for no preset"
        raise Refusal(
            f"{message}: give --template another source, or use Copier's commands"
        )
    return questions


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
    from packaging.version import Version

    url = _address(source, project)
    if url is None:
        raise Refusal(_not_reached(f"{source} is no git repository", project))
    try:
        listing = git("ls-remote", "--tags", "--refs", "--", url, cwd=project)
    except GitError as error:
        raise Refusal(_not_reached(str(error), project)) from error
    tags = [line.partition("refs/tags/")[2] for line in listing.splitlines()]
    tags = [tag for tag in tags if _is_version(tag) and not Version(tag).is_prerelease]
    return sorted(tags, key=Version)


def is_repository(source: str) -> bool:
    """Tells whether a template is in git, or claims to be: an address is not visited."""
    return _address(source, None) is not None


def _address(source: str, project: Path | None) -> str | None:
    """Returns where git finds a template; None if it is a folder outside of git."""
    from copier._vcs import get_repo

    with _copier(project):
        return get_repo(source)


def find_version(wanted: str, released: list[str]) -> str:
    """Returns the tag of a version, with or without its v; or a branch or commit as it is.

    Raises:
        Refusal: it is written as a version, and there is no such release.
    """
    for tag in (wanted, f"v{wanted}"):
        if tag in released:
            return tag
    if _is_version(wanted):
        known = ", ".join(released[-5:]) or "no versions at all"
        raise Refusal(f"the template has no version {wanted}; it has {known}")
    return wanted


def _is_version(tag: str) -> bool:
    from packaging.version import InvalidVersion, Version

    try:
        Version(tag)
    except InvalidVersion:
        return False
    return True
