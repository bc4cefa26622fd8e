"""Every subset of the tricks: rendered, and each different file read."""

import ast
import re
import shutil
from graphlib import TopologicalSorter
from itertools import product
from pathlib import Path

import inspection
import pytest
import training
from covering import TASK, others_at
from inspection import (
    PACKAGE,
    PACKAGES,
    RUFF,
    UNUSED_PARAMETERS,
    DifferentFiles,
    text_files,
)
from processes import call
from rendering import contents, render, render_files, render_subset, template_copy
from subsets import (
    PROOF_SEED,
    SEED_OF_PAIRS,
    TASKS,
    TRICKS,
    Subset,
    all_subsets,
    catalogue,
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
    different = DifferentFiles(tmp_path / "different")
    found = []
    for subset in subsets:
        project = render_subset(tmp_path / "project", subset)
        files = text_files(project)
        found += (f"{subset}: {fault}" for fault in inspection.faults(files, subset))
        different.add(files, subset)
        shutil.rmtree(project)
    assert found == []
    assert different.ruff("check") == ""
    assert different.ruff(*UNUSED_PARAMETERS) == ""
    assert different.ruff("format", "--check") == ""


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
    ("command", "code", "package"),
    [
        (
            ("check",),
            f"from convert import main\nfrom {PACKAGE} import task\n\nmain(task)\n",
            FIRST,
        ),
        (
            ("check",),
            f"from {PACKAGE} import task\nfrom train import main\n\nmain(task)\n",
            LAST,
        ),
        (("format", "--check"), f'print(\n    "{LONG}", "{PACKAGE}.task"\n)\n', FIRST),
        (("format", "--check"), f'print("{LONG}", "{PACKAGE}.task")\n', LAST),
        (UNUSED_PARAMETERS, "def spare(x):\n    return 1\n", FIRST),
    ],
    ids=["before a script", "after it", "fits in a line", "does not fit", "unused"],
)
def test_ruff_finds_one_file_among_many(tmp_path, command, code, package):
    """With the names of packages at both ends."""
    different = DifferentFiles(tmp_path / "different")
    nothing = render_files(Subset.of().answers)
    own = {"own.py": code, "convert.py": ""}
    different.add(nothing | own, Subset.of())
    different.add(nothing, everything())
    *_, named = different.ruff(*command).splitlines()
    assert re.fullmatch(rf"{package}/\d+/own\.py: {Subset.of()}", named)


def test_ruff_reads_the_same_text_once_where_nothing_else_differs(tmp_path):
    different = DifferentFiles(tmp_path / "different")
    files = render_files(Subset.of().answers)
    for subset in (Subset.of(), everything()):
        different.add(files, subset)
    number = len(different.places)
    assert number == sum(name.endswith(".py") for name in files)
    assert different.ruff("check") == ""
    # With it, imports of it belong elsewhere.
    different.add(files | {"torch.py": ""}, everything())
    assert number < len(different.places) < 2 * number
    assert f"/train.py: {everything()}" in different.ruff("check")
    found = len(different.places)
    metadata = files["pyproject.toml"] + "\n[tool.ruff]\nline-length = 100\n"
    different.add(files | {"pyproject.toml": metadata}, everything())
    assert len(different.places) == found + number


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
def full_projects(tmp_path_factory):
    """The projects with all tricks, by the choice among the forms of one of them.

    What excludes others has a project of its own.
    """
    rows = {form: everything(parallel=form) for form in questions()["parallel"][1:]}
    rows |= {task: everything(task=task) for task in TASKS[1:]}
    for trick in catalogue():
        if others := others_at(trick, False):
            without = dict.fromkeys(others, False)
            rows[trick.name] = everything(**{trick.name: True} | without)
    return {
        name: render_subset(tmp_path_factory.mktemp(name) / "x", row)
        for name, row in rows.items()
    }


def test_every_trace_is_in_the_full_projects_that_may_have_it(full_projects):
    texts = {
        choice: "".join(
            f"{name}\n{text}\n" for name, text in text_files(project).items()
        )
        for choice, project in full_projects.items()
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
        files = [project / name for project in full_projects.values()]
        text = "".join(file.read_text("utf-8") for file in files if file.exists())
        assert all(re.search(exception, text) for exception in exceptions), name


def test_imports_run_neither_up_nor_in_circles(full_projects):
    """Checks modules, and rooms: the folders, and the modules beside them."""
    for name, project in full_projects.items():
        modules = imports_of_modules(project / PACKAGE)
        scripts = {f"/{path.stem}" for path in project.glob("*.py")}
        up = {module: named & scripts for module, named in modules.items()}
        assert not any(up.values()), (name, up)
        rooms: dict[str, set[str]] = {}
        for module, named in modules.items():
            room = module.partition(".")[0]
            others = {each.partition(".")[0] for each in named} - {room}
            rooms[room] = rooms.get(room, set()) | others
        for graph in (modules, rooms):
            TopologicalSorter(graph).prepare()  # Raises an error that names a circle.


def imports_of_modules(package: Path) -> dict[str, set[str]]:
    """Which modules each module of a package imports, by their names in it.

    A slash stands before the names of others: errors.py may be a script, too.
    """
    found = {}
    for path in package.rglob("*.py"):
        room = path.relative_to(package).parent.parts
        named = found[".".join((*room, path.stem))] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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
def test_each_check_can_fail(tmp_path, check, name, old, new, finding):
    nothing = Subset.of()
    project = render_subset(tmp_path / "project", nothing)
    more = [nothing] if check == "foreign_traces" else []
    findings = getattr(inspection, check)
    assert list(findings(text_files(project), *more)) == []
    path = project / name
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    found = list(findings(text_files(project), *more))
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
def test_words_of_another_form_are_found(tmp_path, chosen, other):
    subset = Subset.of(parallel=chosen)
    project = render_subset(tmp_path / "project", subset)
    assert list(inspection.foreign_traces(text_files(project), subset)) == []
    job = project / "slurm.sh"
    job.write_text(f"# as with {other}\nif true\n", encoding="utf-8")
    [finding] = inspection.foreign_traces(text_files(project), subset)
    assert f"'{other}' is a trace" in finding
    [finding] = inspection.unparsable_files(text_files(project))
    assert finding.startswith("slurm.sh: ")


def test_a_module_that_nothing_imports_is_found(tmp_path):
    subset = Subset.of("seeding")
    project = render_subset(tmp_path / "project", subset)
    loop = project / "train.py"
    loop.write_text(loop.read_text().replace(f"{PACKAGE}.seeding", "elsewhere"))
    assert list(inspection.missing_modules(text_files(project), subset)) == [
        "nothing imports seeding"
    ]
    (project / PACKAGE / "seeding.py").unlink()
    assert len(list(inspection.missing_modules(text_files(project), subset))) == 2
