"""Small changes of a kernel's source, each of which is likely a bug: what a test suite should notice."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fuzz.base.errors import UsageError

_PYTHON = frozenset({".py"})
_C = frozenset({".c", ".cc", ".cpp", ".cu", ".h"})
_SWAPPED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "+": "-", "-": "+", "*": "/", "/": "*"}
_SIGNS: dict[type[ast.AST], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.Add: "+", ast.Sub: "-", ast.Mult: "*",
    ast.Div: "/",
}  # fmt: skip
_OTHERS = {
    "max": "min", "amax": "amin", "maximum": "minimum", "argmax": "argmin", "mean": "sum", "fmaxf": "fminf",
    "fmax": "fmin",
}  # fmt: skip
"""Functions that are taken for one another."""
_LEFT_OUT = frozenset({"sqrt", "exp", "log", "abs", "tanh", "sqrtf", "expf", "logf", "fabsf", "tanhf"})
"""Functions that are forgotten."""
_CASTS = frozenset({"float", "double", "to", "astype"})
"""Methods that change a dtype, and are forgotten."""
_HIDDEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^[ \t]*#(?:\\\n|[^\n])*', re.S | re.M
)
"""What no compiler calculates with: comments, strings and what is for the preprocessor."""
_OPERATOR = re.compile(r"(?<=[\w)\]] )(<=|>=|==|<|>|\+|-|\*|/)(?= [\w(&-])")
_ADDED = re.compile(r"(?<= )\+=(?= )")
_FUNCTION = re.compile(rf"\b({'|'.join(sorted({*_OTHERS, *_LEFT_OUT}))})(?=\()")
_NUMBER = re.compile(r"(?<![\w.])(?:(\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)|(\d+))(?=[fFuUlL]*(?![\w.]))")
_MORE = 1.1
"""A number is off by a tenth of itself: more than any tolerance, and less than what changes the sign of a result."""


@dataclass(frozen=True)
class Mutation:
    """One change of one file."""

    path: Path
    start: int
    end: int
    """The characters of the text that are replaced, from `start` on and before `end`."""
    new: str

    def of(self, text: str) -> str:
        """The changed text."""
        return text[: self.start] + self.new + text[self.end :]

    def lines(self, text: str) -> tuple[int, str, str]:
        """The number of the line, from 1, and the line before and after."""
        number = text.count("\n", 0, self.start)
        after = self.of(text)
        return number + 1, text.splitlines()[number].strip(), after.splitlines()[number].strip()


def mutations(path: Path, text: str) -> list[Mutation]:
    """All changes of a source, in the order of their places. Raises UsageError for a language of which nothing is
    known."""
    if path.suffix in _PYTHON:
        found = _of_python(path, text)
    elif path.suffix in _C:
        found = _of_c(path, text)
    else:
        raise UsageError(f"{path}: bugs are made in Python and in C, C++ and CUDA, by the end of a file's name")
    ordered = sorted({each.start: each for each in found}.values(), key=lambda each: each.start)
    return [each for each in ordered if path.suffix not in _PYTHON or _is_python(each.of(text))]


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def _of_python(path: Path, text: str) -> Iterator[Mutation]:
    """In the bodies of functions; their parameters and what documents them are left alone."""
    offsets = [0]
    for line in text.splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    raw = text.splitlines(keepends=True)

    def place(line: int, column: int) -> int:
        """The character at a line and a column of bytes in UTF-8."""
        return offsets[line - 1] + len(raw[line - 1].encode()[:column].decode())

    def span(node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return place(node.lineno, node.col_offset), place(node.end_lineno, node.end_col_offset)

    def between(left: ast.expr, right: ast.expr, old: str, new: str) -> Iterator[Mutation]:
        start, end = span(left)[1], span(right)[0]
        at = text.find(old, start, end)
        if at >= 0:
            yield Mutation(path, at, at + len(old), new)

    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise UsageError(f"{path}: {error.msg}, line {error.lineno}") from error
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for node in (each for function in functions for statement in function.body for each in ast.walk(statement)):
        match node:
            case ast.Compare(left=left, ops=[sign], comparators=[right]) if type(sign) in _SIGNS:
                yield from between(left, right, _SIGNS[type(sign)], _SWAPPED[_SIGNS[type(sign)]])
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _SIGNS:
                yield from between(left, right, _SIGNS[type(sign)], _SWAPPED[_SIGNS[type(sign)]])
            case ast.AugAssign(target=target, op=ast.Add(), value=value):
                yield from between(target, value, "+=", "=")
            case ast.UnaryOp(op=ast.USub(), operand=operand) if not isinstance(operand, ast.Constant):
                yield Mutation(path, span(node)[0], span(operand)[0], "")
            case ast.Constant(value=(int() | float()) as number) if not isinstance(number, bool):
                yield Mutation(path, *span(node), _other_number(number))
            case ast.Call(func=ast.Name(id="range"), args=[*_, stop]) if len(node.args) < 3:
                yield Mutation(path, span(stop)[1], span(stop)[1], " - 1")
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in _CASTS:
                yield Mutation(path, text.index(".", span(value)[1]), span(node)[1], "")
            case ast.Call(func=(ast.Attribute() | ast.Name()) as function):
                name = function.attr if isinstance(function, ast.Attribute) else function.id
                start, end = span(function)
                if name in _OTHERS:
                    yield Mutation(path, end - len(name), end, _OTHERS[name])
                elif name in _LEFT_OUT and len(node.args) == 1:
                    yield Mutation(path, start, end, "")


def _of_c(path: Path, text: str) -> Iterator[Mutation]:
    code = _HIDDEN.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    for found in _OPERATOR.finditer(code):
        yield Mutation(path, *found.span(), _SWAPPED[found[0]])
    for found in _ADDED.finditer(code):
        line = code[code.rfind("\n", 0, found.start()) + 1 : found.start()]
        if "for (" not in line or ")" in line[line.index("for (") :]:  # a loop that does not get on never ends
            yield Mutation(path, *found.span(), "=")
    for found in _FUNCTION.finditer(code):
        yield Mutation(path, *found.span(), _OTHERS.get(found[0], ""))
    for found in _NUMBER.finditer(code):
        yield Mutation(path, *found.span(), _other_number(float(found[1]) if found[1] else int(found[2])))


def _other_number(value: float) -> str:
    if isinstance(value, int):
        return str(value + 1)
    return repr(value * _MORE) if value else "1.0"
