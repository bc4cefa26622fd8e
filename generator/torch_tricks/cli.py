"""The command line: `torch-tricks`."""

import os
import sys
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from torch_tricks.catalogue import choices_of, own_catalogue, own_questions
from torch_tricks.errors import Refusal
from torch_tricks.git import GitError, forget_other_repositories

REFUSED = 2
INTERRUPTED = 130


class Commands(TyperGroup):
    """Command group that prints refusals and interruptions as one line."""

    def main(self, *args: Any, **options: Any) -> Any:
        forget_other_repositories()
        # A closed stream, as by `>&-`, gets no output.
        for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
            if getattr(sys, name) is None:
                setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
        # File names and diffs may not be valid text.
        sys.stdout.reconfigure(errors="backslashreplace")
        try:
            code = super().main(*args, **options | {"standalone_mode": False})
            sys.stdout.flush()
            if code == INTERRUPTED:
                refuse("stopped", code)
        except (Refusal, GitError) as error:
            code = refuse(str(error))
        except (KeyboardInterrupt, EOFError, typer.Abort):
            code = refuse("stopped", INTERRUPTED)
        except (BrokenPipeError, SystemExit) as error:
            # The reader has closed the pipe: click exits with 1, and Python would complain.
            causes = error, error.__context__
            if not any(isinstance(cause, BrokenPipeError) for cause in causes):
                raise
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = 0
        except OSError as error:
            where = f" ({error.filename})" if error.filename else ""
            code = refuse(f"{error.strerror or error}{where}")
        except Exception as error:
            # Usage errors of Typer, whose class differs between versions.
            if not hasattr(error, "format_message"):
                raise
            context = getattr(error, "ctx", None)
            command = context.command_path if context else "torch-tricks"
            code = refuse(f"{error.format_message().rstrip('.')}; see {command} --help")
        sys.exit(code if isinstance(code, int) else 0)


def refuse(message: str, code: int = REFUSED) -> int:
    """Prints a refusal as one line; returns the exit code."""
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


