"""No project has the wrong forms that old articles on PyTorch teach.

They are those whose fault a run on a CPU may not show. Others, such as a schedule before the
update, break a project's own tests. Each check looks at the Python of a project, and is shown a wrong
form that it must find: alone, and in the train.py of a project.
"""

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache

import inspection
import pytest
from rendering import render_files
from subsets import SEED_OF_PAIRS, covering_array, everything

Check = Callable[[ast.Module, str], Iterator[ast.AST | str]]

WRONG_FORMS: dict[Check, str] = {}
"""Checks, and an example that each finds."""


def wrong_form(example: str) -> Callable[[Check], Check]:
    """Adds a check to the list."""

    def add(check: Check) -> Check:
        WRONG_FORMS[check] = example
        return check

    return add


@pytest.fixture(scope="session")
def projects():
    """The code of projects in which any two tricks meet: each text, and where it is first."""
    found = {}
    for subset in covering_array(2, SEED_OF_PAIRS):
        for name, text in render_files(subset.answers).items():
            if inspection.is_product_code(name):
                found.setdefault(text, f"{subset}/{name}")
    return found


def pytest_generate_tests(metafunc):
    if "check" in metafunc.fixturenames:
        metafunc.parametrize("check", WRONG_FORMS, ids=lambda check: check.__name__)


def test_no_project_has(check, projects):
    found = [
        f"{name}: {finding if isinstance(finding, str) else ast.unparse(finding)}"
        for text, name in projects.items()
        for finding in check(inspection.parse_python(text), text)
    ]
    assert found == []


def test_the_check_finds_the_wrong_form(check):
    """Also behind the code of train.py, which must not hide it."""
    loop = render_files(everything().answers)["train.py"]
    for text in (WRONG_FORMS[check], f"{loop}\n{WRONG_FORMS[check]}"):
        assert list(check(ast.parse(text), text))


def test_a_clock_that_a_project_reads_too_early_is_found():
    """In front of the call that waits for the device."""
    found = set()
    for name, text in render_files(everything().answers).items():
        if inspection.is_product_code(name):
            tree = ast.parse(text)
            for function in functions(tree):
                stops = [s for s in function.body if any(differences_of_times(s))]
                function.body = stops + [s for s in function.body if s not in stops]
            wrong = ast.unparse(tree)
            if any(clock_read_before_the_device_is_done(ast.parse(wrong), wrong)):
                found.add(name)
    assert found


def calls(tree: ast.AST, name: str) -> Iterator[ast.Call]:
    """Yields the calls of a function or method, by the end of its dotted name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = dotted(node)
            if called == name or called.endswith(f".{name}"):
                yield node


@cache
def dotted(call: ast.Call) -> str:
    """Returns the dotted name of a function: to write it takes longer than to look."""
    return ast.unparse(call.func)


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def keywords(call: ast.Call) -> dict[str | None, str]:
    return {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}


@wrong_form('os.environ["CUDA_VISIBLE_DEVICES"] = "0"')
def devices_hidden_from_inside(tree, text):
    # It is the user's to set, and only works before CUDA starts.
    yield from re.findall(r"environ\W+CUDA_VISIBLE_DEVICES", text)


@wrong_form("state = torch.load(path)")
def bare_load(tree, text):
    for call in calls(tree, "torch.load"):
        options = keywords(call)
        if options.get("map_location") != "'cpu'":
            yield call
        if options.get("weights_only") != "True":
            yield call


@wrong_form("state = {k[7:]: v for k, v in state.items()}")
def prefix_cut_by_its_length(tree, text):
    """Names whose beginning is cut off, whether or not it is the prefix."""
    for node in ast.walk(tree):
        if isinstance(node, ast.DictComp):
            yield from re.findall(r".*\[\S+:\].*", ast.unparse(node.key))


@wrong_form("def worker_init(worker):\n    np.random.seed(0)")
def one_seed_for_all_workers(tree, text):
    """NumPy seeded by a constant, in a worker or anywhere else."""
    for seed in (*calls(tree, "random.seed"), *calls(tree, "manual_seed")):
        own = isinstance(seed.func.value, ast.Call)  # torch.Generator().manual_seed(0)
        if not seed.args or isinstance(seed.args[0], ast.Constant) and not own:
            yield seed


WAITS = ("synchronize", "sums.compute", "compute_since_log", "is_finite", "item")
"""Calls that wait for the device before they return."""


@wrong_form("start = time.time()\nmodel(images)\nprint(time.time() - start)")
def clock_read_before_the_device_is_done(tree, text):
    """A time is read again, or subtracted from, and no line above waits for the device.

    What a state dict holds is read where the states of all parts are collected. A record has
    numbers that were read. A budget follows the clock of the host: a wait in each step would cost
    time, and its measured evaluations end in one.
    """
    if "time" not in text:
        return
    of_budget = [
        f for c in ast.walk(tree) if is_class(c, "Budget") for f in functions(c)
    ]
    for body in (*functions(tree), outside(tree)):
        waits = [wait.lineno for name in WAITS for wait in calls(body, name)]
        again = sorted(clocks(body), key=lambda clock: clock.lineno)[1:]
        stops = [*again, *differences_of_times(body)]
        if (
            getattr(body, "name", "") in ("state_dict", "log_epoch")
            or body in of_budget
        ):
            stops = []
        elif "run.parts" in ast.unparse(body):
            stops += calls(body, "state_dict")
        for stop in stops:
            if not any(wait < stop.lineno for wait in waits):
                yield stop


def is_class(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.ClassDef) and node.name == name


def outside(tree: ast.Module) -> ast.Module:
    """Returns the statements of a module outside of its functions and classes."""
    inside = (ast.FunctionDef, ast.ClassDef)
    return ast.Module([node for node in tree.body if not isinstance(node, inside)], [])


def clocks(tree: ast.AST) -> Iterator[ast.Call]:
    for name in ("perf_counter", "time.time"):
        yield from calls(tree, name)


def differences_of_times(tree: ast.AST) -> Iterator[ast.BinOp]:
    """Yields what subtracts an earlier time from the time; seconds are a difference."""
    for node in ast.walk(tree):
        match node:
            case ast.BinOp(left=left, op=ast.Sub(), right=right):
                if any(clocks(left)) and "seconds" not in ast.unparse(right):
                    yield node


@wrong_form("torch.cuda.empty_cache()")
def cache_emptied(tree, text):
    yield from calls(tree, "empty_cache")
