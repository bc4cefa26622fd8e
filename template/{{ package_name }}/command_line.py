"""The command line: settings in, and one line out if something is wrong."""

import io
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from typing import TypeVar

import torch
import tyro

Arguments = TypeVar("Arguments")


class UserError(Exception):
    """Something is wrong outside the code; the message says what to do about it."""


def parse_arguments(kind: type[Arguments], description: str | None) -> Arguments:
    """Reads the command line into a dataclass, whose fields are the flags.

    A mistake ends the program with one line and exit code 2.
    """
    printed = io.StringIO()
    try:
        with redirect_stderr(printed):
            return tyro.cli(kind, description=description)
    except ValueError as error:  # From a dataclass; newer versions of tyro print it.
        message = str(error)
    except SystemExit as stop:
        if not stop.code:
            raise
        # tyro draws a coloured box around several lines, and rules between them.
        text = re.sub(r"\x1b\[[0-9;]*m", "", printed.getvalue())
        lines = [line.strip(" │") for line in text.splitlines()[1:-1]]
        message = re.sub(" ?─+", ";", " ".join(lines))
    print(f"error: {message}", file=sys.stderr)
    sys.exit(2)


def one_line(error: UserError) -> str:
    """Returns the message of an error in one line."""
    # From a data loading process the message comes behind its whole traceback.
    message = str(error).rpartition("UserError: ")[2]
    # What another library said, which is quoted, may take several lines.
    return " ".join(message.split())


@contextmanager
def as_command() -> Iterator[None]:
    """Runs its block as a command, whose lines come at once and whose errors are a line.

    An error that the user can mend ends the program with exit code 1.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A file would get the lines much later, and some names would be an error.
        sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")
    try:
        yield
    except UserError as error:
        print(f"error: {one_line(error)}", file=sys.stderr)
        sys.exit(1)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        print("error: out of memory: use smaller batches or images", file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError:
        try:
            print(flush=True)
        except BrokenPipeError:
            # Whoever read has seen enough; Python would complain again at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        raise  # It was the pipe to another process, which has died.
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)


def is_out_of_memory(error: Exception) -> bool:
    """Returns whether Python, a GPU or the CPU part of torch ran out of memory."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return "DefaultCPUAllocator" in str(error)
