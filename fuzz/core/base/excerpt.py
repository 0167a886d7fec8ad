"""Excerpts of Python modules: some statements, with all of the module that they need. Nothing is run."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence


def function_text(module: str, function: str) -> tuple[str, frozenset[str]]:
    """Return the text of a function of a module with all that it needs of it, and the names of its parameters. Raises
    SyntaxError, and KeyError if the module alone does not define the function."""
    body = ast.parse(module).body
    found = [each for each in body if isinstance(each, ast.FunctionDef) and each.name == function]
    if len(found) != 1:
        raise KeyError(function)
    text, given = module_text(body, found), found[0].args
    if any(isinstance(each, ast.ImportFrom) and each.level for each in ast.parse(text).body):
        raise KeyError(f"{function}: imports what lies beside its module")
    return text, frozenset(each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs))


def module_text(body: Sequence[ast.stmt], wanted: Sequence[ast.stmt]) -> str:
    """Return the text of the wanted statements after those of `body` that bind names which they need in any way."""
    kept = {id(each): each for each in body if _is_for_all(each)}
    waiting = list(wanted)
    while waiting:
        needed = _uses(waiting.pop())
        for each in body:
            if id(each) not in kept and each not in wanted and bound(each) & needed:
                kept[id(each)] = each
                waiting.append(each)
    lines = [ast.unparse(each) for each in (*(each for each in body if id(each) in kept), *wanted)]
    return "\n".join(lines) + "\n"


def _is_for_all(statement: ast.stmt) -> bool:
    """Whether the statement may change the meaning of all others: a __future__ import or `import *`."""
    return isinstance(statement, ast.ImportFrom) and (
        statement.module == "__future__" or any(alias.name == "*" for alias in statement.names)
    )


def bound(statement: ast.stmt) -> set[str]:
    """Return the names that the statement binds."""
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
    """Return the names that the statement may look up in its module."""
    names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
    return names - set(dir(builtins))
