"""Facts about the source of a Python kernel: the signature of its function, and the files beside it that belong to it.
The source is only read, not executed: a pack is loaded in this process, but its kernels in their workers."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any

from fuzz.core.base.capability import Capabilities, DeclarationError
from oracles.op import Op
from oracles.operand import AXIS
from oracles.synonyms import alike


@dataclass(frozen=True)
class Signature:
    """The parameters that can be passed to a function by keyword."""

    parameters: Mapping[str, bool]
    """All parameters by name, each with whether it may be left out."""
    takes_all: bool = False
    """Whether the function also takes keywords of other names."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """The line numbers of the function and of its parameters in the source, by name. Empty for a decorated function."""

    def takes(self, name: str) -> bool:
        """Whether `name` can be passed to the function."""
        return self.takes_all or name in self.parameters

    def renamed(self, names: Mapping[str, str]) -> Signature:
        """Return the signature with parameters renamed. `names` has the new names by the old ones."""
        parameters = {names.get(each, each): left for each, left in self.parameters.items()}
        return replace(
            self, parameters=parameters, lines={names.get(each, each): at for each, at in self.lines.items()}
        )


NOTHING_KNOWN = Signature({}, takes_all=True)
"""The signature for a source that cannot be read. It allows everything."""


def signature_of(function: Callable[..., Any]) -> Signature:
    """Return the signature of a function in this process. Raise TypeError or ValueError if it has none."""
    kinds = inspect.Parameter
    parameters = inspect.signature(function).parameters.values()
    by_keyword = [each for each in parameters if each.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)]
    found = {each.name: each.default is not each.empty for each in by_keyword}
    return Signature(found, any(each.kind is kinds.VAR_KEYWORD for each in parameters))


@lru_cache(maxsize=1024)
def signature_in(source: str, function: str) -> Signature:
    """Return the signature of the function that a module with this text defines at its top level by `def`."""
    found = [each for each in _functions_in(source) if each.name == function]
    if not found:
        return NOTHING_KNOWN
    given = found[-1].args
    first_default = len(given.posonlyargs) + len(given.args) - len(given.defaults)
    plain = {each.arg: len(given.posonlyargs) + at >= first_default for at, each in enumerate(given.args)}
    named = {each.arg: default is not None for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)}
    lines = {each.arg: each.lineno for each in (*given.args, *given.kwonlyargs)} | {function: found[-1].lineno}
    return Signature({**plain, **named}, given.kwarg is not None, {} if found[-1].decorator_list else lines)


@lru_cache(maxsize=256)
def _functions_in(source: str) -> Sequence[ast.FunctionDef]:
    """Return the functions that a module with this text defines at its top level; none if it is not Python, an error
    that the worker reports."""
    try:
        return tuple(_functions(ast.parse(source).body))
    except _UNREADABLE:
        return ()


_UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
"""The exceptions that the parser raises for text that is not Python."""


def _functions(body: list[ast.stmt]) -> Iterator[ast.FunctionDef]:
    for statement in body:
        if isinstance(statement, ast.FunctionDef):
            yield statement
        elif not isinstance(statement, (ast.AsyncFunctionDef, ast.ClassDef)):
            for field in ("body", "orelse", "finalbody", "handlers"):
                yield from _functions(getattr(statement, field, []))


_ALIKE, _ONE_LETTER = 0.6, 0.8
"""The similarity, as difflib measures it, of two names that may mean the same. The first, difflib's default, is for
names like 'epsilon' and 'eps'. The second is for names like 'wieght' and 'weight', if nothing else suggests a mistake,
so that a parameter 'num' does not count as 'sum'."""


def misfits(op: Op, signature: Signature, given: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield the reasons why a call by keyword with the op's tensors and parameters, and with `given`, always fails or
    ignores what is meant. Each is a pair of the parameter's name, or '', and a message. Names that are nearly the same,
    or commonly mean the same, count as the same."""
    known = {*(operand.name for operand in op.operands), *op.params, *given}
    has = f"{op.name} has {', '.join((*(operand.name for operand in op.operands), *op.params))}"
    for name, may_be_left_out in signature.parameters.items():
        if name in known:
            continue
        near = get_close_matches(name, known, cutoff=_ONE_LETTER if may_be_left_out else _ALIKE)
        other = [] if may_be_left_out else [each for each in sorted(known) if alike(name, each)]
        meant = [each for each in (*near, *other) if each not in signature.parameters][:1]
        if meant or not may_be_left_out:
            hint = f"did you mean {meant[0]!r}? " if meant else ""
            yield name, f"parameter {name!r} is nothing that it can be called with: {hint}{has}"
    always = [each.name for each in op.inputs if not each.optional]
    always += [each.name for each in op.parameters if each.neutral is None]
    for name in always:
        if not signature.takes(name):
            yield "", f"it has no parameter {name!r}: {has}"
    for name in given:
        if not signature.takes(name):
            yield "", f"it has no parameter {name!r}, which options give it"


