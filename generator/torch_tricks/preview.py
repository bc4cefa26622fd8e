"""Rendering of projects without Copier, in a tenth of the time.

It works for the built-in template, and for versions in a repository on this disk or in the cache.
For unsupported constructs and for answers that need a correction, functions return `None`, and
Copier renders.

Expressions of `copier.yml`, which may be untrusted, are evaluated in Jinja's sandbox, as Copier
does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from torch_tricks import conditions, template
from torch_tricks.catalogue import (
    choice_questions,
    own_file,
    own_questions,
    parse_questions,
)
from torch_tricks.conditions import File
from torch_tricks.errors import Refusal
from torch_tricks.git import GitError
from torch_tricks.questions import LIST, Questions
from torch_tricks.store import Store, address_of
from torch_tricks.template import Rendering

KNOWN = ("_subdirectory", "_envops", "choice_questions", "choice_answers")
KNOWN += ("refusals", "preset_tricks", "chosen", "trick", "task_is", "form")
"""Entries that must equal the built-in template's, for this module and `conditions.choose`."""

FREE = {"help", "placeholder", "default"}
"""Entries of a question that may differ from the built-in template's."""

OF_NO_MATTER = ("_min_copier_version", "_message_after_copy", "_message_after_update")
"""Settings of Copier without effect on a project."""

MALFORMED = (AttributeError, LookupError, TypeError, ValueError)
MALFORMED += (ArithmeticError, RecursionError)
"""Exceptions while reading a `copier.yml` with wrong types."""

ORDER = ("project_name", "package_name", "description", "author")
"""Questions about the project. Each may depend on earlier ones."""


@dataclass(frozen=True)
class Version:
    """A version of a template."""

    raw: Mapping[str, Any]
    """Content of its `copier.yml`."""
    files: Mapping[str, File]
    """Files of the template, by relative path."""
    name: str
    """The version as Copier records it."""

    @cached_property
    def questions(self) -> Questions:
        return Questions({k: v for k, v in self.raw.items() if not k.startswith("_")})

    @cached_property
    def template(self) -> conditions.Template:
        """The parsed template.

        Raises:
            UnknownConstruct: only Copier can render it.
        """
        return conditions.read_template(self.files, self.raw)

    @cached_property
    def expressions(self) -> "Expressions":
        return Expressions(self.raw)


def own_version() -> Version:
    """Returns the built-in template."""
    return own_files_as(template.default_source()[1])


@lru_cache(maxsize=1)
def own_files_as(name: str) -> Version:
    return Version(own_questions(), conditions.files_in(own_file("template")), name)


@lru_cache(maxsize=4)
def read_version(
    source: str, version: str, project: Path, scratch: Path
) -> Version | None:
    """Reads a version of a template; None if only Copier can.

    Args:
        source: template, as in an answers file.
        version: a tag or commit.
        project: folder of the project, for a relative source.
        scratch: a folder for files.
    """
    # The built-in files are a release, but a clone changes.
    if (
        version != template.AS_IT_STANDS
        and (source, version) == template.default_source()
    ):
        return own_version()
    address, folder = address_of(source), project / source
    try:
        if address is None or folder.is_dir():
            store = Store.of_folder(folder, scratch)
        else:
            store = Store.of_address(address)
            if store.find(version) is None:
                store.fetch(address)
        commit = store.find(version)
        files = store.files(commit) if commit else None
        return from_files(files, store.describe(commit)) if files else None
    except (GitError, OSError):
        return None


def from_files(files: Mapping[str, File], name: str) -> Version | None:
    """Returns a version from its files in git; None if only Copier supports its settings."""
    inside = {
        path.removeprefix("template/"): file
        for path, file in files.items()
        if path.startswith("template/")
    }
    # With these, a checkout differs from the stored bytes.
    if any(path.endswith(".gitattributes") for path in inside):
        return None
    contents = {path: file.content for path, file in files.items()}
    try:
        raw, own = parse_questions(contents), own_questions()
        settings = {name for name in raw if name.startswith("_")} - {*OF_NO_MATTER}
        settings.update(KNOWN, choice_questions(own))
        if any(raw.get(name) != own.get(name) for name in settings):
            return None
        for question in (*ORDER, "preset", LIST):
            free = FREE | ({"validator"} if question in ORDER else set())
            # The labels of choices may differ.
            free |= {"choices"} if question == "preset" else set()
            asked, known = raw[question], own[question]
            names = {*asked, *known} - free
            if any(asked.get(entry) != known.get(entry) for entry in names):
                return None
        found = Version(raw, inside, name)
        return found if found.questions.tricks else None
    except MALFORMED:
        return None


