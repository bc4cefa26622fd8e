"""The command line: `torch-tricks`."""

import os
import sys
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from torch_tricks.catalogue import own_catalogue
from torch_tricks.errors import Refusal
from torch_tricks.git import GitError, forget_other_repositories

REFUSED = 2
INTERRUPTED = 130


class Commands(TyperGroup):
    """The commands, which end in one line when they are refused or stopped."""

    def main(self, *args: Any, standalone_mode: bool = True, **options: Any) -> Any:
        if not standalone_mode:
            return super().main(*args, standalone_mode=False, **options)
        forget_other_repositories()
        # Whoever closed one of them, as with `>&-`, wants nothing from it.
        for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
            if getattr(sys, name) is None:
                setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
        # File names and diffs may hold bytes that are no text.
        sys.stdout.reconfigure(errors="backslashreplace")
        try:
            code = super().main(*args, standalone_mode=False, **options)
            sys.stdout.flush()
            if code == INTERRUPTED:
                refuse("stopped", code)
        except (Refusal, GitError) as error:
            code = refuse(str(error))
        except (KeyboardInterrupt, EOFError, typer.Abort):
            code = refuse("stopped", INTERRUPTED)
        except BrokenPipeError:
            # Whoever read the output has seen enough; Python would complain at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = 0
        except OSError as error:
            where = f" ({error.filename})" if error.filename else ""
            code = refuse(f"{error.strerror or error}{where}")
        except Exception as error:
            # Typer's usage errors: where their class is depends on its version.
            if not hasattr(error, "format_message"):
                raise
            context = getattr(error, "ctx", None)
            command = context.command_path if context else "torch-tricks"
            code = refuse(f"{error.format_message().rstrip('.')}; see {command} --help")
        sys.exit(code if isinstance(code, int) else 0)


def refuse(message: str, code: int = REFUSED) -> int:
    """Prints the one line that a refusal gets; returns the exit code."""
    line = " ".join(message.split())
    print(f"error: {line}" if code == REFUSED else line, file=sys.stderr)
    return code


app = typer.Typer(
    name="torch-tricks",
    cls=Commands,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def print_version(wanted: bool) -> None:
    """Prints the version of the tool, and ends."""
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            number = version("torch-tricks")
        except PackageNotFoundError:
            number = f"in {Path(__file__).parent}, not installed"
        print(f"torch-tricks {number}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def main(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=print_version,
            is_eager=True,
            help="Print the version of torch-tricks.",
        ),
    ] = False,
) -> None:
    """PyTorch training projects with exactly the tricks that you choose."""
    if context.invoked_subcommand is None:
        print(context.get_help())


def complete_tricks(incomplete: str) -> list[tuple[str, str]]:
    """Completes the name of a trick, or of the last in a list with commas."""
    listed, comma, last = incomplete.rpartition(",")
    return [
        (listed + comma + trick.name, trick.buys)
        for trick in own_catalogue().values()
        if trick.name.startswith(last)
    ]


def complete_presets(incomplete: str) -> list[str]:
    presets = ("recommended", "minimal", "everything", "custom")
    return [preset for preset in presets if preset.startswith(incomplete)]


Where = Annotated[
    Path,
    typer.Option(
        "--project", metavar="DIR", help="The folder of the project, or one inside it."
    ),
]
Names = Annotated[
    list[str],
    typer.Argument(
        metavar="TRICK",
        help="Names of tricks, or NAME=CHOICE where a trick has choices; or a list with commas.",
        autocompletion=complete_tricks,
        show_default=False,
    ),
]
Data = Annotated[
    list[str] | None,
    typer.Option(
        "--data", "-d", metavar="NAME=VALUE", help="An answer; repeat it for more."
    ),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Show the change, and leave the project alone."),
]
Defaults = Annotated[
    bool,
    typer.Option("--defaults", help="Ask nothing: give open questions their defaults."),
]
Json = Annotated[bool, typer.Option("--json", help="Print it for programs.")]
Preset = Annotated[
    str,
    typer.Option(
        metavar="PRESET",
        help="recommended, minimal, everything or custom.",
        autocompletion=complete_presets,
    ),
]
HERE = Path()


