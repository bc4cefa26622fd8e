"""No project has the wrong forms that old articles on PyTorch teach.

Each check is a row of the catalogue's list of wrong forms. It looks at the Python of a
project, and is shown a wrong form that it must find: alone, and put into a project.
"""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import inspection
import pytest
from rendering import render_subset
from subsets import Subset, covering_array, everything

Check = Callable[[ast.Module, str], Iterator[ast.AST | str]]
PutIn = Callable[[ast.Module], None]


@dataclass(frozen=True)
class WrongForm:
    """Something that must not be: how to find it, and an example to find."""

    check: Check
    example: str
    put_in: PutIn | None
    """Changes the code of a project to the wrong form; by default the example is added."""
    needs: str | None
    """The trick without which a project has no code that can be changed so."""


WRONG_FORMS: dict[str, WrongForm] = {}


def wrong_form(
    example: str, put_in: PutIn | None = None, needs: str | None = None
) -> Callable[[Check], Check]:
    """Adds a check to the list, under the name of its function."""

    def add(check: Check) -> Check:
        WRONG_FORMS[check.__name__] = WrongForm(check, example, put_in, needs)
        return check

    return add


@pytest.fixture(scope="session")
def projects(tmp_path_factory):
    """The code of every row of the covering array: each text, and where it is first."""
    directory = tmp_path_factory.mktemp("projects")
    found = {}
    for subset in covering_array():
        project = render_subset(directory / str(subset), subset)
        for name, text in inspection.text_files(project).items():
            if inspection.is_product_code(name):
                found.setdefault(text, f"{subset}/{name}")
    return found


@pytest.fixture(scope="session")
def projects_with(tmp_path_factory):
    """Returns the files of a subset's project."""
    directory = tmp_path_factory.mktemp("projects")

    @cache
    def files(subset):
        return inspection.text_files(render_subset(directory / str(subset), subset))

    return files


def pytest_generate_tests(metafunc):
    if "form" in metafunc.fixturenames:
        metafunc.parametrize("form", WRONG_FORMS.values(), ids=WRONG_FORMS)


def test_no_project_has(form, projects):
    found = [
        f"{name}: {finding if isinstance(finding, str) else ast.unparse(finding)}"
        for text, name in projects.items()
        for finding in form.check(inspection.parse_python(text), text)
    ]
    assert found == []


def test_the_check_finds_the_wrong_form(form):
    assert list(form.check(ast.parse(form.example), form.example))


@pytest.mark.parametrize(
    "subset", [Subset.of(), everything(), everything(parallel="fsdp")], ids=str
)
def test_the_check_finds_the_wrong_form_in_a_project(form, subset, projects_with):
    """In train.py, whose own code must not hide what is wrong, or in what it imports."""
    found = set()
    for name, text in projects_with(subset).items():
        if inspection.is_product_code(name):
            tree = ast.parse(text)
            if form.put_in:
                form.put_in(tree)
            wrong = ast.unparse(tree) + ("" if form.put_in else f"\n{form.example}")
            if [*form.check(ast.parse(wrong), wrong)]:
                found.add(name)
    if form.needs and form.needs not in subset.tricks:
        assert not found
    else:
        assert found if form.put_in else "train.py" in found


def test_clipping_of_unscaled_gradients_is_right(projects_with):
    tree = ast.parse(projects_with(Subset.of("amp"))["train.py"])
    clip_scaled(tree)
    text = ast.unparse(tree)
    right = text.replace(CLIP, f"scaler.unscale_(optimizer); {CLIP}")
    assert right != text
    assert list(clipping_of_scaled_gradients(ast.parse(text), text))
    assert not list(clipping_of_scaled_gradients(ast.parse(right), right))


def calls(tree: ast.AST, name: str) -> Iterator[ast.Call]:
    """Yields the calls of a function or method, by the end of its dotted name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called == name or called.endswith(f".{name}"):
                yield node


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def keywords(call: ast.Call) -> dict[str | None, str]:
    return {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}


@wrong_form('os.envion["CUDA_VISIBLE_DEVICE"] = "0"')
def misspelt_environment(tree, text):
    yield from re.findall(r"envion|CUDA_VISIBLE_DEVICE(?!S)", text)


@wrong_form('os.environ["CUDA_VISIBLE_DEVICES"] = "0"')
def devices_hidden_from_inside(tree, text):
    # It is the user's to set, and only works before CUDA starts.
    yield from re.findall(r"environ\W+CUDA_VISIBLE_DEVICES", text)


def bodies(tree: ast.Module) -> Iterator[ast.AST]:
    """The functions of a module, less the methods of its classes, and what is outside."""
    yield from (node for node in tree.body if isinstance(node, ast.FunctionDef))
    yield outside(tree)


def outside(tree: ast.Module) -> ast.Module:
    """Returns the statements of a module outside of its functions and classes."""
    inside = (ast.FunctionDef, ast.ClassDef)
    return ast.Module([node for node in tree.body if not isinstance(node, inside)], [])


def updates(tree: ast.AST) -> Iterator[ast.Call]:
    """Yields the calls that update the weights, and what counts as such."""
    for name in ("optimizer.step", "optimizer_step", "scaled_step", "scaler.step"):
        yield from calls(tree, name)


def schedule_first(tree: ast.Module) -> None:
    """Moves what steps a scheduler to the beginning of its function."""
    for function in functions(tree):
        steps = [s for s in function.body if [*calls(s, "scheduler.step")]]
        function.body = steps + [s for s in function.body if s not in steps]


@wrong_form(
    "for epoch in range(9):\n    scheduler.step()\n    optimizer.step()", schedule_first
)
def schedule_before_the_update(tree, text):
    """A scheduler that steps where the same function has not updated the weights above.

    A class that wraps a scheduler is called by the loop, which is checked itself.
    """
    for body in bodies(tree):
        for step in calls(body, "scheduler.step"):
            if not any(update.lineno < step.lineno for update in updates(body)):
                yield step


CLIP = "torch.nn.utils.clip_grad_norm_(run.model.parameters(), 1.0)"


def clip_scaled(tree: ast.Module) -> None:
    """Leaves out what unscales in front of the project's clipping, or clips if it has none."""
    for function in functions(tree):
        if any(scaled_steps(function)):
            rest = [s for s in function.body if not any(calls(s, "unscale_"))]
            clip = [] if any(clips(function)) else ast.parse(CLIP).body
            function.body = [*clip, *rest]


