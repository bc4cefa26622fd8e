"""The command line: an error that the user can mend is one line."""

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import tyro
from pydantic import BaseModel, ValidationError
from tqdm import tqdm

from .errors import UserError, one_line

Arguments = TypeVar("Arguments", bound=BaseModel)

WORDING = {
    "Value error, ": "",
    "Input should be": "must be",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
}
"""What pydantic says, and how this project does."""


@contextmanager
def as_command() -> Iterator[None]:
    """Runs its block as a command, which ends with exit code 1 after a `UserError`."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A log file gets each line at once, and file names of any encoding.
        sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")
    try:
        yield
    except UserError as error:
        # In the place of a progress bar that may be there.
        tqdm.write(f"error: {one_line(error)}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        tqdm.write("stopped", file=sys.stderr)
        sys.exit(130)


def parse_arguments(
    arguments: type[Arguments],
    description: str | None,
    default: Arguments | None = None,
) -> Arguments:
    """Returns what was typed. A value that cannot be ends the command with exit code 2."""

    def __init__(self: BaseModel, **values: Any) -> None:
        try:
            BaseModel.__init__(self, **values)
        except ValidationError as error:  # Which tyro would show as it is.
            tqdm.write(f"error: {explain(error)}", file=sys.stderr)
            sys.exit(2)

    typed: type[Any] = type(arguments.__name__, (arguments,), {"__init__": __init__})
    found = tyro.cli(typed, description=description, default=default)
    return arguments.model_construct(**dict(found))


def explain(error: ValidationError) -> str:
    """Returns which flags have values that cannot be, and what these must be."""
    causes: dict[str, str] = {}
    for fault in error.errors():
        cause = fault["msg"]
        if fault["type"] == "greater_than" and isinstance(fault["ctx"]["gt"], int):
            cause = f"must be at least {fault['ctx']['gt'] + 1}"
        elif fault["type"] == "too_short":
            cause = "needs at least 1 value"
        for theirs, ours in WORDING.items():
            cause = cause.replace(theirs, ours)
        flag = "".join(f"--{name} " for name in fault["loc"][:1]).replace("_", "-")
        causes.setdefault(flag, cause)  # The first cause brings others along.
    return "; ".join(map("".join, causes.items()))
