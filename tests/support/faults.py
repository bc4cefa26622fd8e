"""Puts a fault into a rendered project, or into its files, and says what happened.

A zygote runs this file in a project: `zygote.run(project, faults.SCRIPT, COMMAND, ...)`.
Those with a fault of the run itself are given the flags of train.py as well.
"""

import io
import json
import os
import pickle
import random
import signal
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

PACKAGE = "leaf_diseases"
SCRIPT = __file__
SAVING = (
    "open aside",
    "write",
    "fsync file",
    "rename",
    "open directory",
    "fsync directory",
    "remove",
)
"""The calls of a save, in order."""


def main() -> None:
    command, *arguments = sys.argv[1:]
    COMMANDS[command](*arguments)


def train(*flags: str) -> None:
    """Does what train.py does when it is the main module."""
    import train
    from leaf_diseases.command_line import as_command
    from leaf_diseases.settings_file import parse_settings

    sys.argv = ["train.py", *flags]
    with as_command():
        train.main(parse_settings(train.__doc__))


def before_saving(number: int, act: Callable[[], None]) -> None:
    """Does something before one of the saves of a run."""
    import train

    save, count = train.save_checkpoint, 0

    def save_checkpoint(run: Any) -> None:
        nonlocal count
        count += 1
        if count == number:
            act()
        save(run)

    train.save_checkpoint = save_checkpoint


def watch_saves(note: Callable[[str, str], None]) -> None:
    """Reports what is called while a checkpoint is saved, before it happens."""

    def wrap(module: Any, name: str, kind: Callable[..., str | None]) -> None:
        plain = getattr(module, name)

        def wrapped(*arguments: Any, **keywords: Any) -> Any:
            event = kind(*arguments)
            if event is not None:
                note(event, target(arguments[0]))
            return plain(*arguments, **keywords)

        setattr(module, name, wrapped)

    def target(value: Any) -> str:
        if isinstance(value, int):
            value = os.readlink(f"/proc/self/fd/{value}")
        return os.fsdecode(value)

    def in_checkpoints(value: Any) -> bool:
        return "/checkpoints" in target(value)

    def named(event: str) -> Callable[..., str | None]:
        return lambda path, *_: event if in_checkpoints(path) else None

    def opened(path: Any, mode: Any = "r", *_: Any) -> str | None:
        return "open aside" if in_checkpoints(path) and mode == "wb" else None

    def opened_low(path: Any, *_: Any) -> str | None:
        return "open directory" if target(path).endswith("/checkpoints") else None

    def flushed(descriptor: int) -> str | None:
        if not in_checkpoints(descriptor):
            return None
        directory = target(descriptor).endswith("/checkpoints")
        return "fsync directory" if directory else "fsync file"

    def removed(path: Any, *_: Any) -> str | None:
        saved = in_checkpoints(path) and target(path).endswith(".pt")
        return "remove" if saved else None

    wrap(io, "open", opened)
    wrap(os, "open", opened_low)
    wrap(os, "fsync", flushed)
    wrap(os, "replace", named("rename"))
    # A save tidies up what is aside at its end: that is gone after a success.
    wrap(os, "unlink", removed)
    import torch

    save = torch.save

    def torch_save(content: Any, file: Any) -> None:
        if in_checkpoints(file.name):
            note("write", file.name)
        save(content, file)

    torch.save = torch_save


def trace(output: str, *flags: str) -> None:
    """Trains, and writes what each save called on what."""
    calls: list[tuple[str, str]] = []
    watch_saves(lambda event, path: calls.append((event, path)))
    train(*flags)
    watched = [(event, Path(path).name) for event, path in calls]
    Path(output).write_text(json.dumps(watched))


def die(event: str, number: str, *flags: str) -> None:
    """Trains, and is killed right before an event happens for the `number`th time."""
    count = 0

    def note(happening: str, _: str) -> None:
        nonlocal count
        count += happening == event
        if count == int(number):
            os.kill(os.getpid(), signal.SIGKILL)

    watch_saves(note)
    train(*flags)


def fill(number: str, *flags: str) -> None:
    """Trains on a disk that is full for checkpoints from one of the saves on.

    What is written aside goes to /dev/full, which the kernel says has no space left.
    """
    plain = io.open

    def full(file: Any, mode: str = "r", *rest: Any, **keywords: Any) -> Any:
        if mode == "wb" and "/checkpoints/" in os.fspath(file):
            Path(file).symlink_to("/dev/full")
        return plain(file, mode, *rest, **keywords)

    def act() -> None:
        io.open = full

    before_saving(int(number), act)
    train(*flags)


def move(number: str, source: str, link: str, *flags: str) -> None:
    """Trains, and before one of the saves moves a directory away, and links its name."""

    def act() -> None:
        Path(source).rename(f"{source}-away")
        Path(source).symlink_to(link)

    before_saving(int(number), act)
    train(*flags)


