"""Checks of a rendered project's files. Each check yields its findings in words.

Most files are the same in many projects, so that the findings of each text are kept.
"""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain, product
from pathlib import Path

import yaml
from blocks import own_template
from footprint import MODULES, footprint, modules
from processes import call_any
from rendering import PACKAGE
from subsets import ROOT, TRICKS, Subset
from torch_tricks.catalogue import Trick

ANSWERS = ".copier-answers.yml"
"""Names every trick that was asked for, chosen or not: Copier needs that."""

RUFF = Path(sys.executable).with_name("ruff")

WORDS = yaml.safe_load((ROOT / "tests/support/words.yml").read_text("utf-8"))
"""Patterns of each trick, or of each of its choices, that nothing else says."""


MODULE_OF = {
    "huggingface-hub": "huggingface_hub",
    "mlflow-skinny": "mlflow",
    "pillow": "PIL",
    "scikit-learn": "sklearn",
}
"""Modules that are not called as the distribution that brings them."""


def module_of(requirement: str) -> str:
    """Returns the module of a requirement, such as `huggingface-hub>=0.30`."""
    name = re.split("[^A-Za-z0-9_-]", requirement)[0].lower()
    return MODULE_OF.get(name, name.replace("-", "_"))


def words_by_owners(computed: bool = True) -> dict[tuple[str, ...], list[str]]:
    """Returns the patterns that may match only where one of some tricks is chosen.

    Args:
        computed: whether those are wanted, too, that rows and modules say without listing them.
    """
    owners: dict[str, list[str]] = {}
    for trick in TRICKS:
        said = {*words_of_a_row(trick), *words_of_a_module(trick)} if computed else ()
        words_of = {trick.name: said}
        if trick.choices:
            words_of |= WORDS[trick.name]
        else:
            words_of[trick.name] = {*said, *WORDS.get(trick.name, [])}
        for owner, words in words_of.items():
            for word in words:
                owners.setdefault(word, []).append(owner)
        for choice in trick.choices:
            for flag in footprint(trick.name, choice).flags:
                owners.setdefault(re.escape(flag), []).append(choice)
    grouped: dict[tuple[str, ...], list[str]] = {}
    for word, tricks in sorted(owners.items()):
        grouped.setdefault(tuple(tricks), []).append(word)
    return grouped


COMMON_NAMES = {
    *("amp", "augmentation", "compile", "csv", "ema", "errors", "evaluate"),
    *("export", "features", "metrics", "parallel", "predict", "pretrained"),
    *("schedule", "summary", "swa", "timm", "uv", "video"),
}
"""Names of tricks that other code has, too."""


def words_of_a_row(trick: Trick) -> Iterator[str]:
    """Yields patterns of what the row of a trick says: names, flags, source, dependencies."""
    yield re.escape(trick.title)
    if trick.name not in COMMON_NAMES:
        yield rf"(\b|_){trick.name.replace('_', '[_ -]')}"
    yield re.escape(trick.source.removeprefix("https://arxiv.org/abs/"))
    for flag in footprint(trick.name).flags if not trick.choices else ():
        yield rf"{re.escape(flag)}(?![\w-])"
        if " " not in flag:
            setting = flag.removeprefix("--").replace("-", "_")
            yield rf"settings\.{setting}\b"
            if "_" in setting:
                yield rf"^ *{setting}: "
    for requirement in trick.depends:
        module = module_of(requirement)
        yield rf"(import|from) {module}\b|\"{module}[.>]"


def words_of_a_module(trick: Trick) -> Iterator[str]:
    """Yields patterns of the modules of a trick, and of what they define for others."""
    for module in MODULES.get(trick.name, []):
        # One word, as report, is a word of sentences, too.
        start = r"\b" if "/" in module else "[./]"
        yield rf"{start}{module.replace('/', '[./]')}\b"
        for name in definitions()[f"{{{{ package_name }}}}/{module}.py"]:
            alone = sum(name in names for names in definitions().values()) == 1
            if alone and re.search(r"[a-z](_[a-z]|[A-Z])", name):
                yield rf"(?-i:\b{name}\(|import .*\b{name}\b)"


@cache
def definitions() -> dict[str, set[str]]:
    """Returns the functions and classes at the top of each module of the template."""
    found: dict[str, set[str]] = {}
    for source in own_template().sources:
        if source.target.endswith(".py"):
            text = "".join(block.text for block in source.blocks)
            names = re.findall(r"^(?:def|class) (\w+)", text, re.MULTILINE)
            found.setdefault(source.target, set()).update(names)
    return found


