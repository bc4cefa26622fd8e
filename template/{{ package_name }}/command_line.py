"""The command line: settings in, and one line out if something is wrong."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import TypeVar

import torch
import tyro

from .errors import UserError, one_line

Arguments = TypeVar("Arguments")


def parse_arguments(kind: type[Arguments], description: str | None) -> Arguments:
    """Reads the command line into a dataclass, whose fields are the flags.

    A mistake ends the program with exit code 2. tyro says what it is; what the dataclass
    itself refuses is one line.
    """
    printed = io.StringIO()
    try:
        with redirect_stderr(printed):
            return tyro.cli(kind, description=description)
    except (SystemExit, ValueError) as stop:
        # Newer versions of tyro catch the error of the dataclass, draw a box, and exit.
        error = stop if isinstance(stop, ValueError) else stop.__context__
        if isinstance(error, ValueError):
            print(f"error: {error}", file=sys.stderr)
            sys.exit(2)
        sys.stderr.write(printed.getvalue())
        raise


@contextmanager
def as_command() -> Iterator[None]:
    """Runs its block as a command, whose lines come at once and whose errors are a line.

    An error that the user can mend ends the program with exit code 1.
    """
    with (
        open(os.devnull, "w", errors="backslashreplace") as nowhere,
        # Where they are closed, a progress bar would fail, or write into the next file.
        redirect_stdout(sys.stdout or nowhere),
        redirect_stderr(sys.stderr or nowhere),
    ):
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
            print(f"error: {out_of_memory(error)}", file=sys.stderr)
            sys.exit(1)
        except OSError as error:
            if not is_of_output(error):
                raise  # It was a file, or the pipe to another process, which has died.
            # Python would try again at its end, and complain.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            # Whoever closed a pipe has seen enough.
            if not isinstance(error, BrokenPipeError):
                reason = f"is the disk full? ({error.strerror})"
                print(f"error: cannot write the output, {reason}", file=sys.stderr)
            sys.exit(1)
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)
            sys.exit(130)


def is_of_output(error: OSError) -> bool:
    """Returns whether an error was met in writing to the standard output."""
    try:
        sys.stdout.flush()  # What could not be written is still to be.
    except OSError as again:
        return again.errno == error.errno
    return False


def is_out_of_memory(error: Exception) -> bool:
    """Returns whether Python, a GPU or the CPU part of torch ran out of memory."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return "DefaultCPUAllocator" in str(error) or "out of memory" in str(error)


def out_of_memory(error: Exception) -> str:
    """Returns one line with what torch said of sizes and of the device."""
    advice = "out of memory: use smaller batches or images"
    said = " ".join(str(error).split())
    return f"{advice} ({said})" if said else advice
