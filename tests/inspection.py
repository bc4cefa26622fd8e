"""What a rendered project must look like: each check yields its findings in words.

Most files are the same in many projects, so that what is known of a text is kept.
"""

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import yaml
from rendering import PACKAGE
from subsets import Subset
from torch_tricks.catalogue import TRICKS

ANSWERS = ".copier-answers.yml"
"""Names every trick that was asked for, chosen or not: Copier needs that."""

MODULES = {trick.name: trick.module for trick in TRICKS}

# Patterns that may match only where one of these tricks is chosen, in any letter case.
TRACES = {
    ("seeding",): (
        r"seeding",
        r"seed_everything",
        r"--seed\b",
        r"settings\.seed\b",
        r"\bseed: int = 0",
        r"deterministic",
        r"cublas",
        r"cudnn\.benchmark",
        r"notes/randomness",
    ),
    ("seeding", "resume", "ddp", "fsdp"): (
        r"sampling",
        r"EpochSampler",
        r"KeyedDataset",
        r"derive_seed",
        r"\bsampler\b",
        r"set_epoch",
        r"torch\.Generator",
        r"numpy_state",
    ),
    ("parallel",): (r"several GPUs",),
    ("dp", "ddp"): (r"train_model",),
    ("dp",): (
        r"data_parallel",
        r"nn\.DataParallel",
        r"drop_last=True",
    ),
    ("ddp",): (
        r"DistributedDataParallel",
        r"\bddp",
        r"replicate",
    ),
    ("fsdp",): (
        r"fsdp",
        r"fully_shard",
        r"DTensor",
        r"\bshard\(",
        r"whole_state",
        r"reshard",
    ),
    ("ddp", "fsdp"): (
        r"torch\.distributed",
        r"\bdist\.",
        r"torchrun",
        r"\branks?\b",
        r"world_size",
        r"\bprocess_group",
        r"RankBatches",
        r"--timeout",
        r"slurm",
        r"\bgloo\b",
        r"\bnccl\b",
    ),
    ("hdf5",): (
        r"h5py",
        r"hdf5",
        r"\.h5\b",
        r"convert\.py",
        r"read_samples",
        r"--shards",
    ),
    ("hdf5", "fsdp"): (r"\bshards\b",),
    ("hdf5", "seeding", "resume", "ddp", "fsdp"): (r"__getitems__",),
    ("prefetcher",): (
        r"prefetch",
        r"copy_stream",
        r"record_stream",
        r"wait_stream",
        r"cuda\.Stream",
        r"pinmem_nonblock",
    ),
    ("amp",): (
        r"\bamp\b",
        r"amp[_-]dtype",
        r"autocast",
        r"GradScaler",
        r"\bscaler\b",
        r"scaled_step",
        r"loss scal",
        r"mixed precision",
        r"b?float16",
    ),
    ("accumulation",): (
        r"accumulat",
        r"windows?\b",
        r"micro-?batch",
    ),
    ("swa",): (
        r"swa",
        r"averag",
        r"WeightAverage",
        r"AveragedModel",
        r"update_bn",
        r"model_plain",
    ),
    ("mixup",): (
        r"mixup",
        r"cutmix",
        r"\bmix\b",
        r"make_mix",
        r"mixed targets",
        r"1710\.09412",
        r"1905\.04899",
    ),
    ("resume",): (
        r"run\.batch\b",
        r"StopSignal",
        r"leave_process_group",
        r"SIGTERM",
        r"checkpoint",
        r"resum(e|ing)",
        r"rng_state_all",
        r"def (set_)?random_state",
        r"\brestore\(",
        r"def load_state_dict",
    ),
}
for trick in TRICKS:
    TRACES[trick.name,] += (
        trick.title,
        *map(re.escape, (*trick.flags, trick.source)),
    )

# Words that a file may say all the same. Every project can load the weights of others,
# whatever those were wrapped in.
EXCEPTIONS = {
    f"{PACKAGE}/hdf5.py": (r"itertools import accumulate", r"\*accumulate\("),
    f"{PACKAGE}/weights.py": (
        r"DataParallel, DistributedDataParallel and AveragedModel",
        r"AveragedModel|n_averaged",
        r"A training checkpoint will do too",
    ),
    "tests/test_models.py": (
        r"in_a_checkpoint",
        r"checkpoint\.pt",
    ),
}


def foreign_traces(project: Path, subset: Subset) -> Iterator[str]:
    """Finds words of tricks that were not chosen, in the names and texts of files."""
    for name, text in text_files(project).items():
        for owners, word in traces(name, text):
            if not set(owners) & subset.chosen:
                yield f"{name}: {word!r} is a trace of a trick that is not chosen"


@cache
def traces(name: str, text: str) -> list[tuple[tuple[str, ...], str]]:
    """Returns the words of tricks in a file, each with the tricks that may have it."""
    if name == ANSWERS:
        return []
    for exception in EXCEPTIONS.get(name, ()):
        text = re.sub(exception, "", text)
    return [
        (owners, match[0])
        for owners, words in TRACES.items()
        for word in words
        if (match := re.search(word, f"{name}\n{text}", re.IGNORECASE))
    ]