@cache
def patterns() -> dict[tuple[str, ...], re.Pattern[str]]:
    """Returns the patterns of all owners. The footprints behind them take seconds."""
    return {
        owners: re.compile("|".join(f"(?:{word})" for word in words), re.IGNORECASE)
        for owners, words in words_by_owners().items()
    }


# Words that a file may say all the same. Every project can load the weights of others,
# whatever those were wrapped in, and torch has names of its own.
EXCEPTIONS = {
    "README.md": (r"from PIL import Image, ImageOps",),
    "tests/test_learning_curves.py": (r"from PIL import Image",),
    f"{PACKAGE}/data/hdf5.py": (r"itertools import accumulate", r"\*accumulate\("),
    f"{PACKAGE}/profiling.py": (r"key_averages\(\)",),
    f"{PACKAGE}/models/loading.py": (r"AveragedModel|n_averaged",),
    "tests/models/test_loading.py": (r"AveragedModel|n_averaged",),
    f"{PACKAGE}/models/activation_checkpointing.py": (
        r"stable/checkpoint\.html",
        r"torch\.utils\.checkpoint",
    ),
    f"{PACKAGE}/models/pretrained.py": (r'get_dir\(\), "checkpoints"',),
    "tests/models/test_pretrained.py": (r"torch/hub/checkpoints",),
    "sweep.py": (r"trial\.report\(",),
    "tests/processes/two_ranks.py": (r"torch\.profiler\.profile\(\)",),
}


WORDS_OF_TASKS = {
    "detection": {"from pil", "pil", "pillow", "recall", "scores", "torch.generator"},
    "multilabel": {"f1", "macro", "scores"},
    "regression": {"l1"},
}
"""Words of a trick that all projects of a task may say."""

Files = Mapping[str, str]
"""The text of every file of a project, by its path."""


def faults(files: Files, subset: Subset) -> Iterator[str]:
    """Finds all that this module finds in a project."""
    yield from unparsable_files(files)
    yield from untidy_files(files)
    yield from foreign_traces(files, subset)
    yield from missing_modules(files, subset)
    yield from dead_code(files)


def foreign_traces(files: Files, subset: Subset) -> Iterator[str]:
    """Finds words of tricks that were not chosen, in the names and texts of files."""
    chosen, own_words = subset.chosen, WORDS_OF_TASKS.get(subset.task, set())
    for name, text in files.items():
        if name == ANSWERS:
            continue
        for exception in EXCEPTIONS.get(name, ()):
            text = re.sub(exception, "", text)
        # The name of the file is line 0.
        for number, line in enumerate([name, *text.splitlines()]):
            for owners, word in traces(line):
                if chosen.isdisjoint(owners) and word.lower() not in own_words:
                    said = " or ".join(owners)
                    yield (
                        f"{name}:{number}: {word!r} is a trace of {said}, not chosen here: put "
                        f"it under a condition in template/{name}.jinja, or narrow the words of "
                        f"{said} in tests/support/words.yml"
                    )


@cache
def traces(line: str) -> list[tuple[tuple[str, ...], str]]:
    """Returns the first word in a line of each group of tricks."""
    return [
        (owners, match[0])
        for owners, pattern in patterns().items()
        if (match := pattern.search(line))
    ]


def missing_modules(files: Files, subset: Subset) -> Iterator[str]:
    """Finds modules of chosen tricks that are not there, or that nothing imports."""
    code = "".join(text for name, text in files.items() if is_product_code(name))
    of_task = modules(subset.task)
    for module in chain(*(of_task.get(trick, ()) for trick in subset.tricks)):
        if f"{PACKAGE}/{module}.py" not in files:
            yield f"there is no {module}"
        name = Path(module).name
        if not re.search(rf"^from [\w.]*\.{name} import ", code, re.MULTILINE):
            yield f"nothing imports {module}"


def unparsable_files(files: Files) -> Iterator[str]:
    """Finds Python, TOML, YAML and shell files that do not parse."""
    for name, text in files.items():
        if error := unparsable(Path(name).suffix, text):
            yield f"{name}: {error}"


