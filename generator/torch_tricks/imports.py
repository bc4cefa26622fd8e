"""Imports that both sides of a merge add, often in the same lines."""

import ast
import re
from collections.abc import Iterable
from typing import NamedTuple

LONGEST = 88
"""Longest line of an import, as ruff formats it."""


class Statement(NamedTuple):
    """An import at the top of a file."""

    names: frozenset[str]
    """Imported names of a module. For an import of the module itself: one empty name."""
    first: int
    last: int
    """Its lines, numbered from 1."""
    commented: bool


Imports = dict[str, Statement]
"""Imports by module with its leading dots, or by their text, such as `import numpy as np`."""


def with_imports_of_both(
    ours: bytes, base: bytes, theirs: bytes
) -> tuple[bytes, bytes, bytes]:
    """Returns three versions of a file, each with the imports that one of two sides adds.

    A merge of the results has no conflict in these imports. An import from which a side removes a
    name stays as it is, and so does an import with a comment.

    Raises:
        SyntaxError, ValueError: one of the versions is not Python.
    """
    texts = [version.decode() for version in (ours, base, theirs)]
    one, old, other = map(read_imports, texts)
    new = (one, other)
    for module in {**new[0], **new[1]}:
        before = names_in(old, module)
        after = [names_in(side, module) for side in new]
        added = any(before < names for names in after)
        kept = all(before <= names for names in after)
        commented = any(s[module].commented for s in (old, *new) if module in s)
        if added and kept and not commented:
            names = sorted(after[0] | after[1], key=order_of_name)
            split = any(s[module].last > s[module].first for s in new if module in s)
            statement = written(module, names, split)
            texts = [with_import(text, module, statement, new) for text in texts]
    ours, base, theirs = (text.encode() for text in texts)
    return ours, base, theirs


def read_imports(text: str) -> Imports:
    lines, found = lines_of(text), {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            source = lines[node.lineno - 1 : node.end_lineno]
            key, names = " ".join(source).strip(), [""]
            if isinstance(node, ast.ImportFrom):
                key = "." * node.level + (node.module or "")
                names = [
                    f"{each.name} as {each.asname}" if each.asname else each.name
                    for each in node.names
                ]
            last = node.end_lineno or node.lineno
            commented = any("#" in line for line in source)
            found[key] = Statement(frozenset(names), node.lineno, last, commented)
    return found


def lines_of(text: str) -> list[str]:
    """Splits a text into lines as Python counts them.

    Raises:
        ValueError: a line ends in a carriage return alone.
    """
    if re.search(r"\r(?!\n)", text):
        raise ValueError("lines end in carriage returns")
    return re.findall(r".*\n|.+", text)


def names_in(imports: Imports, module: str) -> frozenset[str]:
    return imports[module].names if module in imports else frozenset()


def written(module: str, names: Iterable[str], split: bool) -> str:
    """Returns an import as ruff formats it, with a line for each name if it was split before."""
    if module.startswith("import "):
        return f"{module}\n"
    line = f"from {module} import {', '.join(names)}\n"
    if len(line) <= LONGEST + 1 and not split:
        return line
    each = "".join(f"    {name},\n" for name in names)
    return f"from {module} import (\n{each})\n"


def with_import(
    text: str, module: str, statement: str, sides: Iterable[Imports]
) -> str:
    """Returns a text with an import: in its place, or beside its neighbours on another side."""
    lines, here = lines_of(text), read_imports(text)
    if "\r\n" in text:
        statement = statement.replace("\n", "\r\n")
    if module in here:
        _, first, last, _ = here[module]
    else:
        first = place_for(module, here, sides)
        last = first - 1
    return "".join([*lines[: first - 1], statement, *lines[last:]])


def place_for(module: str, here: Imports, sides: Iterable[Imports]) -> int:
    """Returns the line for a new import, in ruff's order."""
    for side in sides:
        modules = [*side]
        place = modules.index(module) if module in side else 0
        for other in reversed(modules[:place]):
            if other in here:
                line = here[other].last + 1
                for name, (_, first, last, _) in here.items():
                    if first == line and order_of_module(name) < order_of_module(
                        module
                    ):
                        line = last + 1
                return line
        for other in modules[place + 1 :] if module in side else ():
            if other in here:
                return here[other].first
    return 1


def order_of_module(module: str) -> tuple[bool, int, str]:
    name = module.lstrip(".")
    return not module.startswith("import "), len(name) - len(module), name


def order_of_name(name: str) -> tuple[int, str]:
    """Constants, classes and functions, as ruff sorts them."""
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2
    return kind, name
