"""Statements about torch: saving and loading."""

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from claimed.claim import claim, python, raised


@claim(
    "torch",
    "docs/tricks/resume.md",
    "`weights_only=True` refuses NumPy arrays, `Path` and dataclasses.",
)
def _() -> object:
    @dataclass
    class Settings:
        lr: float = 0.1

    globals()["Settings"] = Settings
    Settings.__qualname__ = "Settings"
    for value in (np.zeros(2), Path("a"), Settings()):
        file = io.BytesIO()
        torch.save(value, file)
        file.seek(0)
        seen = raised(lambda f=file: torch.load(f, weights_only=True))
    return seen


@claim(
    "torch",
    "docs/recipes/saving.md",
    "It refuses other types, such as NumPy numbers: save `float(score)`.",
)
def _() -> object:
    file = io.BytesIO()
    torch.save({"score": np.float32(1)}, file)
    file.seek(0)
    return raised(lambda: torch.load(file))


@claim("torch", "docs/tricks/resume.md", "`torch.load` verifies no checksums.")
def _() -> object:
    file = io.BytesIO()
    torch.save(torch.zeros(1000), file)
    data = bytearray(file.getvalue())
    place = data.find(bytes(400)) + 200
    data[place] ^= 1
    loaded = torch.load(io.BytesIO(bytes(data)), weights_only=True)
    assert loaded.count_nonzero() == 1
    return "a flipped bit became a number"


@claim(
    "torch",
    "template/**/checkpoint*.py.jinja",
    "torch.load(weights_only=True) refuses arrays.",
)
def _() -> object:
    file = io.BytesIO()
    torch.save(np.random.get_state(legacy=False), file)
    file.seek(0)
    return raised(lambda: torch.load(file, weights_only=True))


@claim(
    "torch",
    "template/**/files.py.jinja",
    "torch.save() raises a RuntimeError from the OSError of the file.",
)
def _() -> object:
    seen = python("""
        import resource, signal, tempfile, torch
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        with tempfile.TemporaryFile() as file:
            try:
                torch.save(torch.zeros(100_000), file)
            except RuntimeError as error:
                print(type(error.__context__).__name__, error.__context__)
    """)
    assert seen.stdout.startswith("OSError"), seen
    return seen.stdout.strip()