@cache
def unparsable(suffix: str, text: str) -> str:
    try:
        PARSERS.get(suffix, str)(text)
    except (SyntaxError, ValueError, yaml.YAMLError) as error:
        return str(error)
    return ""


def untidy_files(files: Files) -> Iterator[str]:
    """Finds what a template leaves behind: blank lines, loose spaces, tags, empty files."""
    for name, text in files.items():
        for fault in untidy(Path(name).suffix, text):
            yield f"{name} {fault}"


@cache
def untidy(suffix: str, text: str) -> list[str]:
    if suffix == ".md":
        text = re.sub(r"^```.*?^```$", "-", text, flags=re.DOTALL | re.MULTILINE)
    blank_lines = 3 if suffix == ".py" else 2
    faults = {
        "is empty": not text.strip(),
        "has trailing space": re.search(r"[ \t]$", text, re.MULTILINE),
        "has too many blank lines": "\n" * (blank_lines + 1) in text,
        "begins with a blank line, or does not end in one newline": (
            text != text.strip("\n") + "\n"
        ),
        "has a tag of the template": re.search(r"(?<!\$)\{\{ |\{%|\{#", text),
    }
    return [fault for fault, found in faults.items() if found]


def dead_code(files: Files) -> Iterator[str]:
    """Finds definitions, outside of the tests, that nothing uses."""
    code = {name: text for name, text in files.items() if is_product_code(name)}
    used = FOR_OTHERS.union(*map(read_names, code.values()))
    for name, text in code.items():
        for defined in defined_names(text) - used:
            yield f"{name}: nothing uses {defined}"


FOR_OTHERS = frozenset(
    {"forward", "postprocess", "ArrayImages", "read_image", "command"}
)
"""What torch and torchvision call, what the README offers for data sets of an owner, and what people read in
provenance.json. pydantic calls what it decorates."""


PACKAGES = ("a", 30 * "z")
"""The names of a package by which ruff reads: the first and shortest, the last and longest.

Where imports are in order with both, and no line wraps with either, no name changes them.
"""


COMMANDS = (
    ("check",),
    # Tests have fixtures that they do not read.
    ("check", "--select", "ARG001,ARG002", "--exclude", "tests"),
    ("format", "--check"),
)


def write_code(files: Files, directory: Path) -> None:
    """Writes what ruff reads of a project, in a folder for each name of a package."""
    for package, (name, text) in product(PACKAGES, files.items()):
        if not name.endswith((".py", "pyproject.toml")):
            continue
        if name == "pyproject.toml" and "[tool.ruff" not in text:
            text += "\n[tool.ruff]\n"  # Makes the folder a project of its own.
        file = directory / package / name.replace(PACKAGE, package)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace(PACKAGE, package), encoding="utf-8")


def ruff(directory: Path) -> str:
    """Returns what the commands of ruff find in all projects below a directory."""
    said = ""
    for command in COMMANDS:
        options = ("--no-cache", "--quiet", ".")
        result = call_any(RUFF, *command, *options, cwd=directory)
        said += result.stdout + result.stderr
        assert said or not result.returncode, result
    return said


def is_product_code(name: str) -> bool:
    return name.endswith(".py") and not name.startswith("tests/")


@cache
def parse_python(text: str) -> ast.Module:
    return ast.parse(text)


def parse_shell(text: str) -> None:
    checked = subprocess.run(
        ["bash", "-n"], input=text, capture_output=True, check=False, encoding="utf-8"
    )
    if checked.returncode:
        raise SyntaxError(checked.stderr)


PARSERS = {
    ".py": parse_python,
    ".sh": parse_shell,
    ".toml": tomllib.loads,
    ".yaml": yaml.safe_load,
    ".yml": yaml.safe_load,
}


@cache
def read_names(text: str) -> frozenset[str]:
    """Returns the names that a module reads, as variables or attributes."""
    return frozenset(
        node.id if isinstance(node, ast.Name) else node.attr
        for node in ast.walk(parse_python(text))
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
    )


@cache
def defined_names(text: str) -> frozenset[str]:
    """Returns the functions, classes, constants, methods and fields that it defines."""
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
                ) if not name.startswith("__") and not is_validator(statement):
                    names.add(name)
    return frozenset(names)


def is_validator(statement: ast.stmt) -> bool:
    """Tells the methods that pydantic calls."""
    decorators = getattr(statement, "decorator_list", [])
    return any("_validator(" in ast.unparse(decorator) for decorator in decorators)
