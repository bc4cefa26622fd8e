"""The command line: an error that the user can mend is one line."""

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tqdm import tqdm

from .errors import UserError, one_line


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
