"""Commands add, remove and update: other tricks, and newer versions of the template."""

from collections.abc import Sequence
from pathlib import Path

from torch_tricks.errors import Refusal
from torch_tricks.merging import Plan, apply, plan_update, render_base, scratch_for
from torch_tricks.output import colored, emphasized
from torch_tricks.project import Project
from torch_tricks.questions import LIST, TASK
from torch_tricks.template import (
    Rendering,
    find_version,
    newest_of,
    released_versions,
)

DONE = 0
NEEDS_A_LOOK = 1


def change_tricks(
    directory: Path, take: Sequence[str], leave: Sequence[str], dry_run: bool
) -> int:
    """Adds tricks to a project, or removes some; returns the exit code.

    The preset becomes custom, even if another preset has the same tricks: a later update must
    not change tricks that were chosen by hand.

    Raises:
        Refusal: the project cannot be changed safely, or there is no such trick.
    """
    project = Project.at(directory)
    project.check_unchanged()
    with scratch_for(project) as (scratch, aside):
        project, base = render_base(project, scratch, aside)
        tricks = base.questions.changed(base.answers, take, leave)
        for name, choice in base.questions.find([*take, *leave]).items():
            if (
                take
                and name in base.tricks
                and choice in (None, base.answers.get(name))
            ):
                print(f"{name} is already in the project")
            elif leave and name not in base.tricks:
                print(f"{name} is not in the project")
        if all(base.answers[name] == value for name, value in tricks.items()):
            print("nothing to do")
            return DONE
        new = project.render(aside, {"preset": "custom"} | tricks)
        known = base.questions.advice(base.tricks)
        advice = new.questions.advice(new.tricks)
        new.notes.extend(line for line in advice if line not in known)
        plan = plan_update(project, scratch, base.directory, new.directory)
        return carry_out(project, plan, base, new, dry_run)


def update(
    directory: Path, to: str, data: Sequence[str], dry_run: bool, ask: bool
) -> int:
    """Updates a project to a newer version of the template; returns the exit code.

    Raises:
        Refusal: the project cannot be changed safely, or there is no such version.
    """
    project = Project.at(directory)
    project.check_unchanged()
    released = released_versions(project.source, project.directory)
    newest = newest_of(released)
    version = find_version(to, released) if to else newest
    with scratch_for(project) as (scratch, aside):
        project, base = render_base(project, scratch, aside)
        new = project.render(aside, version=version, check=not data)
        if base.release and new.release and base.release > new.release:
            if not to:
                print(
                    f"{project.version} is newer than {newest}, the newest release: nothing to do"
                )
                return DONE
            raise Refusal(
                f"{new.version} is older than {project.version}, and a project cannot go back: "
                "revert the commit of the update instead"
            )
        new = answer_anew(project, aside, new, version, data, ask)
        if kept := kept_by_default(base, new, data):
            tricks = new.questions.changed(new.answers, kept, [])
            answers = new.questions.read_data(data) | {"preset": "custom"} | tricks
            new = project.render(aside, answers, version=version)
        plan = plan_update(project, scratch, base.directory, new.directory)
        if plan.before == plan.after:
            print(f"the project already has {new.version}: nothing to do")
            return DONE
        print_versions(base, new)
        return carry_out(project, plan, base, new, dry_run)


def answer_anew(
    project: Project,
    aside: Path,
    new: Rendering,
    version: str,
    data: Sequence[str],
    ask: bool,
) -> Rendering:
    """Renders a version again, if the command line or prompts have answers."""
    answers = new.questions.read_data(data)
    new.questions.check_fixed(new.answers, answers)
    if answers:
        new = project.render(aside, answers, version=version)
    # Questions without an answer, except those of presets and those that a project keeps.
    open_questions = new.recorded.keys() - project.recorded.keys() - answers.keys()
    open_questions -= new.questions.fixed
    if ask and open_questions:
        new = project.render(aside, answers, version=version, ask=open_questions)
    return new


def kept_by_default(base: Rendering, new: Rendering, data: Sequence[str]) -> list[str]:
    """Returns tricks that every project had at its version, and that an update would leave out.

    Nobody chose to remove them, unless the command line names the tricks.
    """
    given = {pair.partition("=")[0] for pair in data}
    if given & {"preset", LIST}:
        return []
    return [
        name
        for name, trick in new.questions.tricks.items()
        if trick.once_in_all and name not in base.questions.tricks
        if name not in new.tricks
    ]


def print_versions(base: Rendering, new: Rendering) -> None:
    """Prints the versions and the new tricks of an update."""
    print(f"from {base.version} to {new.version}")
    task = new.answers.get(TASK, "")
    for name, trick in new.questions.tricks.items():
        if name not in base.questions.tricks and trick.works(TASK, task):
            state = "in" if name in new.tricks else f"not in: torch-tricks add {name}"
            print(f"new trick {name} ({trick.title}: {trick.buys}), {state}")


def carry_out(
    project: Project, plan: Plan, base: Rendering, new: Rendering, dry_run: bool
) -> int:
    """Prints a plan, or applies it and prints the next steps; returns the exit code."""
    print(f"tricks: {', '.join(new.tricks) or 'none'}")
    # Before the current folder may be removed.
    lines, there = list(plan.lines()), project.there
    if project.package_name:
        print(f"package_name: {project.package_name}, as you renamed its folder")
    if dry_run:
        print(plan.scratch.diff(plan.before, plan.after, color=colored()))
    else:
        # Printed before any change, in case of an interruption.
        print(f"to go back: {project.undo_command}", flush=True)
        apply(project, plan)
    for line in lines:
        print(emphasized(line))
    known = base.dependencies
    if added := [each for each in new.dependencies if each not in known]:
        print(f"new dependencies{there}, {', '.join(added)}: {new.installation}")
    if dry_run:
        print("nothing was changed: this was --dry-run")
    elif plan.needs_a_look:
        print("to continue: resolve what is listed as conflict, kept aside or missing,")
        print(f"             then run git add -u, pytest{there}, and git commit")
    else:
        print(f"to continue: read git diff HEAD, run pytest{there}, then git commit -a")
    for note in new.notes:
        print(f"note: {note}")
    return NEEDS_A_LOOK if plan.needs_a_look else DONE
