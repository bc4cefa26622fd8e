"""Runs the blocks of Python on a page, and holds each line to what its comment says.

A page is sections. The blocks of one run in their order, with the names that the first block
of the page, its imports, defines. A comment behind a statement of a block is a claim:

    torch.zeros(2, 3).sum(0).shape  # (3,)
    torch.zeros(2) @ torch.zeros(3)  # RuntimeError: inconsistent tensor size
    torch.norm(x)  # FutureWarning

An expression must have that value, with a number rounded to the digits that are shown, or any
statement must raise that error or give that warning, in whose message the words stand. What
else warns, fails. A colon may end the value, and a remark follow.
"""

import ast
import contextlib
import io
import re
import tokenize
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
RAISED = re.compile(r"(\w+(?:Error|Warning))(?:: (.+))?")


class Block(NamedTuple):
    """A block of Python on a page."""

    heading: str
    """The one that it stands under."""
    code: str
    line: int
    """The number of its first line on the page."""


def blocks(page: str) -> list[Block]:
    """Returns the blocks of Python of a page."""
    found = []
    for match in BLOCK.finditer(page):
        # A comment of a block above may look like a heading.
        prose = BLOCK.sub("", page[: match.start()])
        line = page.count("\n", 0, match.start(1)) + 1
        found.append(Block(HEADING.findall(prose)[-1], match[1], line))
    return found


def statements(block: Block) -> Iterator[tuple[ast.stmt, str]]:
    """Yields the statements of a block, each with the comment behind its last line."""
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(block.code).readline)
        if token.type == tokenize.COMMENT and token.line.strip()[0] != "#"
    }
    for statement in ast.parse(block.code).body:
        comment = comments.get(statement.end_lineno, "")
        claims = isinstance(statement, ast.Expr) or RAISED.fullmatch(comment)
        yield statement, comment if claims else ""


def run(block: Block, names: dict[str, Any], page: Path) -> None:
    """Runs a block among names that are defined already, and adds its own.

    Raises:
        AssertionError: a line does not give what its comment says.
    """
    for statement, claim in statements(block):
        where = f"{page}:{block.line + statement.lineno - 1}"
        ast.increment_lineno(statement, block.line - 1)
        code = compile(ast.Module([statement], []), page, "exec")
        if raised := RAISED.fullmatch(claim):
            kind, message = raised.groups(default="")
            found = raised_by(code, names, kind)
            assert [type(item).__name__ for item in found] == [kind], (
                f"{where}: {found}"
            )
            assert message in str(found[0]), f"{where}: {found}"
        elif claim:
            value = eval(compile(ast.Expression(statement.value), page, "eval"), names)
            assert agrees(value, claim), f"{where}: {value!r} is not {claim}"
        else:
            exec(code, names)  # noqa: S102 - our own pages.


def raised_by(code: CodeType, names: dict[str, Any], kind: str) -> list[Exception]:
    """Returns the error that code raises, or the warnings that it gives."""
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always" if kind.endswith("Warning") else "error")
        try:
            exec(code, names)  # noqa: S102 - our own pages.
        except Exception as error:  # noqa: BLE001 - it is compared later.
            return [error]
    return [warning.message for warning in given]


def agrees(value: Any, claim: str) -> bool:
    """Returns whether a value is what a comment says, up to a remark behind a colon."""
    ends = [match.start() for match in re.finditer(": ", claim)]
    return any(is_shown(value, claim[:end]) for end in (len(claim), *ends))


def is_shown(value: Any, text: str) -> bool:
    """Returns whether a value looks like that, or is equal to it, or rounds to it."""
    if text in (repr(value), str(value)):
        return True
    if isinstance(value, float):
        number = re.fullmatch(r"-?\d+(?:\.(\d*))?(e-?\d+)?", text.replace(",", ""))
        kind = "e" if number and number[2] else "f"
        return bool(number) and format(value, f".{len(number[1] or '')}{kind}") == text
    with contextlib.suppress(ValueError, SyntaxError):
        return bool(ast.literal_eval(text) == value)
    return False