def describe() -> None:
    """Prints the defaults of settings, those that a resumed run keeps, and their types."""
    from leaf_diseases.checkpoint import FIXED
    from leaf_diseases.settings import Settings

    defaults = Settings().model_dump(mode="json")
    properties = Settings.model_json_schema()["properties"]
    print(json.dumps([defaults, FIXED, properties]))


def damage(path: str, seed: str, flips: str) -> None:
    """Damages copies of a checkpoint, and prints how reading each of them ended.

    Then it prints how many of those that are refused torch.load() would take for others.
    """
    import torch
    from leaf_diseases.checkpoint import read_checkpoint
    from leaf_diseases.errors import UserError

    good = read_checkpoint(Path(path)).state
    outcomes, silent = [], 0
    copy = Path(path).with_name("damaged.pt")
    rng = random.Random(int(seed))
    for kind, content in damages(Path(path), int(flips), rng):
        copy.write_bytes(content)
        try:
            with redirect_stdout(io.StringIO()):
                found = read_checkpoint(copy).state
        except UserError as error:
            outcomes.append([kind, str(error)])
            with suppress(Exception):
                silent += not same(torch.load(copy, weights_only=True), good)
        else:
            outcomes.append([kind, "equal" if same(found, good) else "changed"])
    copy.unlink()
    print(json.dumps([outcomes, silent]))


def same(one: Any, other: Any) -> bool:
    """Whether two nested values are equal bit for bit."""
    import torch

    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(
            *(t.contiguous().reshape(-1).view(torch.uint8) for t in (one, other))
        )
    if isinstance(one, dict) and isinstance(other, dict):
        pairs = zip(one.items(), other.items(), strict=False)
        return len(one) == len(other) and all(
            a == b and same(v, w) for (a, v), (b, w) in pairs
        )
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and repr(one) == repr(other)


def damages(path: Path, flips: int, rng: random.Random) -> Iterator[tuple[str, bytes]]:
    """Yields damaged contents of a checkpoint after the good one, with the kind of each.

    A bit is flipped in each of `flips` copies, and in the directory of the archive, which
    is at its end, of as many.
    """
    good = path.read_bytes()
    yield "untouched", good
    for hundredth in range(100):
        yield "truncated", good[: len(good) * hundredth // 100]
    with zipfile.ZipFile(path) as archive:
        names = good[archive.start_dir :]
    for whole in (good, names):
        for index in range(flips):
            # One in each of so many equal stretches: no part is left out.
            start, stop = (len(whole) * i // flips for i in (index, index + 1))
            flipped = bytearray(good)
            flipped[rng.randrange(start, stop) - len(whole)] ^= 1 << rng.randrange(8)
            yield "flipped", bytes(flipped)
    yield "longer", good + b"\0"
    yield "empty", b""
    yield "text", b"This is a text file.\n" * 99
    yield "zeros", bytes(len(good))
    foreign = io.BytesIO()
    with zipfile.ZipFile(foreign, "w") as archive:
        archive.writestr("text.txt", "This is a text file.")
    yield "foreign", foreign.getvalue()


class RunsCode:
    """Makes a directory when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def attack(directory: str, template: str) -> None:
    """Writes files that run code when a careless program loads them.

    Each makes a directory beside it, of its name and `-ran`.
    """
    import torch

    def place(name: str) -> tuple[Path, RunsCode]:
        return Path(directory, f"{name}.pt"), RunsCode(Path(directory, f"{name}-ran"))

    path, bomb = place("pickle")
    path.write_bytes(pickle.dumps(bomb))
    path, bomb = place("legacy")
    torch.save(bomb, path, _use_new_zipfile_serialization=False)
    path, bomb = place("saved")
    torch.save({"model": bomb}, path)
    path, bomb = place("checkpoint")
    torch.save(torch.load(template, weights_only=True) | {"seed": bomb}, path)
    path, bomb = place("zip")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("zip/data.pkl", pickle.dumps(bomb))
        archive.writestr("zip/version", "3\n")
        archive.writestr("zip/byteorder", "little")


def detonate(path: str) -> None:
    """Loads a file as a careless program would."""
    import torch

    torch.load(path, weights_only=False)


def others(directory: str, source: str) -> None:
    """Writes whole files that are no checkpoint of the run."""
    import torch

    checkpoint = torch.load(source, weights_only=True)
    contents = {
        "weights": checkpoint["model"],
        "list": [1, 2],
        "tensor": torch.zeros(3),
        "past": checkpoint | {"format": checkpoint["format"] - 1},
        "future": checkpoint | {"format": checkpoint["format"] + 1},
        "classes": checkpoint
        | {
            "model": {name: w[:1] for name, w in checkpoint["model"].items() if w.dim()}
        },
        "samples": checkpoint | {"samples": 9},
    }
    for name, content in contents.items():
        path = Path(directory, f"{name}.pt")
        torch.save(content, path)
    print(json.dumps(list(contents)))


COMMANDS: dict[str, Callable[..., None]] = {
    function.__name__: function
    for function in (
        *(trace, die, fill, move),
        *(describe, damage, attack, detonate, others),
    )
}

if __name__ == "__main__":
    main()
