"""The part of a Python file that one of its functions needs, as a file of its own: a test file has much more."""

from __future__ import annotations

import ast
import builtins
import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from fuzz.core.base.errors import UsageError

ENTRY = "kernel"
"""The name of a function that has none of its own at the top of its file."""


def excerpt(function: Callable[..., Any]) -> tuple[str, str]:
    """Return the text of a module with that function and what of its file it needs, and the function's name there.
    Raises UsageError for one that needs what no file has."""
    plain = inspect.unwrap(function)
    if not isinstance(plain, FunctionType):
        raise _refused(f"the kernel is {type(plain).__name__!r}, and no function of a file")
    try:
        tree = ast.parse(Path(plain.__code__.co_filename).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        raise _refused(f"the source of the kernel cannot be read: {error}") from error
    top = next((each for each in tree.body if _names(each) == {plain.__name__} and _begins(each, plain)), None)
    if top is not None:
        return _module(tree.body, [top]), plain.__name__
    return _module(tree.body, [*_enclosed(plain), _hoisted(tree, plain)]), ENTRY


def _refused(why: str) -> UsageError:
    return UsageError(f"--script: {why}; give it to fuzz.check as a function at the top of a file")


def _begins(node: ast.AST, function: FunctionType) -> bool:
    lines: list[int] = [getattr(node, "lineno", -1), *(e.lineno for e in getattr(node, "decorator_list", ()))]
    return min(lines) == function.__code__.co_firstlineno


def _hoisted(tree: ast.Module, function: FunctionType) -> ast.stmt:
    """The function, which stands within another one or is a lambda, as one of the top."""
    arguments = function.__code__.co_varnames[: function.__code__.co_argcount + function.__code__.co_kwonlyargcount]
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, (ast.Lambda, ast.FunctionDef))
        and _begins(node, function)
        and [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)] == [*arguments]
    ]
    if len(found) != 1:
        raise _refused("the kernel is one of several that begin on one line, or none that its file has now")
    [node] = found
    if isinstance(node, ast.FunctionDef):
        node.name = ENTRY
        return node
    [made] = ast.parse(f"def {ENTRY}(): ...").body
    assert isinstance(made, ast.FunctionDef)
    made.args, made.body = node.args, [ast.Return(node.body)]
    return ast.fix_missing_locations(made)


def _enclosed(function: FunctionType) -> Iterator[ast.stmt]:
    """What it has of the functions around it, as assignments and imports."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        value = cell.cell_contents
        if isinstance(value, ModuleType):
            yield ast.parse(f"import {value.__name__} as {name}").body[0]
        elif _is_literal(value):
            yield ast.parse(f"{name} = {value!r}").body[0]
        else:
            raise _refused(f"the kernel uses {name!r} of the function around it")


def _is_literal(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_literal, value))
    plain = value is None or isinstance(value, (bool, int, str, bytes))
    return plain or (isinstance(value, float) and math.isfinite(value))


def _module(body: Sequence[ast.stmt], wanted: Sequence[ast.stmt]) -> str:
    """The statements wanted, after those of the body that bind a name which they or what they need use."""
    kept = {id(each): each for each in body if _is_for_all(each)}
    waiting = list(wanted)
    while waiting:
        needed = _uses(waiting.pop())
        for each in body:
            if id(each) not in kept and each not in wanted and _names(each) & needed:
                kept[id(each)] = each
                waiting.append(each)
    lines = [ast.unparse(each) for each in (*(each for each in body if id(each) in kept), *wanted)]
    return "\n".join(lines) + "\n"


def _is_for_all(statement: ast.stmt) -> bool:
    """Whether it changes what every other one means."""
    return isinstance(statement, ast.ImportFrom) and (
        statement.module == "__future__" or any(alias.name == "*" for alias in statement.names)
    )


def _names(statement: ast.stmt) -> set[str]:
    """The names that it binds."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {statement.name}
    found = set[str]()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
    return found


def _uses(statement: ast.stmt) -> set[str]:
    """The names that it may look up in its module."""
    names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
    return names - set(dir(builtins))