@app.callback(invoke_without_command=True)
def main(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version of torch-tricks.")
    ] = False,
) -> None:
    """PyTorch training projects with exactly the tricks that you choose."""
    if version:
        from importlib import metadata

        try:
            number = metadata.version("torch-tricks")
        except metadata.PackageNotFoundError:
            number = f"in {Path(__file__).parent}, not installed"
        print(f"torch-tricks {number}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


def complete_tricks(incomplete: str) -> list[tuple[str, str]]:
    """Completes the name of a trick, or of the last in a list with commas."""
    listed, comma, _ = incomplete.rpartition(",")
    tricks = own_catalogue().values()
    return [(f"{listed}{comma}{trick.name}", trick.buys) for trick in tricks]


Where = Annotated[
    Path,
    typer.Option(
        "--project",
        metavar="DIR",
        help="The folder of the project, or one inside it; or an answers file of another name.",
    ),
]
Names = Annotated[
    list[str],
    typer.Argument(
        metavar="TRICK",
        help="Names of tricks, or NAME=CHOICE where a trick has choices; or a list with commas.",
        autocompletion=complete_tricks,
    ),
]
Data = Annotated[
    list[str] | None,
    typer.Option(
        "--data",
        "-d",
        metavar="NAME=VALUE",
        help="The answer to a question of the template; repeatable.",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Print the changes, and write nothing."),
]
Defaults = Annotated[
    bool,
    typer.Option("--defaults", help="Prompt for nothing, and use the defaults."),
]
Task = Annotated[
    str,
    typer.Option(
        metavar="TASK",
        help="classification, multilabel, regression, segmentation or detection.",
        autocompletion=lambda: choices_of(own_questions()["task"]),
    ),
]
Preset = Annotated[
    str,
    typer.Option(
        metavar="PRESET",
        help="recommended, minimal, everything or custom.",
        autocompletion=lambda: choices_of(own_questions()["preset"]),
    ),
]
HERE = Path()


def trick_list(flag: str, help: str) -> Any:
    """Returns an option for lists of tricks."""
    return typer.Option(
        flag, metavar="TRICK,...", help=help, autocompletion=complete_tricks
    )


def print_as_json(shape: str) -> Any:
    """Returns the option --json; docs/command-line.md explains the shape."""
    return typer.Option("--json", help=f"Print JSON: {shape}.")


def examples(*commands: str) -> str:
    """Returns examples for the end of a command's help, without line wrapping."""
    return "\n".join(["\b", "Examples:", *(f"  torch-tricks {c}" for c in commands)])


@app.command(
    epilog=examples(
        "new leaves --preset recommended --with swa,mixup",
        "new cells --task segmentation --defaults",
        "new --here --preset minimal",
    )
)
def new(
    dest: Annotated[
        Path | None,
        typer.Argument(metavar="DEST", help="The new folder of the project."),
    ] = None,
    here: Annotated[
        bool,
        typer.Option("--here", help="Use this folder, and keep the files that it has."),
    ] = False,
    task: Task = "",
    preset: Preset = "",
    take: Annotated[
        list[str] | None, trick_list("--with", "Tricks to add to the preset.")
    ] = None,
    leave: Annotated[
        list[str] | None, trick_list("--without", "Tricks to leave out of the preset.")
    ] = None,
    name: Annotated[
        str,
        typer.Option(metavar="NAME", help="Project name, with spaces and capitals."),
    ] = "",
    data: Data = None,
    template: Annotated[
        str,
        typer.Option(
            metavar="SOURCE",
            help="Another template: the folder of a clone, or a git URL.",
        ),
    ] = "",
    ref: Annotated[
        str,
        typer.Option(
            metavar="TAG",
            help="Another version of the template: a tag, branch or commit.",
        ),
    ] = "",
    defaults: Defaults = False,
) -> None:
    """Create a project.

    Prompts for the name, the task and the preset unless you pass them.
    """
    from torch_tricks import creating

    if (dest is None) != here:
        raise typer.BadParameter("pass either --here or a new folder as 'DEST'")
    answers = [*(data or []), *([f"task={task}"] if task else [])]
    request = creating.Request(
        preset, names_in(*take or ()), names_in(*leave or ()), name, answers
    )
    ask = can_ask() and not defaults
    creating.create(dest or Path(), request, template, ref, ask, beside=here)


@app.command("list", epilog=examples("list", "list --task segmentation", "list --json"))
def list_(
    task: Task = "",
    project: Where = HERE,
    as_json: Annotated[
        bool,
        print_as_json(
            "a list, with name, title, buys, group, source, wants, goes_with, needs, excludes, "
            "works_with, choices, recommended, depends and in_project of each trick"
        ),
    ] = False,
) -> None:
    """List the tricks, with the benefit and the needs of each.

    Inside a project, the list marks the tricks that the project has. With --task, the list has
    only the tricks that work for this task.
    """
    from torch_tricks import reporting

    reporting.list_tricks(project, task, as_json)


@app.command(epilog=examples("show swa", "show parallel=ddp"))
def show(
    trick: Annotated[
        str,
        typer.Argument(
            metavar="TRICK",
            help="Name of a trick, or NAME=CHOICE where it has choices.",
            autocompletion=complete_tricks,
        ),
    ],
    project: Where = HERE,
    as_json: Annotated[
        bool,
        print_as_json("an object as in list --json, with section and diff"),
    ] = False,
) -> None:
    """Show a trick: its tasks, idea, flags, source and code.

    The code is the diff to this project, or outside of a project, the diff to a minimal one.
    """
    from torch_tricks import reporting

    reporting.show_trick(trick, project, as_json)


@app.command(epilog=examples("add swa parallel=ddp", "add mixup --dry-run"))
def add(tricks: Names, project: Where = HERE, dry_run: DryRun = False) -> None:
    """Add tricks, and keep your edits."""
    from torch_tricks import changing

    take = names_in(*tricks)
    sys.exit(changing.change_tricks(project, take, leave=(), dry_run=dry_run))


@app.command(epilog=examples("remove amp,mixup", "remove swa --dry-run"))
def remove(tricks: Names, project: Where = HERE, dry_run: DryRun = False) -> None:
    """Remove tricks, and keep your edits."""
    from torch_tricks import changing

    leave = names_in(*tricks)
    sys.exit(changing.change_tricks(project, (), leave, dry_run=dry_run))


@app.command(epilog=examples("update", "update --to v0.2.0 --dry-run"))
def update(
    to: Annotated[
        str, typer.Option(metavar="VERSION", help="A version other than the newest.")
    ] = "",
    data: Data = None,
    project: Where = HERE,
    dry_run: DryRun = False,
    defaults: Defaults = False,
) -> None:
    """Update to a newer version of the template, and keep your edits.

    Lists the new tricks. A preset may add some of them.
    """
    from torch_tricks import changing

    ask = can_ask() and not defaults
    sys.exit(changing.update(project, to, data or [], dry_run=dry_run, ask=ask))


@app.command(
    "measure",
    epilog=examples("measure mixup", "measure ema,swa -- --data cifar10 --epochs 20"),
)
def measure_(
    tricks: Annotated[
        str,
        typer.Argument(
            metavar="TRICK,...",
            help="Tricks to add, or to leave out if they are in: each alone, and all together.",
            autocompletion=complete_tricks,
        ),
    ],
    flags: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TRICK...] [-- FLAGS]",
            help="More tricks, and flags of train.py.",
        ),
    ] = None,
    repeats: Annotated[
        int,
        typer.Option(
            min=2, help="Number of pairs of runs. Each pair has its own seed."
        ),
    ] = 5,
    launch: Annotated[
        str,
        typer.Option(
            metavar="COMMAND",
            help="The command that starts train.py, such as torchrun; by default the project's Python.",
        ),
    ] = "",
    results: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="The directory of the results; by default one in runs/."
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a measurement that was stopped.")
    ] = False,
    as_json: Annotated[
        bool,
        print_as_json(
            "an object, with commit, tricks, launch, flags, repeats and differences"
        ),
    ] = False,
    project: Where = HERE,
) -> None:
    """Measure the effect of tricks in this project.

    Trains copies of the project with and without each trick, in pairs of runs with equal seeds.
    Prints the mean differences with their confidence intervals.
    """
    from torch_tricks.measuring.measure import Request, measure

    more = list(takewhile(lambda word: not word.startswith("-"), flags or []))
    names = tuple(dict.fromkeys(names_in(tricks, *more)))
    words = (flags or [])[len(more) :]
    request = Request(project, names, words, repeats, launch, results)
    measure(request, resume, as_json)


@app.command(epilog=examples("status", "status --json --project ../leaves"))
def status(
    project: Where = HERE,
    as_json: Annotated[
        bool,
        print_as_json(
            "an object, with source, version, task, newer_versions, new_tricks, tricks_in, "
            "tricks_out, renamed, edited, deleted, conflicts and not_known"
        ),
    ] = False,
) -> None:
    """Show the state of this project.

    Prints its template and version, its task, newer versions, its tricks, and the files that you
    edited or deleted.
    """
    from torch_tricks import reporting

    reporting.print_status(project, as_json)


def names_in(*listed: str) -> tuple[str, ...]:
    """Splits lists at commas."""
    names = ",".join(listed).split(",")
    return tuple(name.strip() for name in names if name.strip())


def can_ask() -> bool:
    """Returns whether prompts are possible, at a terminal."""
    there = sys.stdin.isatty() and sys.stdout.isatty()
    return there and os.environ.get("TERM") != "dumb"
