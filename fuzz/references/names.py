"""A reference's names for its values: the local variables that its statements assign, read from its source."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from fuzz.references.tracing import SourceLine


def locals_of(steps: Sequence[Sequence[SourceLine]]) -> Mapping[int, str]:
    """Return the names of steps' results, by number of the step, from the lines from which each step was called. A
    statement's variable names the result of the last step that the statement makes."""
    found: dict[int, str] = {}
    for at, lines in enumerate(steps):
        following = {
            (depth, _key(line)) for depth, line in enumerate(reversed(steps[at + 1] if at + 1 < len(steps) else ()))
        }
        for depth, line in enumerate(reversed(lines)):
            statement = _statement(line)
            if statement is not None and (depth, _key(line)) not in following and (name := _assigned(statement)):
                found.setdefault(at, name)  # outermost first: the caller's name
    return found


def returned_names(function: Callable[..., Any]) -> Sequence[str]:
    """Return the names of the results of a function or module; "" for a result without a name."""
    code = getattr(inspect.unwrap(getattr(function, "forward", function)), "__code__", None)
    statements = _statements(code.co_filename) if code is not None else ()
    inside = [
        each for each in statements
        if isinstance(each, ast.FunctionDef)
        and min([each.lineno, *(line.lineno for line in each.decorator_list)]) == code.co_firstlineno
    ] if code is not None else []  # fmt: skip
    returns = [*_returns(inside[0])] if inside else []
    value = returns[-1].value if returns else None
    parts = value.elts if isinstance(value, (ast.Tuple, ast.List)) else [value]
    return [each.id if isinstance(each, ast.Name) else "" for each in parts]


def _returns(node: ast.AST) -> Iterator[ast.Return]:
    """Yield the return statements of a function, without those of nested functions."""
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.Return):
            yield each
        elif not isinstance(each, (ast.FunctionDef, ast.ClassDef)):
            yield from _returns(each)


def _key(line: SourceLine) -> tuple[str, int]:
    statement = _statement(line)
    return line.file, statement.lineno if statement is not None else line.line


def _assigned(statement: ast.stmt) -> str:
    """Return the name of the variable that a statement assigns; "" unless there is exactly one."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    assigns = isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign))
    return targets[0].id if assigns and len(targets) == 1 and isinstance(targets[0], ast.Name) else ""


@lru_cache(maxsize=1024)
def _statement(line: SourceLine) -> ast.stmt | None:
    """Return the smallest statement that contains a line; None if there is none."""
    around = [each for each in _statements(line.file) if each.lineno <= line.line <= (each.end_lineno or 0)]
    return min(around, key=lambda each: (each.end_lineno or 0) - each.lineno, default=None)


@lru_cache(maxsize=64)
def _statements(file: str) -> Sequence[ast.stmt]:
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return ()
    return [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
