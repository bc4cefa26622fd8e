"""Updates lose nothing, whatever an owner has done to a project."""

import json
import os
from contextlib import chdir
from itertools import combinations, product
from random import Random

import copier
import pytest
import training
from commands import run
from covering import TASK
from hypothesis import HealthCheck, given, settings
from killing import Killing
from parts import few_of
from subsets import PROOF_SEED, Subset, questions, space
from updating import (
    IGNORED,
    PACKAGE,
    PRESETS,
    SEEDS,
    SIZES,
    WEIGHTS,
    Case,
    Edit,
    Workshop,
    faults,
    lost_lines,
    recorded_answers,
    some_answers,
    trick_case,
    tricks_of,
    update_case,
)
from versions import BEFORE_PRACTICES, NEW_TRICK, PRACTICES, VERSIONS

MORE = int(os.environ.get("TORCH_TRICKS_UPDATES", "1"))
"""How many times as many cases to try, of which no two times are the same ones."""
PAIRS = list(combinations(VERSIONS, 2))


def cases(number: int) -> settings:
    return settings(
        max_examples=number * MORE,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(autouse=True)
def quick(workshop):
    with workshop.at_hand():
        yield


def try_case(workshop: Workshop, case: Case) -> None:
    """Runs a case's command on an edited project, and judges what it leaves."""
    project = workshop.project(case.old, case.answers)
    project.edit(case.edits)
    mine = project.files()
    report = project.torch_tricks(*case.command)
    after = project.files()
    assert report.exit_code in (0, 1), report.errors
    old, answers = workshop.fresh(case.old, case.answers), recorded_answers(after)
    assert tricks_of(case.new, answers) == case.tricks
    for name in ("project_name", "package_name", "description", "author", TASK):
        assert answers[name] == recorded_answers(old)[name]
    new = workshop.fresh(case.new, answers)
    assert lost_lines(mine, after, report) == set(), report.output
    found = faults(project, old, mine, new, after, report)
    assert found == [], report.output
    workshop.remove(project)


@pytest.mark.parametrize("command", ["update", "add", "remove"])
def test_a_dozen_edits_lose_no_line(command, workshop):
    case, seed = update_case(*PAIRS[-1], 1, 12), 0
    while case.command[0] != command:
        case, seed = trick_case(seed, 12), seed + 1
    try_case(workshop, case)


@pytest.mark.proof
@pytest.mark.share
@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_an_update_loses_no_line(old, new, workshop):
    @cases(12)
    @given(SEEDS, SIZES)
    def run(seed, edits):
        try_case(workshop, update_case(old, new, seed, edits))

    run()


@pytest.mark.proof
@pytest.mark.share
@pytest.mark.parametrize("part", range(3))
def test_a_change_of_tricks_loses_no_line(part, workshop):
    @cases(12)
    @given(SEEDS, SIZES)
    def run(seed, edits):
        try_case(workshop, trick_case(seed * 3 + part, edits))

    run()


@pytest.mark.proof
@pytest.mark.share
@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_an_untouched_project_becomes_a_fresh_copy(old, new, workshop):
    """Changes any subset of the tricks to any other of the same task."""

    @cases(20)
    @given(SEEDS)
    def run(seed):
        random = Random(seed)
        before = some_answers(random)
        project = workshop.project(old, before)
        answers = some_answers(random, before[TASK])
        data = [f"--data={name}={as_data(value)}" for name, value in answers.items()]
        tricks = tricks_of(new, answers)
        expect_fresh(workshop, project, new, tricks, "update", "--to", new, *data)
        workshop.remove(project)

    run()


def as_data(value):
    """Writes an answer as the command line takes it."""
    return f"[{','.join(value)}]" if isinstance(value, list) else value


def expect_fresh(workshop, project, version, tricks, *command):
    """Runs a command on an untouched project, and expects what a fresh copy would be."""
    report = project.torch_tricks(*command)
    assert report.exit_code == 0, report.errors or report.output
    after = project.files()
    answers = recorded_answers(after)
    assert tricks_of(version, answers) == tricks
    assert after.pop(IGNORED) == WEIGHTS
    assert after == workshop.fresh(version, answers)


TRICKS = [name for name in questions() if name != TASK]


@pytest.mark.proof
@pytest.mark.share
@pytest.mark.parametrize("trick", TRICKS)
def test_each_trick_comes_and_goes(trick, workshop):
    """In the projects without a trick, with one of the others, and with all others.

    A few others are drawn: all pairs would be twice the square of the tricks. Each has
    what the trick needs, and nothing that it excludes.
    """
    others = [other for other in TRICKS if other != trick]
    drawn = Random(f"{PROOF_SEED} {trick}").sample(others, 4)
    for wanted in [[], *([other] for other in drawn), others]:
        subset, without = subsets_with_and_without(trick, wanted)
        project = workshop.project("v0.1.0", without.answers)
        before = project.files()
        expect_fresh(workshop, project, "v0.1.0", {*subset.tricks}, "add", trick)
        project.commit()
        expect_fresh(workshop, project, "v0.1.0", {*without.tricks}, "remove", trick)
        assert project.files() == before
        workshop.remove(project)


def subsets_with_and_without(trick, wanted):
    """Returns two subsets that differ by a trick, with those wanted that can be in both."""
    off, on = ({name: questions()[name][place] for name in TRICKS} for place in (0, 1))
    wanted = {
        name: on[name]
        for name in wanted
        if space().allows({trick: off[trick], name: on[name]})
    }
    subset = Subset(space().choose({trick: on[trick]}, wanted))
    without = subset.named_levels | {trick: off[trick]}
    return subset, Subset(tuple(without.values()))


@pytest.fixture(scope="module", params=few_of(["update", "add", "remove"], 0))
def killed(request, workshop):
    """A project to kill a command in, and what it is before and after.

    The command changes, adds, removes and renames files, and keeps one aside.
    """
    with workshop.at_hand():
        answers = Subset.of("seeding", "swa", "mixup").answers
        command = {
            "update": ("update", "--to", "v1.0.0"),
            "add": ("add", "amp", "resume"),
            "remove": ("remove", "swa", "seeding"),
        }[request.param]
        project = workshop.project("v0.1.0", answers)
        for name in (f"{PACKAGE}/optim/swa.py", ".github/workflows/ci.yml", "train.py"):
            project.do_to(name, Edit("append", 0, 1))
        project.commit()
        yield Killing(project, command)


def test_a_command_killed_before_any_step_can_be_undone(killed):
    """Before each call that writes, renames or removes a file, or starts git."""
    outcomes = killed.at_every_step()
    assert {"before", "undone"} <= set(outcomes.values())
    # What was copied at a step is what a kill leaves.
    for step in random_sample(outcomes, 2):
        assert killed.at_step(step) == outcomes[step]


@pytest.mark.proof
def test_a_command_killed_in_the_middle_of_git_can_be_undone(killed):
    """As soon as one of the files is another."""
    for name in random_sample(killed.changed_files, 6 * MORE):
        killed.when_changed(name)


def random_sample(values, number):
    values = sorted(values)
    return Random(0).sample(values, min(number, len(values)))


CHOSEN = ("seeding", "swa")


@pytest.mark.proof
def test_who_chose_from_the_list_keeps_it_and_is_told_of_what_is_new(workshop, asked):
    project = workshop.project("v0.1.0", Subset.of(*CHOSEN).answers)
    command = ("update", "--to", "v0.2.0")
    report = project.torch_tricks(*command, "--dry-run")
    told = f"\nnew trick {NEW_TRICK} (Signs of gradients: steps of one size), "
    assert f"{told}not in: torch-tricks add {NEW_TRICK}\n" in report.output
    expect_fresh(workshop, project, "v0.2.0", {*CHOSEN}, *command)
    project.commit()
    assert NEW_TRICK not in project.torch_tricks("update", "--dry-run").output
    expect_fresh(workshop, project, "v1.0.0", {*CHOSEN}, "update")
    assert asked == {}


@pytest.mark.proof
def test_copier_shows_what_is_new_unticked_to_who_chose_from_the_list(workshop, asked):
    project = workshop.project("v0.1.0", Subset.of(*CHOSEN).answers)
    copier.run_update(project.path, vcs_ref="v0.2.0", overwrite=True, quiet=True)
    boxes = asked["tricks"]
    assert {name for name, ticked in boxes.items() if ticked} == {*CHOSEN}
    assert boxes[NEW_TRICK] is False
    answers = recorded_answers(project.files())
    assert tricks_of("v0.2.0", answers) == {*CHOSEN}


@pytest.mark.parametrize(
    ("preset", "with_copier"), few_of(product(PRESETS, [False, True]), 2)
)
def test_who_chose_a_preset_gets_what_it_gained(preset, with_copier, workshop, asked):
    project = workshop.project("v0.1.0", {"preset": preset})
    before = tricks_of("v0.1.0", {"preset": preset})
    tricks = tricks_of("v0.2.0", {"preset": preset})
    assert tricks - before == (set() if preset == "minimal" else {NEW_TRICK})
    if with_copier:
        options = {"defaults": True, "overwrite": True, "quiet": True}
        copier.run_update(project.path, vcs_ref="v0.2.0", **options)
        expected = workshop.fresh("v0.2.0", recorded_answers(project.files()))
        assert project.files() == expected | {IGNORED: WEIGHTS}
    else:
        report = project.torch_tricks("update", "--to", "v0.2.0", "--dry-run")
        state = "in" if tricks else f"not in: torch-tricks add {NEW_TRICK}"
        assert f"steps of one size), {state}\n" in report.output
        expect_fresh(workshop, project, "v0.2.0", tricks, "update", "--to", "v0.2.0")
    module = project.path / PACKAGE / "optim" / "signs.py"
    assert module.exists() == (preset != "minimal")
    assert recorded_answers(project.files())["preset"] == preset
    assert asked == {}


@pytest.mark.proof
@pytest.mark.parametrize(
    ("answers", "preset"),
    [
        (Subset.of(*CHOSEN).answers, "custom"),
        ({"preset": "minimal"}, "custom"),
        ({"preset": "everything"}, "everything"),
    ],
)
def test_who_had_the_practices_before_they_were_rows_keeps_them(
    answers, preset, workshop
):
    """The project keeps its practices, with every line that its owner edited."""
    project = workshop.project(BEFORE_PRACTICES, answers)
    tricks = set(recorded_answers(project.files()).get("tricks", ()))
    for name in ("evaluate.py", "predict.py", f"{PACKAGE}/data/folders.py"):
        for line in range(0, 60, 7):
            project.do_to(name, Edit("append", 0, line))
    project.commit()
    mine = project.files()
    report = project.torch_tricks("update", "--to", "v0.1.0")
    after = project.files()
    assert report.exit_code == 0, report.output
    assert lost_lines(mine, after, report) == set()
    recorded = recorded_answers(after)
    assert recorded["preset"] == preset
    if preset == "custom":
        assert {*recorded["tricks"]} == {*PRACTICES, *tricks}
    fresh = workshop.fresh("v0.1.0", recorded)
    assert {*after} - {IGNORED} == {*fresh}
    assert recorded[TASK] == "classification"
    # Once they are rows, they can be left out.
    project.commit()
    left = project.torch_tricks("remove", "folders")
    assert left.exit_code in (0, 1)
    project.commit()
    report = project.torch_tricks("update", "--to", "v0.3.0")
    assert report.exit_code in (0, 1), report.errors
    left = tricks_of("v0.3.0", recorded_answers(project.files()))
    assert "folders" not in left and {"csv", "evaluate", "predict"} <= left


@pytest.mark.proof
def test_who_had_a_project_before_tasks_has_classification(workshop, asked):
    project = workshop.project(BEFORE_PRACTICES, {"preset": "minimal"})
    assert TASK not in recorded_answers(project.files())
    with chdir(project.path):
        assert json.loads(run("status", "--json"))["task"] == "classification"
    refused = project.torch_tricks("update", "--data", "task=multilabel")
    assert refused.exit_code == 2
    options = {"defaults": True, "overwrite": True, "quiet": True}
    copier.run_update(project.path, vcs_ref="v0.1.0", **options)
    assert recorded_answers(project.files())[TASK] == "classification"
    assert asked == {}


@pytest.fixture(scope="module")
def trained(workshop, zygote, folder):
    """A project of the first version, committed, in which a run has left checkpoints."""
    subset = Subset.of("seeding", "amp", "accumulation", "swa", "mixup", "resume")
    project = workshop.project("v0.1.0", subset.answers)
    flags = training.flags(subset, folder, folder)
    run = project.path / "runs" / "whole"
    training.train(zygote.run, project.path, *flags, "--run-dir", run)
    return project, subset, flags, run


@pytest.mark.proof
@pytest.mark.parametrize("version", ["v0.1.1", "v0.2.0"])
def test_a_run_goes_on_after_an_update(version, trained, workshop, zygote):
    """To the last bit, where the update changed nothing in training."""
    project, subset, flags, run = trained
    copy = workshop.copy(project)
    report = copy.torch_tricks("update", "--to", version)
    assert report.exit_code == 0, report.errors
    assert "changed train.py" in report.output
    run = copy.path / run.relative_to(project.path)
    training.stop_and_resume(zygote.run, subset, copy.path, run, flags)


@pytest.mark.proof
def test_a_run_is_refused_where_checkpoints_have_changed(trained, workshop, zygote):
    project, _, flags, _ = trained
    copy = workshop.copy(project)
    assert copy.torch_tricks("update", "--to", "v1.0.0").exit_code == 0
    more = ("--run-dir", copy.path / "runs" / "whole", "--resume", "auto")
    result = zygote.run(copy.path, "train.py", *flags, *more)
    assert result.returncode == 1
    assert "is no checkpoint of this version: finish its run with" in result.stderr
