"""What a rendered project must look like: each check yields its findings in words.

Most files are the same in many projects, so that what is known of a text is kept.
"""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import yaml
from rendering import PACKAGE
from subsets import TRICKS, Subset

ANSWERS = ".copier-answers.yml"
"""Names every trick that was asked for, chosen or not: Copier needs that."""

RUFF = Path(sys.executable).with_name("ruff")

MODULES = {trick.name: trick.module for trick in TRICKS if trick.module}


def words_by_owners() -> dict[tuple[str, ...], list[str]]:
    """Returns the patterns that may match only where one of some tricks is chosen."""
    owners: dict[str, list[str]] = {}
    for trick in TRICKS:
        names = (trick.title, *trick.flags, trick.source)
        for word in (*trick.words, *map(re.escape, names)):
            owners.setdefault(word, []).append(trick.name)
        for choice, words in trick.words_of.items():
            for word in words:
                owners.setdefault(word, []).append(choice)
    grouped: dict[tuple[str, ...], list[str]] = {}
    for word, tricks in owners.items():
        grouped.setdefault(tuple(tricks), []).append(word)
    return grouped


TRACES = words_by_owners()

# Words that a file may say all the same. Every project can load the weights of others,
# whatever those were wrapped in.
EXCEPTIONS = {
    f"{PACKAGE}/data/hdf5.py": (r"itertools import accumulate", r"\*accumulate\("),
    f"{PACKAGE}/models/weights.py": (
        r"DataParallel, DistributedDataParallel and AveragedModel",
        r"AveragedModel|n_averaged",
        r"A training checkpoint will do too",
    ),
    "tests/data/test_data.py": (r"ipynb_checkpoints",),
    "tests/models/test_models.py": (
        r"in_a_checkpoint",
        r"checkpoint\.pt",
    ),
}


def faults(project: Path, subset: Subset) -> Iterator[str]:
    """Finds all that this module finds in a project."""
    yield from unparsable_files(project)
    yield from untidy_files(project)
    yield from foreign_traces(project, subset)
    yield from missing_modules(project, subset)
    yield from dead_code(project)


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
    for trick in MODULES.keys() & set(subset.tricks):
        module = MODULES[trick]
        if not (project / PACKAGE / f"{module}.py").exists():
            yield f"{trick} has no module"
        name = Path(module).name
        if not re.search(rf"^from [\w.]*\.{name} import ", code, re.MULTILINE):
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
        if name.endswith(".md"):
            text = re.sub(r"^```.*?^```$", "-", text, flags=re.DOTALL | re.MULTILINE)
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


class DifferentFiles:
    """The Python files of many projects, each text once, for ruff.

    Ruff looks at each file alone. Of its project it reads pyproject.toml, and which of the
    modules are there that the file imports, to sort them. Where these are the same, the
    same text has the same faults: it gets a place with all of these, and no other files.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.places: dict[tuple[object, ...], str] = {}

    def add(self, project: Path, subset: Subset) -> None:
        files = text_files(project)
        metadata = tomllib.loads(files["pyproject.toml"])
        ruff = metadata["tool"].get("ruff")
        settings = (metadata["project"]["requires-python"], repr(ruff))
        for name, text in files.items():
            if not name.endswith(".py"):
                continue
            package = str(Path(name).with_name("__init__.py"))
            modules = {package, *imported_files(text)} & files.keys() - {name}
            key = (settings, name, text, frozenset(modules))
            if key in self.places:
                continue
            place = self.directory / str(len(self.places))
            # An empty table makes the place a project of its own.
            table = "" if ruff is not None else "\n[tool.ruff]\n"
            manifest = files["pyproject.toml"] + table
            contents = dict.fromkeys(modules, "") | {
                "pyproject.toml": manifest,
                name: text,
            }
            for path, content in contents.items():
                (place / path).parent.mkdir(parents=True, exist_ok=True)
                (place / path).write_text(content, encoding="utf-8")
            self.places[key] = f"{place.name}/{name}: {subset}"

    def ruff(self, *command: str) -> str:
        """Returns what ruff finds in them, and of which subset each such file is."""
        result = subprocess.run(
            [RUFF, *command, "--no-cache", "--quiet", "."],
            capture_output=True,
            check=False,
            cwd=self.directory,
            encoding="utf-8",
        )
        said = result.stdout + result.stderr
        paths = set(re.findall(r"[\w/]+\.py", said))
        places = [p for p in self.places.values() if p.partition(":")[0] in paths]
        if result.returncode and not said:
            said = f"ruff ended with {result.returncode}"
        return "\n".join([said, *places])


def is_product_code(name: str) -> bool:
    return name.endswith(".py") and not name.startswith("tests/")


@cache
def parse_python(text: str) -> ast.Module:
    return ast.parse(text)


@cache
def imported_files(text: str) -> frozenset[str]:
    """Returns the paths that the modules could have that Python code imports."""
    names = set()
    for node in ast.walk(parse_python(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names |= {node.module, *(f"{node.module}.{a.name}" for a in node.names)}
    paths = set()
    for name in names:
        parts = name.split(".")
        for length in range(1, len(parts) + 1):
            path = "/".join(parts[:length])
            paths |= {f"{path}.py", f"{path}/__init__.py"}
    return frozenset(paths)


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
        if argument.arg not in {"self", "cls", *names_read_in(function.body)}
        if not argument.arg.startswith("_")
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
