"""The questions of a template: which tricks and presets there are, and what may be answered."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from torch_tricks.errors import Refusal

YES = frozenset({"true", "yes", "on", "y", "t", "1"})
NO = frozenset({"false", "no", "off", "n", "f", "0"})
OFF = "none"
"""The choice of a trick that leaves it out."""


@dataclass(frozen=True)
class Trick:
    """A trick as its question describes it."""

    name: str
    title: str
    buys: str
    """What the user gets from it."""
    needs: str
    """What it takes to be of use; empty if nothing."""
    choices: tuple[str, ...]
    """The forms that it comes in, the default one first; empty if there is only one."""

    @property
    def off(self) -> bool | str:
        """The answer that leaves it out."""
        return OFF if self.choices else False

    @property
    def on(self) -> bool | str:
        """The answer that takes it, in its first form."""
        return self.choices[0] if self.choices else True


@dataclass(frozen=True)
class Questions:
    """What `copier.yml` asks.

    A trick is a question that is asked only under the preset `custom`.
    """

    raw: Mapping[str, Mapping[str, Any]]
    """The questions as Copier reads them: attributes by name."""
    needs: Mapping[str, str]
    """What tricks need, by name."""

    @cached_property
    def asked(self) -> dict[str, Mapping[str, Any]]:
        """The questions that people answer, without those that are computed."""
        return {
            name: question
            for name, question in self.raw.items()
            if question.get("when") is not False
        }

    @cached_property
    def tricks(self) -> dict[str, Trick]:
        return {
            name: self._trick(name, question)
            for name, question in self.asked.items()
            if "preset" in str(question.get("when", ""))
        }

    def _trick(self, name: str, question: Mapping[str, Any]) -> Trick:
        title, _, buys = str(question.get("help", name)).partition(": ")
        choices = tuple(value for value in _choices(question) if value != OFF)
        return Trick(name, title, buys, self.needs.get(name, ""), choices)

    @property
    def presets(self) -> list[str]:
        return _choices(self.asked["preset"])

    def chosen(self, answers: Mapping[str, Any]) -> list[str]:
        """Returns the tricks that answers to all questions take."""
        return [n for n, trick in self.tricks.items() if answers[n] != trick.off]

    def changed(
        self, answers: Mapping[str, Any], take: Iterable[str], leave: Iterable[str]
    ) -> dict[str, bool | str]:
        """Returns the answers for all tricks when some are taken and some are left out.

        Args:
            answers: what the answers are before.
            take: tricks, each as NAME or NAME=CHOICE; without a choice it keeps the one that it
                has, or gets its first.
            leave: names of tricks.

        Raises:
            Refusal: there is no such trick or choice, or one is in both lists.
        """
        taken, left = self.find(take), self.find(leave)
        if both := sorted(taken.keys() & left.keys()):
            raise Refusal(f"{both[0]} is both taken and left out: choose one")
        values = {name: answers[name] for name in self.tricks}
        for name, choice in taken.items():
            trick = self.tricks[name]
            if choice is not None or values[name] == trick.off:
                values[name] = choice or trick.on
        return values | {name: self.tricks[name].off for name in left}

    def split(self, answers: dict[str, Any]) -> tuple[list[str], list[str]]:
        """Takes the answers about tricks out; returns which are taken, and which left out."""
        take, leave = [], []
        for name, trick in self.tricks.items():
            answer = answers.pop(name, None)
            if answer == trick.off:
                leave.append(name)
            elif answer is not None:
                take.append(f"{name}={answer}" if trick.choices else name)
        return take, leave

    @property
    def _forms(self) -> dict[str, str]:
        """How a choice of a trick is written, by its own name, which people may try."""
        tricks = self.tricks.values()
        return {form: f"{t.name}={form}" for t in tricks for form in t.choices}

    def check_preset(self, preset: str) -> None:
        """Refuses a preset that does not exist."""
        if preset not in self.presets:
            raise Refusal(_unknown("preset", preset, self.presets))

    def find(self, words: Iterable[str]) -> dict[str, bool | str | None]:
        """Reads tricks from a command line, each as NAME or NAME=CHOICE.

        Returns:
            for each name its choice, or None where only the name was given.

        Raises:
            Refusal: there is no such trick, or no such choice.
        """
        found: dict[str, bool | str | None] = {}
        for word in words:
            name, equals, choice = word.partition("=")
            trick = self.tricks.get(name)
            if trick is None:
                raise Refusal(_unknown("trick", name, self.tricks, self._forms))
            if equals and not trick.choices:
                raise Refusal(f"{name} has no choices: write {name}, without ={choice}")
            if equals and choice not in trick.choices:
                raise Refusal(_unknown(f"choice of {name}", choice, trick.choices))
            found[name] = choice if equals else None
        return found

    def read_data(self, pairs: Iterable[str]) -> dict[str, Any]:
        """Reads answers from a command line, each as NAME=VALUE.

        Raises:
            Refusal: there is no such question, or its type or choices do not allow the value.
        """
        data: dict[str, Any] = {}
        for pair in pairs:
            name, equals, value = pair.partition("=")
            if not equals:
                raise Refusal(f"--data {pair} has no value: write --data {name}=VALUE")
            if name not in self.asked:
                raise Refusal(_unknown("question", name, self.asked))
            data[name] = self._read_value(name, value)
        return data

    def _read_value(self, name: str, value: str) -> Any:
        question = self.asked[name]
        if choices := _choices(question):
            if value not in choices:
                raise Refusal(_unknown(f"choice of {name}", value, choices))
        elif question.get("type") == "bool":
            if value.lower() not in YES | NO:
                raise Refusal(
                    f"{name} is a yes-or-no question: write {name}=true or {name}=false"
                )
            return value.lower() in YES
        return value


def _choices(question: Mapping[str, Any]) -> list[str]:
    choices = question.get("choices") or []
    return list(choices.values() if isinstance(choices, Mapping) else choices)


def _unknown(
    what: str, name: str, known: Iterable[str], other: Mapping[str, str] | None = None
) -> str:
    """Returns the sentence about a name that does not exist, with the nearest that does.

    Args:
        other: what those who write one of these names mean.
    """
    names, meant = list(known), other or {}
    matches = get_close_matches(name.lower(), [*names, *meant], n=1, cutoff=0.5)
    hint = f"there is {', '.join(names)}"
    if matches:
        hint = f"did you mean {meant.get(matches[0], matches[0])}?"
    return f'no {what} is called "{name}"; {hint}'
