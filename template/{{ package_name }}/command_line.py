"""Command-line parsing, and one-line messages for user errors."""

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


class Output(io.FileIO):
    """A pipe, file or terminal that may end before the command, as with `head`."""

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
    if isinstance(raw, io.FileIO) and not isinstance(raw, Output):
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
        outlives_output: continue if the reader of printed lines ends, the terminal is
            closed, or the disk is full. By default, the command exits without a message
            if its reader ends.
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
    found = tyro.cli(
        group_flags(arguments, default or arguments.model_construct()),
        description=description,
    )
    flags: dict[str, Any] = {}
    for name, value in vars(found).items():
        flags |= vars(value) if name.startswith("group_") else {name: value}
    paths = {name: path for name, path in flags.items() if isinstance(path, Path)}
    flags |= {name: expand_home(path) for name, path in paths.items()}
    try:
        return arguments(**flags)
    except ValidationError as error:
        tqdm.write(f"error: {explain(error)}", file=sys.stderr)
        sys.exit(2)


def expand_home(path: str | Path) -> Path:
    """Expands `~`, which bash leaves in `--data-dir=~/images`, as TOML does."""
    return Path(os.path.expanduser(path))


def group_flags(arguments: type[BaseModel], default: BaseModel) -> Any:
    """Builds a dataclass for tyro, with a nested dataclass for each group of flags.

    A field with a title begins a group.
    """
    types = get_type_hints(arguments, include_extras=True)
    groups: dict[str, list[Any]] = {}
    title = ""
    for name, info in arguments.model_fields.items():
        title = info.title or title
        words = " ".join((info.description or "").split())
        # Not tyro's OmitArgPrefixes: flags of a nested model keep its prefix.
        kind: Any = Annotated[types[name], tyro.conf.arg(help=words, prefix_name=False)]
        value: Any = field()
        if hasattr(default, name):
            value = field(default_factory=partial(getattr, default, name))
        groups.setdefault(title, []).append((name, kind, value))
    outer = groups.pop("", [])
    for title, fields in groups.items():
        group: Any = make_dataclass("Group", fields, kw_only=True)
        # Without a help of its own, a group repeats the docstring of its dataclass.
        named: Any = Annotated[group, tyro.conf.arg(name=title, help="")]
        outer.append((f"group_{title}", named))
    return make_dataclass("Groups", outer, kw_only=True)


def explain(error: ValidationError) -> str:
    """Returns one line for invalid values: each with its name and its rule."""
    errors = error.errors()
    # Of a union, pydantic also names the types, and those that a value is not.
    ruled = {e["loc"][:1] for e in errors if not e["type"].endswith("_type")}
    faults = [
        (
            *map(str, fault["loc"][:1]),
            *(str(part) for part in fault["loc"][1:] if isinstance(part, int)),
            fault["msg"].removeprefix("Value error, "),
        )
        for fault in errors
        if not (fault["type"].endswith("_type") and fault["loc"][:1] in ruled)
    ]
    return "; ".join(map(": ".join, faults))
