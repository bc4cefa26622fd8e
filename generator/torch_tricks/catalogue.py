"""The catalogue: a row of metadata for each trick.

It is a hidden question of `copier.yml`. The comments there explain the entries of a row.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any


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

    def works(self, question: str, choice: str) -> bool:
        """Returns whether the trick supports a choice of a question."""
        return choice in self.works_with.get(question, (choice,))

    def asks_for(self, question: str) -> str:
        """Returns the supported choices of a question, in the form of the command line."""
        return " or ".join(f"{question}={one}" for one in self.works_with[question])


def module_of(requirement: str) -> str:
    """Returns the module of a requirement, such as `huggingface-hub>=0.30`."""
    name = re.split("[^A-Za-z0-9_-]", requirement)[0].lower()
    of_name = {
        "mlflow-skinny": "mlflow",
        "pillow": "PIL",
        "scikit-learn": "sklearn",
    }
    return of_name.get(name, name.replace("-", "_"))


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
        trick = Trick(name=name, **values)
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
    return parse_questions(own_file("copier.yml").read_bytes())


def parse_questions(content: bytes) -> dict[str, Any]:
    """Parses a `copier.yml`: questions, and settings of Copier.

    Raises:
        ValueError, TypeError: the file holds no questions.
    """
    import yaml

    try:
        # The loader in C, if it exists, takes a twentieth of the time.
        raw = yaml.load(content, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise ValueError(f"copier.yml cannot be read: {error}") from error
    if not isinstance(raw, dict):
        raise TypeError("copier.yml holds no questions")
    return raw


def own_file(name: str) -> Path:
    """Returns the path of a file of the built-in template, in a clone or a wheel."""
    package = Path(__file__).parent
    paths = (package / name, package.parents[1] / name)
    return next(path for path in paths if path.exists())
