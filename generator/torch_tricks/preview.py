"""Rendering of projects without Copier, by the same Jinja, in a tenth of the time.

It works for the built-in template, and for versions in a repository on this disk or in the cache.
If a template has settings that this module does not support, or if an answer needs a correction,
`read_version` returns `None` or `render` raises one of `UNFIT`, and Copier renders.

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

from jinja2 import TemplateError

from torch_tricks import template
from torch_tricks.catalogue import own_file, own_questions, parse_questions
from torch_tricks.errors import Refusal
from torch_tricks.git import GitError
from torch_tricks.questions import ABOUT_THE_PROJECT, LIST, TASK, Questions
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

UNFIT = (Refusal, TemplateError, *MALFORMED)
"""Exceptions while rendering a template or answers that only Copier renders or explains."""


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

    @cached_property
    def files(self) -> Mapping[str, File]:
        return self.read()

    @cached_property
    def questions(self) -> Questions:
        return Questions({k: v for k, v in self.raw.items() if not k.startswith("_")})

    @cached_property
    def environment(self) -> Any:
        """Jinja as Copier sets it up."""
        from jinja2 import FunctionLoader, StrictUndefined
        from jinja2.sandbox import SandboxedEnvironment

        options = self.raw["_envops"] | {"undefined": StrictUndefined}
        return SandboxedEnvironment(
            loader=FunctionLoader(self.load),
            extensions=["jinja2_ansible_filters.AnsibleCoreFiltersExtension"],
            bytecode_cache=compiled_templates(str(options)),
            auto_reload=False,
            cache_size=-1,
            **options,
        )

    def load(self, name: str) -> str | None:
        """Returns the text of a template or expression."""
        if name.startswith(EXPRESSION):
            return name.removeprefix(EXPRESSION)
        file = self.files.get(name.removeprefix("template/"))
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
        files = self.files
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


def own_version() -> Version:
    """Returns the built-in template."""
    return own_files_as(template.default_source()[1])


@lru_cache(maxsize=1)
def own_files_as(name: str) -> Version:
    return Version(own_questions(), partial(files_in, own_file("template")), name)


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
        if address is not None and not folder.is_dir():
            store = Store.of_address(address)
            if store.find(version) is None:
                store.fetch(address)
        else:
            store = Store.of_folder(folder, scratch)
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
        found = Version(raw, lambda: inside, name)
        asked = {*ABOUT_THE_PROJECT, "preset", *found.questions.choices, LIST}
        # Older templates have no task.
        if found.questions.asked.keys() | {TASK} != asked:
            return None
        supported = all(
            question.keys() <= ENTRIES | ({"multiselect"} if key == LIST else set())
            and question["type"] in ("str", "yaml", "bool")
            for key, question in found.questions.raw.items()
        )
        return found if supported and found.questions.tricks else None
    except MALFORMED:
        return None


def compiled_templates(options: str) -> Any:
    """Returns Jinja's cache of compiled templates, or None if it has no place.

    Jinja compares the cached templates with their texts.

    Args:
        options: options of Jinja, on which compiled templates depend.
    """
    from jinja2 import FileSystemBytecodeCache, __version__
    from platformdirs import user_cache_path

    name = hashlib.sha256(f"{options} {__version__}".encode()).hexdigest()
    directory = user_cache_path("torch-tricks", appauthor=False) / "compiled" / name
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return FileSystemBytecodeCache(str(directory))
    except OSError:
        return None


def complete(
    version: Version, given: Mapping[str, Any], new: Path | None = None
) -> dict[str, Any]:
    """Returns the answers to all questions.

    Args:
        new: folder of a new project, whose other answers are the defaults.

    Raises:
        Refusal: an answer is missing or not allowed.
    """
    questions = version.questions
    # The default name is the folder.
    answers: dict[str, Any] = {"_copier_conf": {"dst_path": new}}
    for name in questions.raw:
        if version.asks(name, answers):
            if name not in given and new is None:
                raise Refusal(f"{name} has no answer")
            answers[name] = (
                given[name] if name in given else version.default(name, answers)
            )
            if name in ABOUT_THE_PROJECT and not isinstance(answers[name], str):
                raise Refusal(f"{name} is no text")
            if fault := version.fault(name, answers):
                raise Refusal(f"'{name}': {fault}")
        elif name in given:
            raise Refusal(f"{name} is not asked for")
        else:
            answers[name] = version.default(name, answers)
    questions.check_preset(answers["preset"])
    questions.check(answers)
    answers[LIST] = [name for name in questions.listable if name in answers["chosen"]]
    del answers["_copier_conf"]
    return answers


def render(
    version: Version,
    source: str,
    directory: Path,
    given: Mapping[str, Any],
    *,
    new: bool = False,
    files: bool = True,
) -> Rendering:
    """Renders a project.

    Args:
        version: the template.
        source: address of the template for the answers file.
        directory: a new folder.
        given: answers.
        new: whether other answers are the defaults, of which the name is that of the folder.
        files: whether to render files, and not only answers.

    Raises:
        UNFIT: an answer is missing or not allowed, or only Copier can render the template.
    """
    answers = complete(version, given, directory if new else None)
    asked = [name for name in version.questions.asked if version.asks(name, answers)]
    recorded = {name: answers[name] for name in asked}
    recorded |= {"_commit": version.name, "_src_path": source}
    if files:
        conf = {"answers_file": ANSWERS_FILE, "dst_path": directory}
        names = {"_copier_answers": recorded, "_copier_conf": conf}
        write(version.render(answers | names), directory)
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