@app.command()
def new(
    dest: Annotated[
        Path,
        typer.Argument(metavar="DEST", help="The folder to make.", show_default=False),
    ],
    preset: Preset = "",
    take: Annotated[
        str,
        typer.Option(
            "--with",
            metavar="TRICK,...",
            help="Tricks to add to the preset.",
            autocompletion=complete_tricks,
        ),
    ] = "",
    leave: Annotated[
        str,
        typer.Option(
            "--without",
            metavar="TRICK,...",
            help="Tricks to take from the preset.",
            autocompletion=complete_tricks,
        ),
    ] = "",
    name: Annotated[
        str,
        typer.Option(metavar="NAME", help="Name of the project, as people write it."),
    ] = "",
    data: Data = None,
    template: Annotated[
        str,
        typer.Option(
            metavar="SOURCE", help="Another template: a clone, or a git address."
        ),
    ] = "",
    ref: Annotated[
        str, typer.Option(metavar="TAG", help="Another version of the template.")
    ] = "",
    defaults: Defaults = False,
) -> None:
    """Make a project. Asks what is not told, like Copier."""
    from torch_tricks import creating

    request = creating.Request(
        preset, names_in(take), names_in(leave), name, data or []
    )
    creating.create(dest, request, template, ref, ask=can_ask() and not defaults)


@app.command("list")
def list_(project: Where = HERE) -> None:
    """List the tricks.

    What each buys and needs, and inside a project whether it is in.
    """
    from torch_tricks import reporting

    reporting.list_tricks(project)


@app.command()
def show(
    trick: Annotated[
        str,
        typer.Argument(
            metavar="TRICK",
            help="Name of a trick, or NAME=CHOICE where it has choices.",
            autocompletion=complete_tricks,
            show_default=False,
        ),
    ],
    project: Where = HERE,
) -> None:
    """Show a trick and its code.

    The idea, the flags, the source, and what it adds to this project; outside of a project, what
    it adds to a minimal one.
    """
    from torch_tricks import reporting

    reporting.show_trick(trick, project)


@app.command()
def add(tricks: Names, project: Where = HERE, dry_run: DryRun = False) -> None:
    """Add tricks, and keep your edits."""
    from torch_tricks import changing

    take = names_in(*tricks)
    sys.exit(changing.change_tricks(project, take, leave=(), dry_run=dry_run))


@app.command()
def remove(tricks: Names, project: Where = HERE, dry_run: DryRun = False) -> None:
    """Remove tricks, and keep your edits."""
    from torch_tricks import changing

    leave = names_in(*tricks)
    sys.exit(changing.change_tricks(project, (), leave, dry_run=dry_run))


@app.command()
def update(
    to: Annotated[
        str, typer.Option(metavar="VERSION", help="A version other than the newest.")
    ] = "",
    data: Data = None,
    project: Where = HERE,
    dry_run: DryRun = False,
    defaults: Defaults = False,
) -> None:
    """Take up a newer template, and keep your edits.

    Names the tricks that are new; a preset may bring some of them.
    """
    from torch_tricks import changing

    ask = can_ask() and not defaults
    sys.exit(changing.update(project, to, data or [], dry_run=dry_run, ask=ask))


@app.command("measure")
def measure_(
    tricks: Annotated[
        str,
        typer.Argument(
            metavar="TRICK,...",
            help="Tricks to add, or to leave out if they are in: each alone, and all together.",
            autocompletion=complete_tricks,
            show_default=False,
        ),
    ],
    flags: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TRICK...] [-- FLAGS]",
            help="More tricks, and flags of train.py.",
            show_default=False,
        ),
    ] = None,
    repeats: Annotated[
        int, typer.Option(min=2, help="Pairs of runs, each with a seed of its own.")
    ] = 5,
    launch: Annotated[
        str,
        typer.Option(
            metavar="COMMAND",
            help="What starts train.py, such as torchrun; by default the project's Python.",
        ),
    ] = "",
    results: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where results go; by default below runs/."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with what was stopped.")
    ] = False,
    as_json: Json = False,
    project: Where = HERE,
) -> None:
    """Measure what tricks buy here.

    Trains two copies of the project, as it is and with the trick, or without it if it is in, in
    pairs of runs with one seed each, and says by how much they differ.
    """
    from torch_tricks.measuring.measure import Request, measure

    more = list(takewhile(lambda word: not word.startswith("-"), flags or []))
    names = tuple(dict.fromkeys(names_in(tricks, *more)))
    words = (flags or [])[len(more) :]
    request = Request(project, names, words, repeats, launch, results)
    measure(request, resume, as_json)


@app.command()
def status(
    project: Where = HERE,
    as_json: Json = False,
) -> None:
    """Say what this project has.

    Where it came from, newer versions, its tricks, and the files that were edited or deleted
    since.
    """
    from torch_tricks import reporting

    reporting.print_status(project, as_json)


def names_in(*listed: str) -> tuple[str, ...]:
    """Splits lists with commas."""
    names = ",".join(listed).split(",")
    return tuple(name.strip() for name in names if name.strip())


def can_ask() -> bool:
    """Tells whether somebody is there to answer, at a terminal that can show the questions."""
    there = sys.stdin.isatty() and sys.stdout.isatty()
    return there and os.environ.get("TERM") != "dumb"
