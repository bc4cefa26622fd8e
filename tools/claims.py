"""Tests the statements of the documentation and the template about other libraries.

    make claims
    make claims CLAIMS=h5py

Each statement in tools/claimed/ is quoted from a file, and tests/repo/test_claims.py compares the
quotes. Run it with new releases: it prints each statement with the versions and what was seen, and
exits with code 1 if one no longer holds. `NOT_RUN` lists statements that need a GPU, a cluster or
a network.
"""

import functools
import importlib
import importlib.metadata
import pkgutil
import platform
import subprocess
import sys
import traceback

import claimed
from claimed.claim import CLAIMS
from claimed.not_run import NOT_RUN

for module in pkgutil.iter_modules(claimed.__path__):
    importlib.import_module(f"claimed.{module.name}")


def version(name: str) -> str:
    """Returns the version of a distribution, or of git, Python or Linux."""
    if name == "git":
        return subprocess.check_output(["git", "version"], text=True).split()[2]
    if name == "Python":
        return platform.python_version()
    if name == "Linux":
        return platform.release()
    return importlib.metadata.version(name)


def main(words_asked: list[str]) -> int:
    """Tests the statements whose file, quote or library contains one of the words."""
    run = functools.cache(lambda test: test())  # Several statements may share a test.
    states = {"holds": 0, "WRONG": 0, "not run": 0}

    def asked(*texts: str) -> bool:
        text = " ".join(texts).lower()
        return not words_asked or any(word.lower() in text for word in words_asked)

    for each in CLAIMS:
        if not asked(each.libraries, each.file, each.quote):
            continue
        versions = ", ".join(f"{n} {version(n)}" for n in each.libraries.split())
        try:
            seen = run(each.test)
            state = "holds"
        except Exception as error:  # noqa: BLE001 - of any library
            state = "WRONG"
            last = traceback.extract_tb(error.__traceback__)[-1]
            seen = f"{type(error).__name__}: {error} ({last.name}, line {last.lineno})"
        states[state] += 1
        print(f"{state}  {each.quote}\n       {each.file}; {versions}", flush=True)
        if seen is not None:
            print(f"       seen: {seen}", flush=True)
    for file, quote, reason in NOT_RUN:
        if asked(file, quote, reason):
            states["not run"] += 1
            print(f"not run  {quote}\n       {file}; {reason}")
    print(", ".join(f"{count} {state}" for state, count in states.items()))
    return states["WRONG"] > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
