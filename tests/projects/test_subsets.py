"""Every subset of the tricks: rendered, and each different file read."""

import ast
import re
import shutil
from graphlib import TopologicalSorter
from itertools import product

import inspection
import pytest
import training
from covering import TASK
from inspection import PACKAGE, PACKAGES, RUFF, write_code
from processes import call
from rendering import contents, render, render_files, render_subset, template_copy
from subsets import (
    PROOF_SEED,
    SEED_OF_PAIRS,
    TASKS,
    TRICKS,
    Subset,
    all_subsets,
    core_choices,
    covering_array,
    everything,
    forms_of,
    questions,
    recommended,
    space,
)

PARTS = 16
"""The subsets are read in so many parts."""


OTHER_TASKS = [row for row in covering_array(2, SEED_OF_PAIRS) if row.task != TASKS[0]]


@pytest.mark.parametrize("part", range(2))
def test_every_file_of_every_row(part, tmp_path):
    subsets = [*covering_array(), *OTHER_TASKS, *map(recommended, TASKS[1:])]
    check_every_file(subsets[part::2], tmp_path)


@pytest.mark.proof
@pytest.mark.parametrize("task", TASKS)
def test_every_file_of_a_trick_alone(task, tmp_path):
    alone = [
        Subset.of(row.name, parallel=(*forms_of(row), "none")[0], task=task)
        for row in TRICKS
        if row.works(TASK, task) and not row.choices
    ]
    check_every_file(alone, tmp_path)


@pytest.mark.proof
@pytest.mark.share
@pytest.mark.parametrize("part", range(PARTS))
def test_every_file_of_every_subset(part, tmp_path):
    check_every_file(all_subsets()[part::PARTS], tmp_path)


def check_every_file(subsets, tmp_path):
    found = []
    for subset in subsets:
        files = render_files(subset.answers)
        found += (f"{subset}: {fault}" for fault in inspection.faults(files, subset))
        write_code(files, tmp_path / str(subset))
    assert found == []
    assert inspection.ruff(tmp_path) == ""
    shutil.rmtree(tmp_path)


@pytest.mark.proof
@pytest.mark.share
@pytest.mark.parametrize(
    "subset", all_subsets(PROOF_SEED), ids=lambda subset: subset.core
)
def test_a_subset_trains_and_resumes(subset, tmp_path, zygote, folder, hdf5):
    """In forks: with `ddp` and `fsdp` it is a world of one.

    Every second one resumes with data loading processes. Rows of arrays do both.
    """
    project = render_subset(tmp_path / "project", subset)
    flags = training.flags(subset, folder, hdf5)
    workers = (2 * (len(subset.tricks) % 2),)
    run = tmp_path / "run"
    training.train_and_resume(zygote.run, subset, project, run, flags, workers)
    shutil.rmtree(tmp_path)


FIRST, LAST = PACKAGES

LONG = 42 * "x"


@pytest.mark.parametrize(
    ("code", "package"),
    [
        (
            f"from convert import main\nfrom {PACKAGE} import task\n\nmain(task)\n",
            FIRST,
        ),
        (f"from {PACKAGE} import task\nfrom train import main\n\nmain(task)\n", LAST),
        (f'print(\n    "{LONG}", "{PACKAGE}.task"\n)\n', FIRST),
        (f'print("{LONG}", "{PACKAGE}.task")\n', LAST),
        (f'def spare(x):\n    return "{PACKAGE}"\n', f"{FIRST}|{LAST}"),
    ],
    ids=["before a script", "after it", "fits in a line", "does not fit", "unused"],
)
def test_ruff_finds_one_file_among_many(tmp_path, code, package):
    """With the names of packages at both ends."""
    nothing = render_files(Subset.of().answers)
    write_code(nothing, tmp_path / "nothing")
    write_code(nothing | {"own.py": code, "convert.py": ""}, tmp_path / "own")
    found = {*re.findall(r"[\w/]+\.py", inspection.ruff(tmp_path))}
    assert found == {f"own/{name}/own.py" for name in package.split("|")}