def completed(
    declared: Capabilities, op: Op, signature: Signature, given: Collection[str] = (), returns: Collection[str] = ()
) -> Capabilities:
    """Return the capabilities, with open optional tensors and parameters completed from the signature. Those without a
    default are added to `needs`. Those with a default become `takes`, unless `takes` is declared; () declares none.
    `given` are parameters passed in another way, and `returns` optional outputs that are returned. Raise
    DeclarationError."""
    if declared.axis == "any" and not signature.takes(AXIS):
        raise DeclarationError(f"capabilities.axis: 'any' needs a parameter {AXIS!r}")
    optional = [operand.name for operand in op.operands if operand.optional and operand.name not in given]
    known = {name: signature.parameters[name] for name in optional if name in signature.parameters}
    needs = [name for name in optional if known.get(name) is False or name in returns]
    needs = [*declared.needs, *(name for name in needs if name not in declared.needs)]
    takes = tuple(name for name in optional if known.get(name) and name not in needs)
    params = tuple(name for name in op.neutral if name in signature.parameters and name not in given)
    return replace(
        declared,
        needs=tuple(needs),
        takes=takes if declared.takes is None else declared.takes,
        params=params if declared.params is None else declared.params,
    )


def pairs(arguments: object) -> tuple[tuple[str, str], ...]:
    """Return the arguments as pairs, which can be hashed. Raise DeclarationError."""
    try:
        found = tuple(sorted(dict(arguments).items()))  # type: ignore[call-overload]
    except (TypeError, ValueError) as error:
        raise DeclarationError('arguments: write {"name": "meaning"}') from error
    if not all(isinstance(word, str) for pair in found for word in pair):
        raise DeclarationError('arguments: names and meanings are strings: write {"step": "1"}')
    return found


@lru_cache(maxsize=256)
def asks_tf32(text: str, function: str) -> bool:
    """Return whether some call in a function asks for TF32, or in functions and values of the same source that it uses.
    If the source does not define the function at its top level, all of the source counts."""
    if "tf32" not in text:
        return False
    try:
        source = ast.parse(text)
    except _UNREADABLE:
        return False  # the worker reports the error
    defined = {name: statement for statement in source.body for name in _defines(statement)}
    reached, waiting = set[str](), [function]
    while waiting:
        name = waiting.pop()
        if name in defined and name not in reached:
            reached.add(name)
            waiting += [node.id for node in ast.walk(defined[name]) if isinstance(node, ast.Name)]
    parts: Collection[ast.AST] = [defined[name] for name in reached] or [source]
    calls = (node for part in parts for node in ast.walk(part) if isinstance(node, ast.Call))
    return any((each.arg, getattr(each.value, "value", None)) in _TF32 for call in calls for each in call.keywords)


_TF32 = (("input_precision", "tf32"), ("allow_tf32", True))


def _defines(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def imported_beside(folder: Path, texts: Mapping[str, str], libraries: Collection[str]) -> tuple[str, ...]:
    """Return the modules of a folder that the given files of the folder import as if it came first on the path. A
    module with the name of a library is left out. `texts` are by file name."""
    packages = (path.name for path in folder.glob("*/") if _is_package(path))
    there = {*(name.removesuffix(".py") for name in texts), *packages}
    imported = {name for text in texts.values() for name, dots in _imports(text) if not dots}
    return tuple(sorted((there & imported) - {*sys.stdlib_module_names, *libraries}))


def belonging(source: Path, text: str) -> Mapping[str, Path]:
    """Return the files and folders beside a source that belong to it, by name. A source, or a module that belongs to
    it, may import modules and packages, or name files and folders. Files with the source's stem belong to it too."""
    there = {
        path.name: path for path in sorted(source.absolute().parent.iterdir()) if path.name[0] != "." and path.exists()
    }
    found, waiting = {source.name: source}, [text]
    while waiting:
        named = waiting.pop()
        new = [name for name, path in there.items() if name not in found and _is_named(path, named, source.stem)]
        found |= {name: there[name] for name in new}
        waiting += [there[name].read_text("utf-8", "replace") for name in new if name.endswith(".py")]
    return {name: path for name, path in found.items() if name != source.name}


def _is_named(path: Path, text: str, stem: str) -> bool:
    name = re.escape(path.name)
    if path.is_dir() and re.search(rf"""["'/]{name}["'/]""", text):
        return True
    if path.suffix == ".py" or _is_package(path):
        return path.stem in {each for each, _ in _imports(text)}
    return path.is_file() and (path.stem == stem or bool(re.search(rf"(?<![\w.-]){name}(?![\w.-])", text)))


def _is_package(path: Path) -> bool:
    return path.is_dir() and any(path.glob("*.py"))


@lru_cache(maxsize=1024)
def _imports(text: str) -> frozenset[tuple[str, int]]:
    """Return the first parts of imported names, each with the number of dots before it."""
    try:
        nodes = [*ast.walk(ast.parse(text))]
    except (SyntaxError, ValueError):  # whoever runs the source reports the error
        return frozenset()
    return frozenset(each for node in nodes for each in _named(node))


def _named(node: ast.AST) -> Iterator[tuple[str, int]]:
    if isinstance(node, ast.Import):
        yield from ((each.name.partition(".")[0], 0) for each in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield node.module.partition(".")[0], node.level
    elif isinstance(node, ast.ImportFrom):
        yield from ((each.name, node.level) for each in node.names)
