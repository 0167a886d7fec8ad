"""Functions that somebody has written: found in files of C and Python, with the op that each is meant as."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from fuzz.core.adapters.binding import STATUS, Binding, LacksError, UnclearError, bound, parsed
from fuzz.core.base.capability import CONTIGUOUS_F32, DeclarationError
from fuzz.core.base.errors import UsageError
from oracles.dtypes import FLOATS
from oracles.op import Op
from oracles.ops import OPS
from oracles.synonyms import likely

_COMMENTS = re.compile(r"/\*.*?\*/|//[^\n]*|^[ \t]*#[^\n]*", re.DOTALL | re.MULTILINE)
"""Comments, and what is for the preprocessor."""
_FUNCTION = re.compile(
    r"(?:^|(?<=[;{}]))\s*((?:[A-Za-z_][\w*]*[\s*]+)+[A-Za-z_]\w*\s*\([^(){};]*\))\s*(?=[;{])", re.MULTILINE
)
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?")
_Found = TypeVar("_Found")


@dataclass(frozen=True)
class Wanted:
    """What is known of a function before its file is read."""

    op: Op | None = None
    """What it computes; without one its name says it."""
    name: str = ""
    """Its name; without one it is the first whose name is that of an op, and that can be called."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    """What its arguments are, as `--argument` says."""
    constants: Mapping[str, float] = field(default_factory=dict)
    """The numbers that a reference has, and a kernel may have parameters for."""

    def meant(self, function: str) -> Op:
        """The op that a function of that name is meant as. Raises UsageError."""
        found = self.op or _named(function)
        if found is None:
            raise UsageError(
                f"{function}: its name says no op that there is: name one with --op, see kernelfuzz list ops, or a "
                "Python function that computes the same: --op FILE.py:FUNCTION"
            )
        return found

    def chosen(self, names: Collection[str], where: str, call: Callable[[str], _Found]) -> _Found:
        """What `call` returns of the function that is meant. Raises UsageError, which says what to type."""
        if not names:
            raise UsageError(f"{where}: there is no function in it")
        if self.name and self.name not in names:
            raise UsageError(f"{where}: it has no function {self.name!r}: it has {', '.join(names)}")
        tried = [self.name] if self.name else [each for each in names if self._says(each)] or [*names]
        likely = len(tried) < len(names) or self._says(tried[0])
        if not likely and self.op is None and len(names) > 1:
            raise UsageError(
                f"{where}: no function of it has the name of an op: {', '.join(names)}: name one and its op:"
                f" --from {where}:{tried[0]} --op OP, see kernelfuzz list ops"
            )
        found, wrong = dict[str, _Found](), dict[str, UsageError]()
        for name in tried:
            try:
                found[name] = call(name)
            except UsageError as error:
                wrong[name] = error
        if len(found) > 1 and not likely:
            raise UsageError(f"{where}: it has {', '.join(found)}: name one, --from {where}:{tried[0]}")
        if not found:
            first = next(iter(wrong))
            others = f"; another function of it is named by --from {where}:{tried[1]}" if len(tried) > 1 else ""
            raise UsageError(f"{where}: {wrong[first]}{others}")
        return next(iter(found.values()))

    def _says(self, function: str) -> bool:
        named = _named(function)
        return named is not None and (self.op is None or named.name == self.op.name)


def _named(function: str) -> Op | None:
    """The op with the longest name that the function's has in it."""
    plain = function.lower().replace("_", "")
    found = sorted((each for each in OPS if each.replace("_", "") in plain), key=len)
    return OPS[found[-1]] if found else None


def read(path: Path) -> str:
    """The text of a file. Raises UsageError."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path}: cannot be read: {getattr(error, 'strerror', '') or 'it is not UTF-8 text'}"
        ) from error


def c_function(text: str, wanted: Wanted, where: str) -> Binding:
    """The function of a source, a header or a prototype that is meant. Raises UsageError."""
    prototypes, wrong = dict[str, str](), list[str]()
    for prototype in _prototypes(text):
        try:
            prototypes[parsed(prototype).name] = prototype
        except DeclarationError as error:
            wrong.append(str(error))
    if wrong and not prototypes:
        raise UsageError(f"{where}: {wrong[0]}")
    return wanted.chosen(prototypes, where, lambda name: _bound(wanted, prototypes[name]))


def _bound(wanted: Wanted, prototype: str) -> Binding:
    function = parsed(prototype)
    op = wanted.meant(function.name)
    integer = not function.is_void and not function.result.is_float
    floats = [each.name for each in function.arguments if each.type.is_float]
    given = {**{name: str(value) for name, value in _constants(floats, wanted).items()}, **wanted.arguments}
    with _typed():
        found = bound(op, function, given, STATUS if integer else "", CONTIGUOUS_F32)
        for name, argument in found.tensors.items():
            if not op.operand(name).integers and not {*argument.type.dtypes} & {*FLOATS}:
                how = f"fuzz.op_of(..., dtypes={{{name!r}: {argument.type.dtypes[0]!r}}}) in a pack says others"
                raise DeclarationError(
                    f"{argument.name} is {argument.type}, and {name} of {op.name} is of floats: {how}"
                )
        return found


@contextmanager
def _typed() -> Iterator[None]:
    """What is wrong with arguments, as a UsageError that says what to type."""
    try:
        yield
    except UnclearError as error:
        typed = " ".join(f"--argument {name}={choices[0]}" for name, choices in error.unclear.items())
        raise UsageError(f"{error.what}: {typed}{error.instead}") from error
    except LacksError as error:
        how = "; where that is a number in it, name a function of torch that has the same: --op FILE.py:FUNCTION"
        raise UsageError(f"{error.what}{how if error.is_number else ''}") from error
    except DeclarationError as error:
        raise UsageError(str(error).removeprefix("prototype: ").replace("arguments:", "--argument:", 1)) from error


def _constants(names: Collection[str], wanted: Wanted) -> Mapping[str, float]:
    """The reference's numbers for parameters of these names, unless it is said what they are."""
    meant = likely({name: [*wanted.constants] for name in names if name not in wanted.arguments})
    return {name: wanted.constants[constant] for name, constant in meant.items()}