def test_no_subset_is_left_out():
    subsets = all_subsets()
    assert len(subsets) == len({subset.core for subset in subsets})
    refused = [core for core in core_choices() if not space().allows(core)]
    assert len(subsets) + len(refused) == 1024
    assert subsets[0].core == "none"
    assert everything().core in {subset.core for subset in subsets}
    assert everything(parallel="none").tricks == [
        trick.name
        for trick in TRICKS
        if not (trick.choices or trick.excludes)
        if trick.works("task", TASKS[0]) and trick.works("parallel", "none")
    ]


def test_the_fast_render_is_the_plain_one(tmp_path):
    # Outside of git: else the answers would name a version.
    command = (
        RUFF.with_name("copier"),
        "copy",
        "--defaults",
        "--quiet",
        template_copy(),
    )
    answers = ("--data=project_name=Leaf Diseases", "--data=preset=everything")
    call(*command, *answers, tmp_path / "plain")
    fast = render(tmp_path / "fast", {"preset": "everything"})
    assert contents(fast) == contents(tmp_path / "plain")


@pytest.fixture(scope="session")
def full_projects():
    """The files of the projects with all tricks, by the choice among the forms of one of them.

    What excludes others has a project of its own.
    """
    rows = {form: everything(parallel=form) for form in questions()["parallel"][1:]}
    rows |= {task: everything(task=task) for task in TASKS[1:]}
    for trick in TRICKS:
        if trick.excludes:
            without = dict.fromkeys(trick.excludes, False)
            rows[trick.name] = everything(**{trick.name: True} | without)
    return {name: render_files(row.answers) for name, row in rows.items()}


def test_every_trace_is_in_the_full_projects_that_may_have_it(full_projects):
    texts = {
        choice: "".join(f"{name}\n{text}\n" for name, text in files.items())
        for choice, files in full_projects.items()
    }
    for owners, patterns in inspection.words_by_owners(computed=False).items():
        # What goes with several tricks need not go with each of their forms.
        choices = set(owners) if set(owners) <= set(texts) else {"any of them"}
        whole = texts | {"any of them": "".join(texts.values())}
        for choice, pattern in product(choices, patterns):
            found = re.search(pattern, whole[choice], re.IGNORECASE)
            assert found, (
                f"no file of the full project with {choice} has {pattern!r}: take it out of "
                "tests/support/words.yml, or write a pattern that is there"
            )
    for name, exceptions in inspection.EXCEPTIONS.items():
        text = "".join(files.get(name, "") for files in full_projects.values())
        assert all(re.search(exception, text) for exception in exceptions), name


def test_imports_run_neither_up_nor_in_circles(full_projects):
    """Checks modules, and rooms: the folders, and the modules beside them."""
    for name, files in full_projects.items():
        modules = imports_of_modules(files)
        scripts = {f"/{path.removesuffix('.py')}" for path in files if "/" not in path}
        up = {module: named & scripts for module, named in modules.items()}
        assert not any(up.values()), (name, up)
        rooms: dict[str, set[str]] = {}
        for module, named in modules.items():
            room = module.partition(".")[0]
            others = {each.partition(".")[0] for each in named} - {room}
            rooms[room] = rooms.get(room, set()) | others
        for graph in (modules, rooms):
            TopologicalSorter(graph).prepare()  # Raises an error that names a circle.


