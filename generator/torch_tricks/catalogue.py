"""The catalogue: a row of metadata for each trick.

A row is a file in the folder of the trick, and `copier.yml` makes a hidden question of all. The
comments there explain the entries of a row.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path, PurePath
from typing import Any

Level = bool | str
"""Whether a trick is chosen, or the choice of a question."""


@dataclass(frozen=True)
class Trick:
    """One row of the catalogue."""

    name: str
    title: str
    buys: str
    group: str
    source: str
    wants: str = ""
    goes_with: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    works_with: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Supported choices, for each question with unsupported choices."""
    choices: tuple[str, ...] = ()
    """Its choices, if it has a question of its own."""
    recommended: bool = False
    once_in_all: bool = False
    """Whether older projects have it without a row in their catalogue."""
    depends: tuple[str, ...] = ()
    """Required packages of a project, such as `h5py>=3.12`."""

    @property
    def bounds(self) -> dict[str, tuple[Level, ...]]:
        """The levels of other tricks and questions that go with this trick.

        The page reads them, too. The validators in `copier.yml` have the same rule, and a test
        compares both.
        """
        return {
            **self.works_with,
            **dict.fromkeys(self.needs, (True,)),
            **dict.fromkeys(self.excludes, (False,)),
        }

    def obstacles(self, levels: Mapping[str, Level]) -> list[str]:
        """Returns the tricks and questions whose levels do not go with this trick.

        A trick that is not in `levels`, as in another version, is off.
        """
        bounds = self.bounds.items()
        return [name for name, some in bounds if levels.get(name, False) not in some]

    def works(self, question: str, choice: str) -> bool:
        """Returns whether the trick supports a choice of a question."""
        return choice in self.works_with.get(question, (choice,))

    def asks_for(self, question: str) -> str:
        """Returns the supported choices of a question, in the form of the command line."""
        return " or ".join(f"{question}={one}" for one in self.works_with[question])


def choices_of(question: Mapping[str, Any]) -> list[str]:
    """Returns the allowed values of a question. Empty: any value."""
    choices = question.get("choices") or []
    return list(choices.values() if isinstance(choices, Mapping) else choices)


def choice_questions(questions: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Returns the questions with choices, and the entry of rows that lists supported choices.

    Raises:
        TypeError: a listed question has no choices.
    """
    # Older templates, from which projects are updated, had one such question.
    earlier = {"parallel": "forms"} if "parallel" in questions else {}
    entries = questions.get("choice_questions", {}).get("default", earlier)
    for name, entry in entries.items():
        if not isinstance(entry, str) or not questions.get(name, {}).get("choices"):
            raise TypeError(f"{name} is no question with choices")
    return dict(entries)


def read_catalogue(questions: Mapping[str, Mapping[str, Any]]) -> dict[str, Trick]:
    """Reads the rows of the catalogue from the questions of a template, by name.

    Unknown entries of newer templates are ignored.

    Raises:
        TypeError: a row is invalid.
    """
    known = {entry.name for entry in fields(Trick)}
    entries, tricks = choice_questions(questions), {}
    for name, row in questions.get("catalogue", {}).get("default", {}).items():
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in row.items()
            if key in known
        }
        values["works_with"] = works_with = {}
        for question, entry in entries.items():
            every = choices_of(questions[question])
            some = [choice for choice in every if choice in row.get(entry, every)]
            if some != every:
                works_with[question] = tuple(some)
        trick = Trick(**values | {"name": name})
        texts = (trick.title, trick.buys, trick.group, trick.source, trick.wants, name)
        lists = (
            trick.goes_with,
            trick.needs,
            trick.excludes,
            trick.choices,
            *trick.works_with.values(),
        )
        names = [each for entries in lists for each in entries]
        if not all(isinstance(text, str) for text in (*texts, *names)):
            raise TypeError(f"the row of {name} has other things than texts")
        if trick.choices and name not in entries:
            raise TypeError(f"{name} has choices, and no question")
        tricks[name] = trick
    return tricks


@cache
def own_catalogue() -> dict[str, Trick]:
    """Returns the rows of the built-in template."""
    return read_catalogue(own_questions())


@cache
def own_questions() -> dict[str, Any]:
    """Returns the questions of the built-in template."""
    return read_questions(own_file("copier.yml").parent)


def read_questions(root: Path) -> dict[str, Any]:
    """Reads the questions of a template in a folder.

    Raises:
        ValueError, TypeError: `copier.yml` holds no questions.
    """
    paths = (root / "copier.yml", *root.glob("template/*/row.yml"))
    return parse_questions(
        {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}
    )


def parse_questions(files: Mapping[str, bytes]) -> dict[str, Any]:
    """Parses a `copier.yml`: questions, and settings of Copier.

    Args:
        files: its content and that of the files that it includes, by path.

    Raises:
        ValueError, TypeError: the file holds no questions.
    """
    import yaml

    # The loader in C, if it exists, takes a twentieth of the time.
    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        """Reads `!include`, as Copier does."""

    def include(loader: Any, node: Any) -> list[Any]:
        pattern = str(node.value)
        found = [
            content
            for path, content in sorted(files.items())
            if path.count("/") == pattern.count("/") and PurePath(path).match(pattern)
        ]
        return [*yaml.load_all(b"\n---\n".join(found), Loader)]

    Loader.add_constructor("!include", include)
    try:
        documents = [*yaml.load_all(files["copier.yml"], Loader)]
    except yaml.YAMLError as error:
        raise ValueError(f"copier.yml cannot be read: {error}") from error
    if not all(isinstance(document, dict) for document in documents):
        raise TypeError("copier.yml holds no questions")
    return with_catalogue({k: v for d in documents for k, v in d.items()})


def with_catalogue(questions: Mapping[str, Any]) -> dict[str, Any]:
    """Returns questions with the rows of all tricks as default of `catalogue`, as Jinja has it."""
    if not isinstance(questions.get("catalogue", {}).get("default"), str):
        return dict(questions)  # Older templates have the rows in copier.yml.
    rows = {row["name"]: row for row in questions["rows"]["default"]}
    catalogue = {
        name: {**rows[name], "group": group}
        for group, names in questions["groups"]["default"].items()
        for name in names
    }
    return {**questions, "catalogue": {**questions["catalogue"], "default": catalogue}}


def own_file(name: str) -> Path:
    """Returns the path of a file of the built-in template, in a clone or a wheel."""
    package = Path(__file__).parent
    paths = (package / name, package.parents[1] / name)
    return next(path for path in paths if path.exists())
