"""Projects rendered without Copier, in a tenth of its time.

This is for the template that the tool came with, and for versions of others that are at hand in a
repository on this disk or in the cache. What `conditions.py` does not know, and answers that need a
correction, give `None`: Copier has its say.

Expressions of `copier.yml`, which may be a stranger's, are evaluated in Jinja's sandbox, as
Copier does it.
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
KNOWN += ("refusals", "preset_tricks", "chosen")
"""Entries that must equal the tool's own: this module and `conditions.choose` rely on them."""

FREE = {"help", "placeholder", "default"}
"""Entries of a question that may differ from the tool's own."""

OF_NO_MATTER = ("_min_copier_version", "_message_after_copy", "_message_after_update")
"""Settings of Copier that change nothing in a project."""

MALFORMED = (AttributeError, LookupError, TypeError, ValueError)
MALFORMED += (ArithmeticError, RecursionError)
"""Exceptions of reading a `copier.yml` whose entries have other types."""

ORDER = ("project_name", "package_name", "description", "author")
"""The questions about the owner, of which each may look at those before it."""


@dataclass(frozen=True)
class Version:
    """A version of a template."""

    raw: Mapping[str, Any]
    """All that its `copier.yml` holds."""
    files: Mapping[str, File]
    """The template, by paths in its folder."""
    name: str
    """The version as Copier records it."""

    @cached_property
    def questions(self) -> Questions:
        return Questions({k: v for k, v in self.raw.items() if not k.startswith("_")})

    @cached_property
    def template(self) -> conditions.Template:
        """Its lines, with their conditions.

        Raises:
            UnknownConstruct: only Copier can read it.
        """
        return conditions.read_template(self.files, self.raw)

    @cached_property
    def expressions(self) -> "Expressions":
        return Expressions(self.raw)


def own_version() -> Version:
    """Returns the template that the tool came with."""
    return own_files_as(template.default_source()[1])


@lru_cache(maxsize=1)
def own_files_as(name: str) -> Version:
    return Version(own_questions(), conditions.files_in(own_file("template")), name)


@lru_cache(maxsize=4)
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
    # The own files are one release, but a clone as it stands is another one tomorrow.
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
    """Returns a version from what git has of it, or None if only Copier knows its settings."""
    inside = {
        path.removeprefix("template/"): file
        for path, file in files.items()
        if path.startswith("template/")
    }
    # By these, a checkout would have other bytes than git has stored.
    if any(path.endswith(".gitattributes") for path in inside):
        return None
    try:
        raw, own = parse_questions(files["copier.yml"].content), own_questions()
        settings = {name for name in raw if name.startswith("_")} - {*OF_NO_MATTER}
        settings.update(KNOWN, choice_questions(own))
        if any(raw.get(name) != own.get(name) for name in settings):
            return None
        for question in (*ORDER, "preset", LIST):
            free = FREE | ({"validator"} if question in ORDER else set())
            # Two spellings of one choice differ in words alone.
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
    """Evaluates the expressions of a `copier.yml`, with the filters that Copier gives them.

    Args:
        raw: all that the `copier.yml` holds.
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
        """Returns the default answer to a question, given those to the ones before."""
        return self.evaluate(self.raw[name]["default"], answers)

    def asks(self, name: str, answers: Mapping[str, Any]) -> bool:
        """Returns whether a question is open, given the answers to those before."""
        condition = self.raw[name].get("when", True)
        if isinstance(condition, bool):
            return condition
        return self.evaluate(condition, answers) == "True"

    def fault(self, name: str, answers: Mapping[str, Any]) -> str:
        """Returns why an answer is not allowed, or an empty text."""
        return self.evaluate(self.raw[name].get("validator") or "", answers).strip()


def reserved_names(version: Version) -> set[str]:
    """Returns the names that a package may not have, those of dependencies included."""
    return {*version.expressions.known["reserved_names"].split()}


def complete(version: Version, given: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns the answers to all questions, or None if some are not allowed or not given."""
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
    """Renders a project, or returns None where only Copier can.

    Args:
        version: the template.
        source: its address, which the answers file records.
        directory: a new folder.
        given: answers; the others follow from these.
        files: whether files are wanted, and not only answers.
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
    """Renders a new project of the tool's own template.

    Args:
        directory: a new folder, after which the project is called if it has no name.
        given: some answers; the others are Copier's defaults.
        files: whether files are wanted, and not only answers.

    Raises:
        Refusal: an answer is not allowed.
    """
    version = own_version()
    source, _ = template.default_source()
    answers = with_defaults(version, directory, given)
    found = render(version, source, directory, answers, files)
    assert found is not None, "the template has nothing that only Copier knows"
    return found


def with_defaults(
    version: Version, directory: Path, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the answers that Copier would record of a new project.

    Raises:
        Refusal: one is not allowed.
    """
    questions, answers = version.questions, dict(given)
    expressions = version.expressions
    # A project without a name is called after its folder.
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
