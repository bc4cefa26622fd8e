"""Statements about other libraries, each with a test, and helpers of the tests."""

import contextlib
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Claim:
    """A statement about a library, quoted from a file."""

    libraries: str
    """Distributions, or git, Python and Linux, separated by spaces."""
    file: str
    quote: str
    test: Callable[[], object]
    """Returns what was seen; raises an AssertionError if the statement is wrong."""


CLAIMS: list[Claim] = []


def claim(libraries: str, file: str, quote: str) -> Callable[[Any], Any]:
    """Adds a statement to the list; the function below tests it."""

    def add(test: Callable[[], object]) -> Callable[[], object]:
        CLAIMS.append(Claim(libraries, file, quote, test))
        return test

    return add


def words(text: str) -> str:
    """Returns a text without line breaks and signs of comments and lists."""
    return " ".join(re.sub(r"(?m)^\s*(#|-|\*)\s", " ", text).split())


def read(file: str) -> str:
    """Returns the words of a file; `template/` is for all files below it with that end."""
    start, _, end = file.partition("/**/")
    paths = (ROOT / start).rglob(end) if end else [ROOT / file]
    return " ".join(words(path.read_text(encoding="utf-8")) for path in paths)


def raised(call: Callable[[], object], kind: type[BaseException] = Exception) -> str:
    """Calls a function that must raise an error, and returns the message."""
    try:
        call()
    except kind as error:
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0][:90]}"
    raise AssertionError("nothing was raised")


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs code in a new process."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        timeout=300,
        check=False,
    )


def printed(code: str, **environment: str) -> str:
    """Runs code in a new process, and returns its output."""
    done = python(code, **environment)
    assert done.returncode == 0, done.stderr[-500:]
    return done.stdout.strip()


def in_source(module: str, text: str) -> str:
    """Finds lines in the source of a module, for behaviour that needs a GPU; returns the place."""
    spec = importlib.util.find_spec(module)
    assert spec is not None and spec.origin is not None, module
    source = Path(spec.origin).read_text(encoding="utf-8")
    found = re.search(r"\s+".join(map(re.escape, text.split())), source)
    assert found, f"not in {module}: {text}"
    return f"{module}, line {source.count(chr(10), 0, found.start()) + 1}: {text}"


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """Yields an empty folder."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)
