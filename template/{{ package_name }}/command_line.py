"""Command-line parsing, and one-line messages for user errors."""

import difflib
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import field, make_dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

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
"""Phrases of pydantic, with their replacements."""


class Output(io.FileIO):
    """A pipe or file of printed lines, whose reader may end first, as `head` does."""

    outlived = False
    """Whether the command continues if lines cannot be written."""
    failed = False

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if not self.outlived and not isinstance(error, BrokenPipeError):
                raise
            failed, self.failed = self.failed, True
            if not failed and not self.outlived:
                sys.exit(141)  # As the shell has it for a closed pipe.
            if not failed:
                line = f"output ended ({error.strerror}): the command continues\n"
                with suppress(OSError):  # Not through sys.stderr, which may write this.
                    os.write(2, line.encode())
            return len(data)


def open_output(stream: Any, outlived: bool) -> Any:
    """Returns a stream that prints each line at once, through `Output` if possible."""
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    raw = getattr(stream.buffer, "raw", stream.buffer)  # Without PYTHONUNBUFFERED.
    if isinstance(raw, io.FileIO) and not isinstance(raw, Output) and not raw.isatty():
        stream.flush()
        raw = Output(raw.fileno(), "w", closefd=False)
        stream = io.TextIOWrapper(io.BufferedWriter(raw), stream.encoding)
    if isinstance(raw, Output):
        raw.outlived = outlived
    # File names may have any encoding.
    stream.reconfigure(line_buffering=True, errors="backslashreplace")
    return stream


@contextmanager
def as_command(outlives_output: bool = False) -> Iterator[None]:
    """Prints a `UserError` of its block as one line, and exits with code 1.

    Args:
        outlives_output: continue if the reader of printed lines ends, or the disk is
            full. By default, the command exits without a message if its reader ends.
    """
    sys.stdout = open_output(sys.stdout, outlives_output)
    sys.stderr = open_output(sys.stderr, outlives_output)
    try:
        yield
    except UserError as error:
        # Clears a progress bar first.
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
    """Parses the flags. A wrong flag or value ends the command with exit code 2."""
    found, unknown = tyro.cli(
        group_flags(arguments, default or arguments.model_construct()),
        description=description,
        return_unknown_args=True,
    )
    flags: dict[str, Any] = {}
    for name in [name for name in vars(found) if name.startswith("group_")]:
        flags |= vars(vars(found).pop(name))
    try:
        if not unknown:
            return arguments(**flags, **vars(found))
        cause = explain_unknown(unknown, list(flags))
    except ValidationError as error:
        cause = explain(error)
    tqdm.write(f"error: {cause}", file=sys.stderr)
    sys.exit(2)


def group_flags(arguments: type[BaseModel], defaults: BaseModel) -> Any:
    """Builds a dataclass for tyro: positional arguments, and one field per flag group.

    A field with a title begins a group. The fields of a subclass come first: without a
    title, their group has the name of the script.
    """
    types = get_type_hints(arguments, include_extras=True)
    added = arguments.__annotations__
    groups: dict[str, list[Any]] = {}
    boxes: list[Any] = []
    title = Path(sys.argv[0]).stem
    for name in sorted(arguments.model_fields, key=lambda name: name not in added):
        info = arguments.model_fields[name]
        title = info.title or title
        words = " ".join((info.description or "").split())
        # Not tyro's OmitArgPrefixes: flags of a nested model keep its prefix.
        argument = tyro.conf.arg(help=words, prefix_name=False)
        kind: Any = Annotated[types[name], argument]
        value: Any = field()
        if hasattr(defaults, name):
            value = field(default_factory=partial(getattr, defaults, name))
        positional = tyro.conf.Positional in info.metadata
        # In a group, an error would name the group as well.
        place = boxes if positional else groups.setdefault(title, [])
        place.append((name, kind, value))
    for title, fields in groups.items():
        box: Any = make_dataclass("Group", fields, kw_only=True)
        # Without a help of its own, a box repeats the docstring of its dataclass.
        named: Any = Annotated[box, tyro.conf.arg(name=title, help="")]
        boxes.append((f"group_{len(boxes)}", named))
    return make_dataclass("Groups", boxes, kw_only=True)


def explain_unknown(typed: list[str], names: list[str]) -> str:
    """Returns the error message for an unknown flag."""
    script = Path(sys.argv[0]).name
    word = next((word for word in typed if word.startswith("-")), typed[0])
    flag = word.partition("=")[0]
    if not flag.startswith("-"):
        return f"unexpected argument {flag}: see python {script} --help"
    # The flag of `as_json` is --json.
    flags = ["--" + n.removeprefix("as_").replace("_", "-") for n in names]
    close = difflib.get_close_matches(flag, {*flags} - {flag})
    similar = f" (similar: {', '.join(close)})" if close else ""
    return (
        f"this project has no {flag}{similar}: see python {script} --help, or "
        "torch-tricks list for a trick that has it"
    )


def explain(error: ValidationError) -> str:
    """Returns the error message for invalid values: each flag with its rule."""
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
        causes.setdefault(flag, cause)  # The first cause may raise others.
    return "; ".join(map("".join, causes.items()))
