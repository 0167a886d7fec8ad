"""Functions that somebody has written: found in files of C and Python, with the op that each is meant as."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from fuzz.adapters.binding import STATUS, Binding, bound
from fuzz.adapters.prototype import parsed
from fuzz.base.capability import CONTIGUOUS_F32, DeclarationError
from fuzz.base.errors import UsageError
from oracles.op import Op
from oracles.ops import OPS

_COMMENTS = re.compile(r"/\*.*?\*/|//[^\n]*|^[ \t]*#[^\n]*", re.DOTALL | re.MULTILINE)
"""Comments, and what is for the preprocessor."""
_FUNCTION = re.compile(
    r"(?:^|(?<=[;{}]))\s*((?:[A-Za-z_][\w*]*[\s*]+)+[A-Za-z_]\w*\s*\([^(){};]*\))\s*(?=[;{])", re.MULTILINE
)


def read(path: Path) -> str:
    """The text of a file. Raises UsageError."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path}: cannot be read: {getattr(error, 'strerror', '') or 'it is not UTF-8 text'}"
        ) from error


def meant(function: str, op: str) -> Op:
    """The op that a function is meant as: the one that is named, or the longest that its name has in it. Raises
    UsageError."""
    if op:
        if op not in OPS:
            raise UsageError(f"--op {op}: no such op: see kernelfuzz list ops")
        return OPS[op]
    plain = function.lower().replace("_", "")
    found = sorted((each for each in OPS if each.replace("_", "") in plain), key=len)
    if not found:
        raise UsageError(f"{function}: its name says no op that there is: name one with --op, see kernelfuzz list ops")
    return OPS[found[-1]]


def c_function(text: str, op: str, where: str) -> Binding:
    """The first function of a source, a header or a prototype that can be called as its op. Raises UsageError, saying
    what is wrong where there is only one."""
    wrong: list[str] = []
    for prototype in _prototypes(text):
        try:
            function = parsed(prototype)
            return _bound(meant(function.name, op), prototype)
        except (DeclarationError, UsageError) as error:
            wrong.append(str(error))
    if len(wrong) == 1:
        raise UsageError(f"{where}: {wrong[0]}")
    raise UsageError(f"{where}: no function in it can be called: name one with --prototype, and its op with --op"
                     if wrong else f"{where}: there is no function in it")  # fmt: skip


def _bound(op: Op, prototype: str) -> Binding:
    function = parsed(prototype)
    integer = not function.is_void and not function.result.is_float
    return bound(op, function, {}, STATUS if integer else "", CONTIGUOUS_F32)


def _prototypes(text: str) -> Iterator[str]:
    plain = _COMMENTS.sub(" ", re.sub(r'extern\s+"C"(\s*\{)?', " ", text))
    plain = plain if plain.rstrip().endswith((";", "}", "{")) else f"{plain.rstrip()};"
    for found in _FUNCTION.findall(plain):
        words = re.sub(r"\b(?:static|inline|extern)\b", "", found).split()
        if words[0] not in ("return", "else", "typedef"):
            yield " ".join(words)


def python_function(path: Path, op: str) -> tuple[str, Op]:
    """The first function of a Python file that is meant as the op, and that. Raises UsageError."""
    try:
        body = ast.parse(read(path)).body
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"{path}: {error}") from error
    names = [each.name for each in body if isinstance(each, ast.FunctionDef)]
    for name in (each for each in names if not each.startswith("_")):
        try:
            found = meant(name, "")
        except UsageError:
            continue
        if op in ("", found.name):
            return name, found
    if op and len(names) == 1:
        return names[0], meant(names[0], op)
    raise UsageError(f"{path}: no function of it has the name of an op: {', '.join(names) or 'there is none'}")
