"""Sources of problems and solutions: read, and what is run of them; and the names that follow from theirs."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from fuzz.core.base.errors import UsageError
from fuzz.references.named import first_in_path
from fuzz.references.text import TAKEN

_LONGEST = 31
"""No name of an op or an operand is longer."""


class ProblemError(UsageError):
    """A problem or a solution that cannot be read. The message says which, and what to do."""


def text_of(path: Path) -> str:
    """Return the text of a file. Raises ProblemError."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ProblemError(f"{path}: {getattr(error, 'strerror', None) or 'it is no text'}") from error


def parsed(text: str, file: str) -> ast.Module:
    """Return a source as Python reads it. Raises ProblemError, which names the file."""
    try:
        return ast.parse(text)
    except SyntaxError as error:
        raise ProblemError(f"{file}: it is no Python: {error.msg}, line {error.lineno}") from error
    except ValueError as error:
        raise ProblemError(f"{file}: it is no Python: {error}") from error


def definitions(path: Path, text: str) -> Mapping[str, ast.stmt]:
    """Return the functions and classes of a source by their names. Nothing of it is run. Raises ProblemError."""
    tree = parsed(text, str(path))
    kinds = (ast.FunctionDef, ast.ClassDef)
    return {each.name: each for each in tree.body if isinstance(each, kinds)}


def chosen_function(path: str, defined: Mapping[str, ast.stmt], name: str, usual: tuple[str, ...]) -> str:
    """Return the name of the function that is meant: the one that is named, one of the `usual` names, or the only one.
    Raises ProblemError."""
    functions = [each for each, what in defined.items() if isinstance(what, ast.FunctionDef) and each[0] != "_"]
    if name:
        if name in defined:
            return name
        raise ProblemError(f"{path} has no function {name!r}; it has {', '.join(functions) or 'none'}")
    known = [each for each in usual if each in functions] or functions
    if len(known) != 1 and not any(each in functions for each in usual):
        said = f"it has {', '.join(functions)}: name one, {path}:{functions[0]}" if functions else "it has no function"
        raise ProblemError(f"{path}: {said}")
    return known[0]


def executed(path: Path, text: str, tree: ast.Module | None = None) -> ModuleType:
    """Return the module of a source, which is run. Raises ProblemError."""
    module = ModuleType(f"_kernelfuzz_problem_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    try:
        with first_in_path(path.resolve().parent):
            exec(compile(tree or text, str(path), "exec"), module.__dict__)
    except (Exception, SystemExit) as error:  # to leave with exit code 0 would say that a solution is right
        raise ProblemError(f"{path}: {type(error).__name__}: {error}") from error
    return module


def signed(call: Callable[..., Any], name: str, parameters: list[str]) -> Callable[..., Any]:
    """Return a function whose parameters are the tensors: they are read from its signature."""

    def reference(**tensors: Any) -> Any:
        return call(**tensors)

    kinds = [inspect.Parameter(each, inspect.Parameter.POSITIONAL_OR_KEYWORD) for each in parameters]
    reference.__signature__ = inspect.Signature(kinds)  # type: ignore[attr-defined]
    reference.__name__ = identifier(name)
    return reference


def identifier(name: str) -> str:
    """Return the name of an op or an operand that is like it."""
    plain = "".join(each if each.isalnum() else "_" for each in name.lower()).strip("_0123456789")
    plain = plain[:_LONGEST].rstrip("_") or "reference"
    return f"{plain}_" if plain in TAKEN else plain


def identifiers(words: Iterable[str]) -> list[str]:
    """Return names as operands may have them, no two of them one."""
    found = list[str]()
    for each in words:
        name, number = identifier(each), 1
        while name in found:
            number += 1
            name = f"{identifier(each)[: _LONGEST - 3]}_{number}"
        found.append(name)
    return found


def kernel_name(words: str, taken: Sequence[str]) -> str:
    """Return the name of a solution as a kernel may have it, which is none of those that are taken."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", words).strip("_") or "solution"
    name, number = plain, 1
    while name in taken:
        number += 1
        name = f"{plain}_{number}"
    return name