def missing_modules(project: Path, subset: Subset) -> Iterator[str]:
    """Finds chosen tricks that have no module, or whose module nothing imports."""
    code = "".join(
        text for name, text in text_files(project).items() if is_product_code(name)
    )
    for trick in subset.tricks:
        module = MODULES[trick]
        if not (project / PACKAGE / f"{module}.py").exists():
            yield f"{trick} has no module"
        if not re.search(
            rf"^from (\.|{PACKAGE}\.){module} import ", code, re.MULTILINE
        ):
            yield f"nothing imports {module}"


def unparsable_files(project: Path) -> Iterator[str]:
    """Finds Python, TOML, YAML and shell files that do not parse."""
    for name, text in text_files(project).items():
        try:
            match Path(name).suffix:
                case ".py":
                    parse_python(text)
                case ".toml":
                    tomllib.loads(text)
                case ".yml" | ".yaml":
                    yaml.safe_load(text)
                case ".sh":
                    parse_shell(text)
        except (SyntaxError, ValueError, yaml.YAMLError) as error:
            yield f"{name}: {error}"


def untidy_files(project: Path) -> Iterator[str]:
    """Finds what a template leaves behind: blank lines, loose spaces, tags, empty files."""
    for name, text in text_files(project).items():
        blank_lines = 3 if name.endswith(".py") else 2
        if not text.strip():
            yield f"{name} is empty"
        if re.search(r"[ \t]$", text, re.MULTILINE):
            yield f"{name} has trailing space"
        if "\n" * (blank_lines + 1) in text:
            yield f"{name} has too many blank lines"
        if text != text.strip("\n") + "\n":
            yield f"{name} begins with a blank line, or does not end in one newline"
        if re.search(r"(?<!\$)\{\{ |\{%|\{#", text):
            yield f"{name} has a tag of the template"


def dead_code(project: Path) -> Iterator[str]:
    """Finds definitions and parameters, outside of the tests, that nothing uses."""
    code = {
        name: text
        for name, text in text_files(project).items()
        if is_product_code(name)
    }
    used = CALLED_BY_TORCH.union(*map(used_names, code.values()))
    for name, text in code.items():
        for defined in defined_names(text) - used:
            yield f"{name}: nothing uses {defined}"
        for parameter in unused_parameters(text):
            yield f"{name}: {parameter}"


CALLED_BY_TORCH = frozenset({"forward"})


def is_product_code(name: str) -> bool:
    return name.endswith(".py") and not name.startswith("tests/")


@cache
def parse_python(text: str) -> ast.Module:
    return ast.parse(text)


@cache
def parse_shell(text: str) -> None:
    checked = subprocess.run(
        ["bash", "-n"], input=text, capture_output=True, check=False, encoding="utf-8"
    )
    if checked.returncode:
        raise SyntaxError(checked.stderr)


@cache
def used_names(text: str) -> frozenset[str]:
    """Returns the names that are read, as variables or attributes."""
    return frozenset(read_names(parse_python(text)))


def read_names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield node.attr


@cache
def defined_names(text: str) -> frozenset[str]:
    """Returns the functions, classes, constants, methods and fields that code defines."""
    names = set()
    for node in ast.walk(parse_python(text)):
        if not isinstance(node, ast.Module | ast.ClassDef):
            continue
        for statement in node.body:
            match statement:
                case (
                    ast.FunctionDef(name=name)
                    | ast.ClassDef(name=name)
                    | ast.Assign(targets=[ast.Name(id=name)])
                    | ast.AnnAssign(target=ast.Name(id=name))
                ) if not name.startswith("__"):
                    names.add(name)
    return frozenset(names)


@cache
def unused_parameters(text: str) -> list[str]:
    """Returns the parameters that their own function never reads."""
    return [
        f"{function.name} does not use {argument.arg}"
        for function in ast.walk(parse_python(text))
        if isinstance(function, ast.FunctionDef) and not is_stub(function)
        for argument in function.args.posonlyargs + function.args.args
        if argument.arg not in {"self", "cls", "_", *names_read_in(function.body)}
    ]


def names_read_in(statements: list[ast.stmt]) -> set[str]:
    return {name for statement in statements for name in read_names(statement)}


def is_stub(function: ast.FunctionDef) -> bool:
    """Tells the methods of a protocol, which have no body."""
    return isinstance(function.body[-1], ast.Expr) and isinstance(
        function.body[-1].value, ast.Constant
    )


def text_files(project: Path) -> dict[str, str]:
    """The text of every file of a project, by its path."""
    return {
        str(path.relative_to(project)): path.read_text(encoding="utf-8")
        for path in sorted(project.rglob("*"))
        if path.is_file()
    }
