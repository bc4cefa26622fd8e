"""The questions of a template: tricks, presets, and checks of answers."""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from torch_tricks.catalogue import (
    Trick,
    choice_questions,
    choices_of,
    read_catalogue,
)
from torch_tricks.errors import Refusal

OFF = "none"
"""The choice without the trick."""

LIST = "tricks"
"""The question for the list of tricks, except tricks with choices."""

TASK = "task"
"""The question for the task, which older templates do not have."""

ABOUT_THE_PROJECT = {"project_name", TASK, "package_name", "description", "author"}
"""Questions that are not about tricks."""


@dataclass(frozen=True)
class Questions:
    """The questions of a `copier.yml`."""

    raw: Mapping[str, Mapping[str, Any]]
    """Questions in the format of Copier: attributes by name."""

    @cached_property
    def asked(self) -> dict[str, Mapping[str, Any]]:
        """Questions to prompt for, without computed questions."""
        return {
            name: question
            for name, question in self.raw.items()
            if question.get("when") is not False
        }

    @cached_property
    def tricks(self) -> dict[str, Trick]:
        return read_catalogue(self.raw)

    @cached_property
    def choices(self) -> dict[str, list[str]]:
        """Questions with choices that tricks may depend on."""
        return {name: choices_of(self.raw[name]) for name in choice_questions(self.raw)}

    @cached_property
    def fixed(self) -> set[str]:
        """Questions whose answers a project keeps, such as `task`."""
        return self.choices.keys() - self.tricks.keys()

    def check_fixed(self, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        """Refuses changed answers to questions whose answers a project keeps."""
        for name in self.fixed & now.keys():
            if now[name] != before[name]:
                raise Refusal(
                    f"the {name} of a project cannot change: make a new project with "
                    f"torch-tricks new --{name} {now[name]}"
                )

    @property
    def presets(self) -> list[str]:
        return choices_of(self.asked["preset"])

    def changed(
        self, answers: Mapping[str, Any], take: Iterable[str], leave: Iterable[str]
    ) -> dict[str, Any]:
        """Returns the answers about tricks after adding some and leaving out others.

        Args:
            answers: answers before the change.
            take: tricks to add, as NAME or NAME=CHOICE. The default is the current choice, or
                else the first choice.
            leave: names of tricks to leave out.

        Raises:
            Refusal: a trick or choice does not exist or is in both lists, or tricks exclude each
                other.
        """
        taken, left = self.find(take), self.find(leave)
        if both := sorted(taken.keys() & left.keys()):
            raise Refusal(f"{both[0]} is both added and left out: choose one")
        listed = {*answers[LIST], *taken} - left.keys()
        values: dict[str, Any] = {
            LIST: [name for name in self.listable if name in listed]
        }
        for name, trick in self.tricks.items():
            if trick.choices:
                choice = taken.get(name)
                if name in taken and answers[name] == OFF:
                    choice = choice or trick.choices[0]
                values[name] = OFF if name in left else choice or answers[name]
        self.check({**answers, **values}, kept=listed - taken.keys())
        return values

    @property
    def listable(self) -> list[str]:
        """Tricks for the list. Tricks with choices have questions of their own."""
        return [name for name, trick in self.tricks.items() if not trick.choices]

    def check(self, answers: Mapping[str, Any], kept: Container[str] = ()) -> None:
        """Refuses tricks that do not exist, or that exclude each other.

        Copier would replace such a recorded list by the default.

        Args:
            kept: tricks that were in before, and that the command line does not name.
        """
        for name, choices in self.choices.items():
            if answers[name] not in choices:
                raise Refusal(_unknown(f"choice of {name}", answers[name], choices))
        if not isinstance(answers[LIST], list):
            raise Refusal(f"{LIST} must be a list, such as [{self.listable[0]}]")
        self._check_listable(answers[LIST])
        levels = {name: name in answers[LIST] for name in self.listable}
        levels |= {question: answers[question] for question in self.choices}
        for name in answers[LIST]:
            for other in self.tricks[name].obstacles(levels):
                raise Refusal(self._objection(name, other, answers, name in kept))

    def _objection(
        self, name: str, other: str, answers: Mapping[str, Any], kept: bool
    ) -> str:
        """Returns the message for a trick that another trick or answer does not go with."""
        trick = self.tricks[name]
        if other in trick.excludes:
            return f"{name} excludes {other}: choose one of them"
        needed = trick.asks_for(other) if other in self.choices else other
        if other in self.fixed:
            return (
                f"{name} is not for {other}={answers[other]}: leave it out, or make a "
                f"project with {needed}"
            )
        remedy = "choose both, or neither"
        if other in self.choices:
            remedy = f"add {other}={trick.works_with[other][0]} too"
        return f"{name} needs {needed}: {f'remove {name} too' if kept else remedy}"

    def advice(self, chosen: Sequence[str]) -> list[str]:
        """Returns a line for each trick that is of little use without another trick."""
        return [
            f"{name} needs {self.tricks[name].wants}: torch-tricks add {other}"
            for name in chosen
            for other in self.tricks[name].goes_with
            if other not in chosen
        ]

    def _check_listable(self, names: Iterable[Any]) -> None:
        for name in names:
            if name not in self.listable:
                raise Refusal(_unknown("trick", name, self.listable, self._forms))

    def split(self, answers: dict[str, Any]) -> tuple[list[str], list[str]]:
        """Removes the answers about tricks; returns the tricks to add and to leave out."""
        take, leave = [], []
        listed = answers.pop(LIST, None)
        if listed is not None:
            take += listed
            leave += [name for name in self.listable if name not in listed]
        for name in self.tricks:
            answer = answers.pop(name, None)
            if answer == OFF:
                leave.append(name)
            elif answer is not None:
                take.append(f"{name}={answer}")
        return take, leave

    @property
    def _forms(self) -> dict[str, str]:
        """NAME=CHOICE by choice, for hints if only the choice is typed."""
        tricks = self.tricks.values()
        return {form: f"{t.name}={form}" for t in tricks for form in t.choices}

    def check_preset(self, preset: str) -> None:
        """Refuses an unknown preset."""
        if preset not in self.presets:
            raise Refusal(_unknown("preset", preset, self.presets))

    def find(self, words: Iterable[str]) -> dict[str, str | None]:
        """Parses tricks from a command line, as NAME or NAME=CHOICE.

        Returns:
            The choice of each name, or None for a name without a choice.

        Raises:
            Refusal: there is no such trick, or no such choice.
        """
        found: dict[str, str | None] = {}
        for word in words:
            name, equals, choice = word.partition("=")
            trick = self.tricks.get(name)
            if name in self.fixed:
                raise Refusal(
                    f"{name} is no trick, and a project keeps its {name}: make a new project "
                    f"with torch-tricks new --{name} {choice or self.choices[name][0]}"
                )
            if trick is None:
                raise Refusal(_unknown("trick", name, self.tricks, self._forms))
            if equals and not trick.choices:
                raise Refusal(f"{name} has no choices: write {name}, without ={choice}")
            if equals and choice not in trick.choices:
                raise Refusal(_unknown(f"choice of {name}", choice, trick.choices))
            found[name] = choice if equals else None
        return found

    def read_data(self, pairs: Iterable[str]) -> dict[str, Any]:
        """Parses answers from a command line, as NAME=VALUE.

        Raises:
            Refusal: there is no such question, or its type or choices do not allow the value.
        """
        data: dict[str, Any] = {}
        for pair in pairs:
            name, equals, value = pair.partition("=")
            if not equals:
                raise Refusal(f"--data {pair} has no value: write --data {name}=VALUE")
            if name in self.tricks.keys() - self.asked.keys():
                raise Refusal(f"{name} is a trick: write --with or --without {name}")
            if name not in self.asked:
                raise Refusal(_unknown("question", name, self.asked))
            data[name] = self._read_value(name, value)
        return data

    def _read_value(self, name: str, value: str) -> Any:
        question = self.asked[name]
        if name == LIST:
            listed = [part.strip() for part in value.strip("[] ").split(",")]
            listed = [part for part in listed if part]
            self._check_listable(listed)
            return listed
        choices = choices_of(question)
        if choices and value not in choices:
            raise Refusal(_unknown(f"choice of {name}", value, choices))
        return value


def _unknown(
    what: str, name: str, known: Iterable[str], other: Mapping[str, str] | None = None
) -> str:
    """Returns the message for an unknown name, with a similar name.

    Args:
        other: names to suggest for other words.
    """
    names, meant = list(known), other or {}
    matches = get_close_matches(str(name).lower(), [*names, *meant], n=1, cutoff=0.5)
    hint = f"there is {', '.join(names)}"
    if matches:
        hint = f"did you mean {meant.get(matches[0], matches[0])}?"
    return f'no {what} is called "{name}"; {hint}'