def _prototypes(text: str) -> Iterator[str]:
    plain = _COMMENTS.sub(" ", re.sub(r'extern\s+"C"(\s*\{)?', " ", text))
    plain = plain if plain.rstrip().endswith((";", "}", "{")) else f"{plain.rstrip()};"
    for found in _FUNCTION.findall(plain):
        words = re.sub(r"\b(?:static|inline|extern)\b", "", found).split()
        if words[0] not in ("return", "else", "typedef"):
            yield " ".join(words)


@dataclass(frozen=True)
class PythonFunction:
    """A function of a Python file, and how it is called as a kernel of its op."""

    name: str
    op: Op
    arguments: Mapping[str, str]
    """What its parameters are that have other names than the op's tensors and parameters."""
    options: Mapping[str, float]
    """The numbers that it is always given."""


def python_function(path: Path, wanted: Wanted) -> PythonFunction:
    """The function of a Python file that is meant. Raises UsageError."""
    try:
        body = ast.parse(read(path)).body
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"{path}: {error}") from error
    found = {each.name: each for each in body if isinstance(each, ast.FunctionDef) and not _is_program(each)}
    public = {name: each for name, each in found.items() if not name.startswith("_") or name == wanted.name}
    return wanted.chosen(public, str(path), lambda name: _called(public[name], wanted))


def _is_program(function: ast.FunctionDef) -> bool:
    """Whether it runs on a GPU, and is launched by another function."""
    return any("triton" in ast.unparse(each) for each in function.decorator_list)


def _called(function: ast.FunctionDef, wanted: Wanted) -> PythonFunction:
    op, defaults = wanted.meant(function.name), _defaults(function)
    tensors, parameters = [each.name for each in op.operands], [each.name for each in op.parameters]
    names = [*tensors, *op.params]
    for own, meaning in wanted.arguments.items():
        if own not in defaults:
            raise UsageError(
                f"--argument {own}: {function.name} has no parameter {own!r}: it has {', '.join(defaults)}"
            )
        if meaning not in names and not _NUMBER.fullmatch(meaning):
            raise UsageError(f"--argument {own}: {meaning!r} is not one of {', '.join(names)}, or a number")
    constants = _constants([name for name in defaults if name not in names], wanted)
    rest = {name: default for name, default in defaults.items() if name not in (*constants, *wanted.arguments)}
    taken = {*wanted.arguments.values()}
    may_be = {
        name: names if default is _REQUIRED else [*(tensors if default is None else ()), *parameters]
        for name, default in rest.items()
    }
    meant = {**likely({name: {*some} - taken for name, some in may_be.items()}), **wanted.arguments}
    unclear = [name for name, default in rest.items() if default is _REQUIRED and name not in meant]
    missing = [each.name for each in op.inputs if not each.optional and each.name not in meant.values()]
    if len(unclear) == len(missing) == 1:
        meant[unclear.pop()] = missing.pop()
    if unclear:
        left = [each for each in names if each not in meant.values()]
        with _typed():
            raise UnclearError(function.name, {name: [*left[:1], "1", *left[1:]] for name in unclear})
    missing += [each.name for each in op.parameters if each.neutral is None and each.name not in meant.values()]
    if missing:
        with _typed():
            raise LacksError(f"parameter of {function.name}", op, missing[0])
    options = {
        name: float(each) if {*each} & {*".eE"} else int(each) for name, each in meant.items() if each not in names
    }
    renamed = {name: each for name, each in meant.items() if each in names and each != name}
    return PythonFunction(function.name, op, renamed, {**constants, **options})


_REQUIRED = object()
"""The default of a parameter that has none."""


def _defaults(function: ast.FunctionDef) -> Mapping[str, object]:
    """The default of each parameter that can be given by keyword: a number, None, _REQUIRED, or something else."""
    given = function.args
    plain: list[ast.expr | None] = [*given.defaults]
    plain = [*([None] * (len(given.posonlyargs) + len(given.args) - len(plain))), *plain][len(given.posonlyargs) :]
    pairs = [*zip(given.args, plain, strict=True), *zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    return {each.arg: _REQUIRED if default is None else getattr(default, "value", ...) for each, default in pairs}
