"""The catalogue: what people and programs need to know about each trick.

It is a hidden question of `copier.yml`, whose comments say what each entry of a row means.
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
    """The choices that it works with, for each question of which it does not work with all."""
    choices: tuple[str, ...] = ()
    """The forms that it comes in; it then has a question of its own."""
    recommended: bool = False
    once_in_all: bool = False
    """Whether every project had it before there was a row for it."""
    depends: tuple[str, ...] = ()
    """The packages that a project with it requires, such as `h5py>=3.12`."""

    def works(self, question: str, choice: str) -> bool:
        """Returns whether it works with a choice of a question."""
        return choice in self.works_with.get(question, (choice,))

    def asks_for(self, question: str) -> str:
        """Returns the choices of a question that it works with, as they are typed."""
        return " or ".join(f"{question}={one}" for one in self.works_with[question])


def module_of(requirement: str) -> str:
    """Returns the module that a requirement such as `huggingface-hub>=0.30` brings."""
    name = re.split("[^A-Za-z0-9_-]", requirement)[0].lower()
    of_name = {
        "mlflow-skinny": "mlflow",
        "pillow": "PIL",
        "scikit-learn": "sklearn",
    }
    return of_name.get(name, name.replace("-", "_"))


def choices_of(question: Mapping[str, Any]) -> list[str]:
    """Returns the values that a question may have; empty: any."""
    choices = question.get("choices") or []
    return list(choices.values() if isinstance(choices, Mapping) else choices)


def choice_questions(questions: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Returns the questions with choices, each with the entry of rows that lists some of them.

    Raises:
        TypeError: one is no question with choices.
    """
    # Templates before this entry had one such question, from which projects are updated.
    earlier = {"parallel": "forms"} if "parallel" in questions else {}
    entries = questions.get("choice_questions", {}).get("default", earlier)
    for name, entry in entries.items():
        if not isinstance(entry, str) or not questions.get(name, {}).get("choices"):
            raise TypeError(f"{name} is no question with choices")
    return dict(entries)


def read_catalogue(questions: Mapping[str, Mapping[str, Any]]) -> dict[str, Trick]:
    """Returns the rows in the questions of a template, by name.

    What a newer template says of a trick, and this version does not know, is passed over.

    Raises:
        TypeError: a row is none.
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
    """Returns the rows of the template that this version of the tool came with."""
    return read_catalogue(own_questions())


@cache
def own_questions() -> dict[str, Any]:
    """Returns the questions of the template that this version of the tool came with."""
    return parse_questions(own_file("copier.yml").read_bytes())


def parse_questions(content: bytes) -> dict[str, Any]:
    """Reads a `copier.yml`: the questions, and the settings of Copier.

    Raises:
        ValueError, TypeError: it holds no questions.
    """
    import yaml

    try:
        # The loader in C takes a twentieth of the time, where there is one.
        raw = yaml.load(content, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise ValueError(f"copier.yml cannot be read: {error}") from error
    if not isinstance(raw, dict):
        raise TypeError("copier.yml holds no questions")
    return raw


def own_file(name: str) -> Path:
    """Returns where a file of the template is, of which a wheel has a copy."""
    package = Path(__file__).parent
    paths = (package / name, package.parents[1] / name)
    return next(path for path in paths if path.exists())
