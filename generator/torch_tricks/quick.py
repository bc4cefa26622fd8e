"""Projects that are only looked at: rendered without Copier, in a tenth of its time.

This is for templates that are at hand, in a repository on this disk or in the tool itself, and for
answers that need no correction. For all others there is `None`, and Copier has its say.
"""

import io
import re
import tarfile
from collections.abc import Mapping
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from torch_tricks import lines, template
from torch_tricks.catalogue import load_questions, module_of, own_questions
from torch_tricks.errors import Refusal
from torch_tricks.git import GitError, git_bytes
from torch_tricks.questions import ABOUT_THE_OWNER, LIST, Questions
from torch_tricks.template import Rendering

COMPUTED = ("_envops", "parallel", "preset_tricks", "chosen")
"""The questions that `lines.choose` knows, if they are as in the tool's own template."""

Version = tuple[Questions, lines.Template]


def own_version() -> Version:
    """Returns the template that the tool came with."""
    return questions_of(own_questions()), lines.own_template()


def read_version(
    source: str, version: str, project: Path, scratch: Path
) -> Version | None:
    """Returns a version of a template, or None if only Copier can get or read it.

    Args:
        source: the template, as an answers file names it.
        version: a tag or commit.
        project: the folder of the project, from which a relative source is meant.
        scratch: a folder for files.
    """
    if (source, version) == template.default_source():
        return own_version()
    repository, directory = project / source, Path(mkdtemp(dir=scratch))
    if not repository.is_dir():
        return None
    command = ("-c", "core.autocrlf=false", "archive", "--format=tar", version)
    try:
        archive = git_bytes(*command, "copier.yml", "template", cwd=repository)
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(directory, filter="data")
        raw = load_questions(directory / "copier.yml")
        if any(raw.get(name) != own_questions()[name] for name in COMPUTED):
            return None
        return questions_of(raw), lines.read_template(directory / "template", raw)
    except (GitError, lines.UnknownConstruct, tarfile.TarError):
        return None


def questions_of(raw: Mapping[str, Any]) -> Questions:
    """Returns the questions of a `copier.yml`, less its settings."""
    return Questions({k: v for k, v in raw.items() if not k.startswith("_")})


def complete(questions: Questions, given: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns the answers to all questions, or None if some are not allowed or not given."""
    known = {*ABOUT_THE_OWNER, "preset", "parallel", LIST}
    about = [given.get(name) for name in ABOUT_THE_OWNER]
    if questions.asked.keys() != known or not all(isinstance(v, str) for v in about):
        return None
    name = given["package_name"]
    reserved = reserved_names(questions)
    if not re.fullmatch("[a-z]([a-z0-9_]*[a-z0-9])?", name) or name in reserved:
        return None
    preset = given.get("preset")
    form = "dp" if preset == "everything" else "none"
    listed = []
    try:
        questions.check_preset(str(preset))
        if preset == "custom":
            form, listed = given["parallel"], given[LIST]
            questions.check({LIST: listed, "parallel": form})
    except (Refusal, KeyError):
        return None
    rows = questions.raw["catalogue"]["default"]
    chosen = lines.choose(rows, preset, form, listed)
    ticked = [name for name in questions.listable if name in chosen]
    return {**given, "parallel": form, LIST: ticked, "chosen": chosen}


def reserved_names(questions: Questions) -> set[str]:
    """Returns the names that a package may not have, those of dependencies included."""
    listed = questions.raw["reserved_names"]["default"].split()
    rows = questions.tricks.values()
    return {*listed, *(module_of(line) for trick in rows for line in trick.depends)}


def render(
    version: Version, scratch: Path, given: Mapping[str, Any], files: bool = True
) -> Rendering | None:
    """Renders a project in a new folder in another one, all but its answers file.

    Args:
        version: the template.
        scratch: the other folder.
        given: answers; the others follow from these.
        files: whether files are wanted, and not only answers.
    """
    questions, source = version
    answers = complete(questions, given)
    if answers is None:
        return None
    directory = Path(mkdtemp(dir=scratch))
    if files:
        source.write(directory, answers | {"recorded": {}})
    return Rendering(directory, answers, dict(given), questions, [])