class Expressions:
    """Evaluates expressions of a `copier.yml`, with the filters of Copier.

    Args:
        raw: content of the `copier.yml`.
    """

    def __init__(self, raw: Mapping[str, Any]) -> None:
        from jinja2 import StrictUndefined
        from jinja2.sandbox import SandboxedEnvironment

        options = raw["_envops"] | {"undefined": StrictUndefined}
        extensions = ["jinja2_ansible_filters.AnsibleCoreFiltersExtension"]
        self.environment = SandboxedEnvironment(extensions=extensions, **options)
        self.raw = raw
        self.known: dict[str, Any] = {"catalogue": raw["catalogue"]["default"]}
        reserved = raw["reserved_names"]["default"]
        self.known["reserved_names"] = self.evaluate(reserved, {})

    def evaluate(self, expression: str, answers: Mapping[str, Any]) -> str:
        names = {**answers, **self.known}
        return self.environment.from_string(expression).render(names)

    def default(self, name: str, answers: Mapping[str, Any]) -> str:
        """Returns the default answer to a question, from earlier answers."""
        return self.evaluate(self.raw[name]["default"], answers)

    def asks(self, name: str, answers: Mapping[str, Any]) -> bool:
        """Returns whether to ask a question, from earlier answers."""
        condition = self.raw[name].get("when", True)
        if isinstance(condition, bool):
            return condition
        return self.evaluate(condition, answers) == "True"

    def fault(self, name: str, answers: Mapping[str, Any]) -> str:
        """Returns the validation error of an answer, or an empty text."""
        return self.evaluate(self.raw[name].get("validator") or "", answers).strip()


def reserved_names(version: Version) -> set[str]:
    """Returns the forbidden names of a package, such as names of dependencies."""
    return {*version.expressions.known["reserved_names"].split()}


def complete(version: Version, given: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns the answers to all questions; None if an answer is invalid or missing."""
    from jinja2 import TemplateError

    questions = version.questions
    known = {*ORDER, "preset", *questions.choices, LIST}
    about = [given.get(name) for name in ORDER]
    if questions.asked.keys() != known or not all(isinstance(v, str) for v in about):
        return None
    try:
        expressions = version.expressions
        questions.check_preset(str(given.get("preset")))
        open_questions = {n for n in questions.asked if expressions.asks(n, given)}
        if any(name in given for name in known - open_questions):
            return None
        choices = {
            name: given[name]
            if name in open_questions
            else expressions.default(name, given)
            for name in questions.choices
        }
        listed = given[LIST] if LIST in open_questions else []
        questions.check({LIST: listed, **choices})
        if any(expressions.fault(name, given) for name in ORDER):
            return None
    except (Refusal, TemplateError, *MALFORMED):
        return None
    chosen = conditions.choose(version.raw, given["preset"], choices, listed)
    ticked = [name for name in questions.listable if name in chosen]
    return {**given, **choices, LIST: ticked, "chosen": chosen}


def render(
    version: Version,
    source: str,
    directory: Path,
    given: Mapping[str, Any],
    files: bool = True,
) -> Rendering | None:
    """Renders a project; returns None if only Copier can.

    Args:
        version: the template.
        source: address of the template for the answers file.
        directory: a new folder.
        given: answers, which determine the others.
        files: whether to render files, and not only answers.
    """
    answers = complete(version, given)
    if answers is None:
        return None
    asks = version.expressions.asks
    asked = [name for name in version.questions.asked if asks(name, answers)]
    recorded = {name: answers[name] for name in asked}
    recorded |= {"_commit": version.name, "_src_path": source}
    if files:
        try:
            version.template.write(directory, answers | {"recorded": recorded})
        except (conditions.UnknownConstruct, RecursionError):
            return None
    return Rendering(directory, answers, recorded, version.questions, [])


def render_own(
    directory: Path, given: Mapping[str, Any], files: bool = True
) -> Rendering:
    """Renders a new project from the built-in template.

    Args:
        directory: new folder, and the default name of the project.
        given: some answers; others are Copier's defaults.
        files: whether to render files, and not only answers.

    Raises:
        Refusal: an answer is not allowed.
    """
    version = own_version()
    source, _ = template.default_source()
    answers = with_defaults(version, directory, given)
    found = render(version, source, directory, answers, files)
    assert found is not None, "the built-in template is supported"
    return found


def with_defaults(
    version: Version, directory: Path, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the answers that Copier would record for a new project.

    Raises:
        Refusal: an answer is not allowed.
    """
    questions, answers = version.questions, dict(given)
    expressions = version.expressions
    # The default name is the folder.
    folder = {"_copier_conf": {"dst_path": directory}}
    for name in questions.asked:
        if name not in {*answers, LIST} and expressions.asks(name, answers):
            answers[name] = expressions.default(name, answers | folder)
        if name in ORDER and (fault := expressions.fault(name, answers)):
            raise Refusal(f"'{name}': {fault}")
    if expressions.asks(LIST, answers):
        suggested = conditions.choose(version.raw, "recommended", answers, [])
        listed = answers.get(LIST, suggested)
        answers[LIST] = [name for name in questions.listable if name in listed]
    return answers