def imports_of_modules(files: dict[str, str]) -> dict[str, set[str]]:
    """Which modules each module of the package imports, by their names in it.

    A slash stands before the names of others: errors.py may be a script, too.
    """
    found = {}
    for path, text in files.items():
        if not (path.startswith(f"{PACKAGE}/") and path.endswith(".py")):
            continue
        *room, module = path.removesuffix(".py").split("/")[1:]
        named = found[".".join((*room, module))] = set()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                named.update(f"/{alias.name}" for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                named.add(f"/{node.module}")
            elif isinstance(node, ast.ImportFrom):
                above = room[: len(room) + 1 - node.level]
                named.add(".".join((*above, *filter(None, [node.module]))))
    return found


LOOP, MODULE, MANIFEST = "train.py", f"{PACKAGE}/files.py", "pyproject.toml"


@pytest.mark.parametrize(
    ("check", "name", "old", "new", "finding"),
    [
        ("foreign_traces", LOOP, "import time", "import time  # no AMP", "'AMP' is a"),
        ("foreign_traces", MANIFEST, '"numpy', '"h5py",\n    "numpy', "'h5py' is a"),
        ("unparsable_files", LOOP, "def main(", "def main)", "unmatched ')'"),
        ("unparsable_files", MANIFEST, "[project]", "[project", "pyproject.toml: "),
        ("unparsable_files", ".github/workflows/ci.yml", "on:", "on: [", "ci.yml: "),
        ("untidy_files", LOOP, "import time", "import time ", "trailing space"),
        ("untidy_files", LOOP, "\n\n\ndef", "\n\n\n\ndef", "too many blank lines"),
        ("untidy_files", MANIFEST, "\n\n[", "\n\n\n[", "too many blank lines"),
        ("untidy_files", LOOP, '"""Trains', '\n"""Trains', "begins with a blank line"),
        ("untidy_files", LOOP, "import time", "{{ amp }}", "a tag of the template"),
        ("dead_code", MODULE, "def", "def spare(): ...\n\n\ndef", "uses spare"),
        ("dead_code", MODULE, "def", "SPARE = 1\n\n\ndef", "uses SPARE"),
    ],
)
def test_each_check_can_fail(check, name, old, new, finding):
    files = render_files(Subset.of().answers)
    more = [Subset.of()] if check == "foreign_traces" else []
    findings = getattr(inspection, check)
    assert list(findings(files, *more)) == []
    assert old in files[name]
    found = list(findings(files | {name: files[name].replace(old, new, 1)}, *more))
    assert any(finding in line for line in found), found


@pytest.mark.parametrize(
    ("line", "trick"),
    [
        ("clipping = settings.clip_norm", "grad_clipping"),
        ("from leaf_diseases.optim.swa import WeightAverage", "swa"),
        ("    class_balance: float = 0.5", "class_balance"),
        ("see arxiv.org/abs/1503.02531", "distillation"),
        ("`docs/tricks/cudnn_benchmark.md`", "cudnn_benchmark"),
        ("images, targets = mix_batch(images)  # MixUp", "mixup"),
    ],
)
def test_what_a_row_and_its_module_say_need_not_be_listed(line, trick):
    """A leftover is named with its trick, its line, and where to fix it."""
    [finding] = {
        found
        for found in inspection.foreign_traces({"train.py": f"\n{line}"}, Subset.of())
        if f" is a trace of {trick}," in found
    }
    assert finding.startswith("train.py:2: ")
    assert finding.endswith(f"narrow the words of {trick} in tests/support/words.yml")


@pytest.mark.parametrize(("chosen", "other"), [("ddp", "fsdp"), ("fsdp", "ddp")])
def test_words_of_another_form_are_found(chosen, other):
    subset = Subset.of(parallel=chosen)
    files = render_files(subset.answers)
    assert list(inspection.foreign_traces(files, subset)) == []
    files["slurm.sh"] = f"# as with {other}\nif true\n"
    [finding] = inspection.foreign_traces(files, subset)
    assert f"'{other}' is a trace" in finding
    [finding] = inspection.unparsable_files(files)
    assert finding.startswith("slurm.sh: ")


def test_a_module_that_nothing_imports_is_found():
    subset = Subset.of("seeding")
    files = render_files(subset.answers)
    files["train.py"] = files["train.py"].replace(f"{PACKAGE}.seeding", "elsewhere")
    unused = ["nothing imports seeding"]
    assert list(inspection.missing_modules(files, subset)) == unused
    del files[f"{PACKAGE}/seeding.py"]
    found = list(inspection.missing_modules(files, subset))
    assert found == ["there is no seeding", *unused]
