"""Rendering of projects without Copier, by the same Jinja, in a tenth of the time.

It works for the built-in template, and for versions in a repository on this disk or in the cache.
If a template has settings that this module does not support, or if an answer needs a correction,
functions return `None`, and Copier renders.

A template may be untrusted. Its expressions run in Jinja's sandbox, with the filters of Copier,
and its files stay inside the project.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path, PurePosixPath
from typing import Any

from torch_tricks import template
from torch_tricks.catalogue import own_file, own_questions, parse_questions
from torch_tricks.errors import Refusal
from torch_tricks.git import GitError
from torch_tricks.questions import LIST, Questions
from torch_tricks.store import File, Store, address_of, files_in
from torch_tricks.template import ANSWERS_FILE, Rendering

SETTINGS = ("_min_copier_version", "_message_after_copy", "_message_after_update")
SETTINGS += ("_subdirectory", "_envops", "_exclude")
"""Settings of Copier that this module supports. The first three do not change a project."""

ENTRIES = {"type", "default", "choices", "when", "validator"}
ENTRIES |= {"help", "placeholder", "ask"}
"""Entries of a question that this module supports. The last three do not change an answer."""

SUFFIX = ".jinja"

EXPRESSION = "\0"
"""Begins the name of an expression, which the loader takes for a template of this text."""

MALFORMED = (AttributeError, LookupError, TypeError, ValueError)
MALFORMED += (ArithmeticError, RecursionError)
"""Exceptions while reading a `copier.yml` with wrong types."""

ORDER = ("project_name", "package_name", "description", "author")
"""Questions about the project. Each may depend on earlier ones."""


class Unsupported(ValueError):
    """Only Copier renders this."""


@dataclass(frozen=True)
class Version:
    """A version of a template."""

    raw: Mapping[str, Any]
    """Content of its `copier.yml`, with the rows of tricks."""
    read: Callable[[], Mapping[str, File]]
    """Returns the files of the template, by relative path."""
    name: str
    """The version as Copier records it."""
    kept: bool = False
    """Whether to keep compiled templates for the next command: not those of a clone, which change."""

    @cached_property
    def files(self) -> Mapping[str, File]:
        return self.read()

    @cached_property
    def questions(self) -> Questions:
        return Questions({k: v for k, v in self.raw.items() if not k.startswith("_")})

    @cached_property
    def expressions(self) -> "Expressions":
        return Expressions(self)


def own_version() -> Version:
    """Returns the built-in template."""
    return own_files_as(template.default_source()[1])


@lru_cache(maxsize=1)
def own_files_as(name: str) -> Version:
    read = partial(files_in, own_file("template"))
    return Version(own_questions(), read, name, name != template.AS_IT_STANDS)


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
    kept = address is not None and not folder.is_dir()
    try:
        if kept:
            store = Store.of_address(address)
            if store.find(version) is None:
                store.fetch(address)
        else:
            store = Store.of_folder(folder, scratch)
        commit = store.find(version)
        files = store.files(commit) if commit else None
        return from_files(files, store.describe(commit), kept) if files else None
    except (GitError, OSError):
        return None


def from_files(
    files: Mapping[str, File], name: str, kept: bool = False
) -> Version | None:
    """Returns a version from its files in git; None if only Copier supports its settings."""
    inside = {
        path.removeprefix("template/"): file
        for path, file in files.items()
        if path.startswith("template/")
    }
    # With these, a checkout differs from the stored bytes.
    if any(path.endswith(".gitattributes") for path in inside):
        return None
    try:
        raw = parse_questions({path: file.content for path, file in files.items()})
        settings = {name: value for name, value in raw.items() if name.startswith("_")}
        if not {*settings} <= {*SETTINGS} or raw["_subdirectory"] != "template":
            return None
        if raw["_envops"] != own_questions()["_envops"]:
            return None
        # Names in the root of a project, and no patterns.
        if not all(re.fullmatch(r"/[\w.-]+", each) for each in raw.get("_exclude", [])):
            return None
        found = Version(raw, lambda: inside, name, kept)
        supported = all(
            question.keys() <= ENTRIES | ({"multiselect"} if key == LIST else set())
            and question["type"] in ("str", "yaml", "bool")
            for key, question in found.questions.raw.items()
        )
        return found if supported and found.questions.tricks else None
    except MALFORMED:
        return None


class Expressions:
    """Jinja as Copier sets it up, for a version of a template."""

    def __init__(self, version: Version) -> None:
        from jinja2 import FunctionLoader, StrictUndefined
        from jinja2.sandbox import SandboxedEnvironment

        self.version, self.raw = version, version.raw
        options = self.raw["_envops"] | {"undefined": StrictUndefined}
        self.environment = SandboxedEnvironment(
            loader=FunctionLoader(self.load),
            extensions=["jinja2_ansible_filters.AnsibleCoreFiltersExtension"],
            bytecode_cache=compiled_templates(version.name) if version.kept else None,
            auto_reload=False,
            cache_size=-1,
            **options,
        )

    def load(self, name: str) -> str | None:
        """Returns the text of a template or expression."""
        if name.startswith(EXPRESSION):
            return name.removeprefix(EXPRESSION)
        file = self.version.files.get(name.removeprefix("template/"))
        return file and file.content.decode()

    def evaluate(self, expression: str, answers: Mapping[str, Any]) -> str:
        if "{" not in expression:
            return expression
        return self.environment.get_template(EXPRESSION + expression).render(answers)

    def default(self, name: str, answers: Mapping[str, Any]) -> Any:
        """Returns the default answer to a question, from earlier answers."""
        import yaml

        question = self.raw[name]
        if not isinstance(question["default"], str):
            return question["default"]
        text = self.evaluate(question["default"], answers)
        if question.get("type") == "bool":
            return text == "True"
        if question.get("type") == "yaml" or question.get("multiselect"):
            return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        return text

    def asks(self, name: str, answers: Mapping[str, Any]) -> bool:
        """Returns whether to ask a question, from earlier answers."""
        condition = self.raw[name].get("when", True)
        if isinstance(condition, bool):
            return condition
        return self.evaluate(condition, answers) == "True"

    def fault(self, name: str, answers: Mapping[str, Any]) -> str:
        """Returns the validation error of an answer, or an empty text."""
        return self.evaluate(self.raw[name].get("validator") or "", answers).strip()

    def render(self, answers: Mapping[str, Any]) -> dict[str, tuple[bytes, bool]]:
        """Renders the files of a project.

        Returns:
            Content, and whether the file is executable, by path.

        Raises:
            Unsupported: a path is outside of the project or in `.git`, or two are equal.
        """
        project: dict[str, tuple[bytes, bool]] = {}
        part_of = cache(lambda part: self.evaluate(part, answers))
        files = self.version.files
        for path, file in files.items():
            if f"{path}{SUFFIX}" in files:
                raise Unsupported(path)
            parts = [part_of(part) for part in path.split("/")]
            place = PurePosixPath(*parts).as_posix().removesuffix(SUFFIX)
            if not all(part.removesuffix(SUFFIX) for part in parts):
                continue
            inside = PurePosixPath(place).parts
            if f"/{inside[0]}" in self.raw.get("_exclude", []):
                continue
            if any(
                p in ("..", "/") or p.lower() == ".git" or "\\" in p for p in inside
            ):
                raise Unsupported(f"{path} would be {place}")
            if place in project:
                raise Unsupported(f"{path} would be {place}, too")
            content = file.content
            if path.endswith(SUFFIX):
                named = self.environment.get_template(f"template/{path}")
                content = named.render(answers).encode()
            project[place] = (content, file.executable)
        return project


def compiled_templates(version: str) -> Any:
    """Returns Jinja's cache of compiled templates for a version, or None if it has no place.

    Jinja compares the cached templates with their texts.
    """
    from jinja2 import FileSystemBytecodeCache, __version__
    from platformdirs import user_cache_path

    name = hashlib.sha256(f"{version} {__version__}".encode()).hexdigest()
    directory = user_cache_path("torch-tricks", appauthor=False) / "compiled" / name
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return FileSystemBytecodeCache(str(directory))
    except OSError:
        return None


def reserved_names(version: Version) -> set[str]:
    """Returns the forbidden names of a package, such as names of dependencies."""
    known = {"catalogue": version.raw["catalogue"]["default"]}
    return {*version.expressions.default("reserved_names", known).split()}


def complete(
    version: Version, given: Mapping[str, Any], computed: bool = True
) -> dict[str, Any] | None:
    """Returns the answers to all questions; None if an answer is invalid or missing.

    Args:
        computed: whether to compute all that files depend on, and not only the tricks.
    """
    from jinja2 import TemplateError

    questions, expressions = version.questions, version.expressions
    known = {*ORDER, "preset", *questions.choices, LIST}
    about = [given.get(name) for name in ORDER]
    if questions.asked.keys() != known or not all(isinstance(v, str) for v in about):
        return None
    answers: dict[str, Any] = {}
    try:
        questions.check_preset(str(given.get("preset")))
        for name in questions.raw:
            if (name in given) != expressions.asks(name, answers):
                return None
            if name in given:
                answers[name] = given[name]
                if expressions.fault(name, answers):
                    return None
            elif computed or "chosen" not in answers:
                answers[name] = expressions.default(name, answers)
        questions.check(answers)
    except (Refusal, TemplateError, *MALFORMED):
        return None
    answers[LIST] = [name for name in questions.listable if name in answers["chosen"]]
    return answers


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
    from jinja2 import TemplateError

    answers = complete(version, given, computed=files)
    if answers is None:
        return None
    asks = version.expressions.asks
    asked = [name for name in version.questions.asked if asks(name, answers)]
    recorded = {name: answers[name] for name in asked}
    recorded |= {"_commit": version.name, "_src_path": source}
    if files:
        conf = {"answers_file": ANSWERS_FILE, "dst_path": directory}
        names = {"_copier_answers": recorded, "_copier_conf": conf}
        try:
            project = version.expressions.render(answers | names)
        except (TemplateError, *MALFORMED):
            return None
        write(project, directory)
    return Rendering(directory, answers, recorded, version.questions, [])


def write(project: Mapping[str, tuple[bytes, bool]], directory: Path) -> None:
    """Writes a rendered project into an empty or new folder."""
    for name, (content, executable) in project.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        if executable:
            # By those who may read it, as the umask decides.
            mode = path.stat().st_mode
            path.chmod(mode | (mode & 0o444) >> 2)


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
    questions, expressions = version.questions, version.expressions
    answers = dict(given)
    # The default name is the folder.
    known = {"_copier_conf": {"dst_path": directory}}
    for name in questions.raw:
        if name not in answers and expressions.asks(name, known):
            answers[name] = expressions.default(name, known)
        if name not in answers:
            known[name] = expressions.default(name, known)
            continue
        known[name] = answers[name]
        if name in ORDER and (fault := expressions.fault(name, known)):
            raise Refusal(f"'{name}': {fault}")
    if LIST in answers:
        answers[LIST] = [n for n in questions.listable if n in answers[LIST]]
    return answers