def clips(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        if re.search(r"clip_grad|clipping\.clip$", called):
            yield node


def scaled_steps(tree: ast.AST) -> Iterator[ast.Call]:
    return (step for step in updates(tree) if "scaler" in ast.unparse(step))


@wrong_form(
    "scaler.scale(loss).backward()\nclip_grad_norm_(p, 1)\nscaler.step(opt)",
    clip_scaled,
    needs="amp",
)
def clipping_of_scaled_gradients(tree, text):
    """Clipping before a scaled step, where the same function has not unscaled above."""
    for body in bodies(tree):
        for clip in clips(body):
            unscaled = any(
                (call.lineno, call.col_offset) < (clip.lineno, clip.col_offset)
                for call in calls(body, "unscale_")
            )
            if any(scaled_steps(body)) and not unscaled:
                yield clip


@wrong_form("loss = loss / accumulation_steps\nloss.backward()")
def loss_divided_by_the_number_of_batches(tree, text):
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            divisor = ast.unparse(node.right)
            if "loss" in ast.unparse(node.left) and re.search(
                r"accum|steps|^\d+$|^k$", divisor
            ):
                yield node


def count_batches(tree: ast.Module) -> None:
    """Updates where a number of batches divides, and not where a window ends."""
    remainder = "run.progress.batch % run.settings.accumulation_steps"
    test = ast.parse(f"{remainder} == 0", mode="eval")
    for function in functions(tree):
        if "Window" in ast.unparse(function.args):
            function.body = [
                ast.If(test.body, [step], []) if any(updates(step)) else step
                for step in function.body
            ]


@wrong_form(
    "if (i + 1) % accumulation_steps == 0:\n    optimizer.step()",
    count_batches,
    needs="accumulation",
)
def last_window_dropped(tree, text):
    """An update that depends on a remainder, which a short last window never has."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "%" in ast.unparse(node.test):
            body = ast.Module(node.body, [])
            yield from updates(body)
            if any(isinstance(child, ast.Continue) for child in ast.walk(body)):
                yield node


@wrong_form("SGD([{'parameters': biases, 'lr': 2 * lr}, {'params': weights}])")
def parameter_group_without_params(tree, text):
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            keys = {ast.unparse(key).strip("'") for key in node.keys if key}
            searched = "Distribution(" in ast.unparse(node)
            known = searched or keys & {"params", "__version__"}
            if "lr" in keys and not known:
                yield node


@wrong_form("optimizer = torch.optim.Adam([{'model': model.parameters()}])")
def model_as_a_parameter_group(tree, text):
    for name in ("Adam", "AdamW", "SGD"):
        for call in calls(tree, name):
            for node in ast.walk(call):
                if isinstance(node, ast.Dict) and "'params'" not in ast.unparse(node):
                    yield node


@wrong_form("groups = [{'params': (p for p in biases)}]")
def generator_as_parameters(tree, text):
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                name = ast.unparse(key) if key else ""
                if name == "'params'" and isinstance(value, ast.GeneratorExp):
                    yield node


@wrong_form("ids = map(id, head.parameters())\nbase = [p for p in all if id(p) in ids]")
def iterator_of_ids(tree, text):
    for call in calls(tree, "map"):
        if ast.unparse(call.args[0]) == "id":
            yield call
    for call in calls(tree, "filter"):
        if " id(" in ast.unparse(call.args[0]):
            yield call


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
    """A name whose beginning is cut off, whether or not it is the prefix."""
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(
                slice=ast.Slice(lower=ast.Constant(value=int(n)), upper=None)
            ):
                # Of a list, the first item may be left out.
                if n > 1:
                    yield node
            case ast.Subscript(
                slice=ast.Slice(lower=ast.Call(func=ast.Name(id="len")))
            ):
                yield node


def save_no_parts(tree: ast.Module) -> None:
    """Leaves the states of the run's parts out of what is saved."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict) and "'format': FORMAT" in ast.unparse(node):
            node.values = [v for k, v in zip(node.keys, node.values, strict=True) if k]
            node.keys = [key for key in node.keys if key]


@wrong_form(
    "torch.save({'model': m, 'optimizer': o, 'epoch': e}, path)",
    save_no_parts,
    needs="resume",
)
def checkpoint_of_half_the_state(tree, text):
    """A checkpoint without the schedule, the random numbers or the place in the data."""
    listed = {"model", "optimizer", "scheduler"}
    if "amp_dtype" in text or "scaler" in text:
        listed.add("scaler")
    place = {"epoch", "batch", "step"}
    needed = {*listed, *place, "random"}
    if "def parts" in text:
        needed = {*listed, *place}
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            keys = {key.value for key in node.keys if isinstance(key, ast.Constant)}
            # What has a state of its own is listed by the run, and saved with the rest.
            entries = zip(node.keys, node.values, strict=True)
            if any("run.parts" in ast.unparse(v) for k, v in entries if not k):
                keys |= {*listed, "progress"}
            if "progress" in keys:
                keys |= place
            saves = "optimizer" in keys or ("settings" in keys and "run.parts" in text)
            if saves and not needed <= keys:
                yield f"only {sorted(keys)}"


@wrong_form("torch.save(state, 'checkpoint.pth.tar')")
def save_over_the_old_file(tree, text):
    """A torch.save in a function that does not flush to disk and then rename.

    Nor is it one that write_atomically(), which does both, is given to call.
    """
    given = {
        name.id
        for call in calls(tree, "write_atomically")
        for name in ast.walk(call)
        if isinstance(name, ast.Name)
    }
    for call in calls(tree, "torch.save"):
        inside = [f for f in functions(tree) if call in ast.walk(f)]
        if given & {getattr(function, "name", None) for function in inside}:
            continue
        around = inside[0] if inside else tree
        flushed = [flush.lineno for flush in calls(around, "os.fsync")]
        renamed = [rename.lineno for rename in calls(around, "replace")]
        if not any(call.lineno < a < b for a in flushed for b in renamed):
            yield call


@wrong_form("shutil.copy('checkpoint.pth.tar', 'best.pth.tar')")
def copy_over_the_best_file(tree, text):
    for name in ("copy", "copyfile", "copy2"):
        yield from calls(tree, f"shutil.{name}")


@wrong_form("def worker_init(worker):\n    np.random.seed(0)")
def one_seed_for_all_workers(tree, text):
    """NumPy seeded by a constant, in a worker or anywhere else."""
    for seed in (*calls(tree, "random.seed"), *calls(tree, "manual_seed")):
        own = isinstance(seed.func.value, ast.Call)  # torch.Generator().manual_seed(0)
        if not seed.args or isinstance(seed.args[0], ast.Constant) and not own:
            yield seed


@wrong_form("class D:\n    def __init__(self, p):\n        self.f = h5py.File(p)")
def handle_opened_in_init(tree, text):
    for function in functions(tree):
        if function.name == "__init__":
            yield from calls(function, "h5py.File")


@wrong_form("correct += (mixed_logits.argmax(1) == labels).sum()\nmixup(images)")
def mixed_accuracy_of_one_label(tree, text):
    """Predictions compared with one label, where targets may be mixed."""
    if re.search(r"mixup|mixed", text) and "argmax" in text and "gather(" not in text:
        yield from re.findall(r".*argmax.*", text)


@wrong_form("smoothed_labels.scatter_(1, labels.unsqueeze(1), 0.9)")
def labels_smoothed_by_hand(tree, text):
    yield from re.findall(r"\.scatter_\(.*", text)


def read_the_clock_first(tree: ast.Module) -> None:
    """Takes the time of the epoch in front of what waits for the device."""
    for function in functions(tree):
        stops = [s for s in function.body if any(differences_of_times(s))]
        function.body = stops + [s for s in function.body if s not in stops]


WAITS = ("synchronize", "sums.compute", "compute_since_log", "is_finite")
"""Calls that wait for the device before they return."""


@wrong_form(
    "start = time.time()\nmodel(images)\nprint(time.time() - start)",
    read_the_clock_first,
)
def clock_read_before_the_device_is_done(tree, text):
    """A time is read again, or subtracted from, and no line above waits for the device.

    What a state dict holds is read where the states of all parts are collected.
    """
    for body in (*functions(tree), outside(tree)):
        waits = [wait.lineno for name in WAITS for wait in calls(body, name)]
        again = sorted(clocks(body), key=lambda clock: clock.lineno)[1:]
        stops = [*again, *differences_of_times(body)]
        if getattr(body, "name", "") == "state_dict":
            stops = []
        elif "run.parts" in ast.unparse(body):
            stops += calls(body, "state_dict")
        for stop in stops:
            if not any(wait < stop.lineno for wait in waits):
                yield stop


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
