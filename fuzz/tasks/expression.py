"""How an array in a test was made: the calls of NumPy and SciPy in the expression that the test's source has for it."""

from __future__ import annotations

import ast
import linecache
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

import numpy as np

_LIBRARIES = ("numpy", "scipy")
_MAKERS = ("arange", "array", "asarray", "eye", "float16", "float32", "float64", "full", "linspace", "logspace", "ones",
           "zeros")  # fmt: skip
"""Functions that make inputs, which are called again as they are."""
_DEEP = 8
"""The most variables and parameters behind which an expression is looked for: two may be assigned to each other."""
_INPUT = "x{}"
_OTHER = "_other{}"
"""Names of what an expression takes: arrays of floats or complex numbers, and anything else."""


class UnknownSourceError(Exception):
    """The error of a value that no expression of a library's calls has made, with the reason."""


@dataclass(frozen=True)
class CalledValue:
    """A value as a function of arrays, by calls of a library."""

    reference: Callable[..., Any]
    inputs: Mapping[str, Any]
    key: str
    """What a reading of it hangs on, besides dtypes and shapes of the inputs: its text, and all that is no array."""
    kept: Sequence[Any]
    """The functions that are called, in the order of the text, and what the key has of other objects: a place in memory
    is theirs as long as they are kept."""
    args: Sequence[Any] | None
    """The arguments of a ufunc of which nothing else is made."""


@dataclass(frozen=True)
class SourcePlace:
    """An expression, and the frame in which its names have their values."""

    node: ast.expr
    frame: FrameType

    def value(self) -> Any:
        """Return the value of the expression, of which nothing but names, literals and `_MAKERS` is left."""
        code = compile(ast.fix_missing_locations(ast.Expression(self.node)), "<expression>", "eval")
        return eval(code, self.frame.f_globals, self.frame.f_locals)


def argument(frame: FrameType, name: str, position: int) -> SourcePlace:
    """Return the expression that the call which a frame is in gives to a parameter."""
    call = _call(frame)
    named = {each.arg: each.value for each in call.keywords}
    plain = call.args[: position + 1]
    if any(isinstance(each, ast.Starred) for each in plain) or (len(plain) <= position and name not in named):
        raise UnknownSourceError("its call does not show it")
    return SourcePlace(plain[position] if len(plain) > position else named[name], frame)


def called_value(place: SourcePlace, value: Any) -> CalledValue:
    """Return how a value was made by calls of a library. Raises UnknownSourceError if no such call made it, or if the
    expression has another value now."""
    made = ExpressionReading(place := _behind(place))
    node = made.visit(place.node)
    if not made.calls:
        raise UnknownSourceError("no call of NumPy or SciPy made it")
    if not any(isinstance(each, np.ndarray) for each in made.inputs.values()):
        made.inputs.update((name, each) for name, each in made.floats.items())
    if not made.inputs:
        raise UnknownSourceError("it depends on no floats")
    names = [*made.inputs]
    function = ast.Lambda(ast.arguments([], [ast.arg(each) for each in names], None, [], [], None, []), node)
    known = {**place.frame.f_globals, **place.frame.f_locals, **made.floats, **made.others}
    # Only what it names, so that a reading does not keep all arrays of a test; and the library that methods are of.
    known = {each.id: known[each.id] for each in ast.walk(node) if isinstance(each, ast.Name) and each.id in known}
    known.setdefault("numpy", np)
    code = compile(ast.fix_missing_locations(ast.Expression(function)), place.frame.f_code.co_filename, "eval")
    reference = eval(code, known)
    reference.__name__ = ast.unparse(place.node)[:60]
    inputs, state = {name: np.array(each) for name, each in made.inputs.items()}, np.random.get_state()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            again = np.asarray(reference(**{name: each.copy() for name, each in inputs.items()}))
        except Exception as error:  # whatever the library raises
            raise UnknownSourceError(f"its call cannot be made again: {error}") from error
        finally:
            np.random.set_state(state)
    if again.dtype.kind not in "fc" or not np.array_equal(again, np.asarray(value), equal_nan=True):
        raise UnknownSourceError("its expression has another value now")
    fixed = {name: each for name, each in {**made.floats, **made.others}.items() if name not in inputs}
    alone = (
        isinstance(made.calls[0], np.ufunc)
        and isinstance(node, ast.Call)
        and len(made.calls) == 1
        and not node.keywords
    )
    given = {**inputs, **fixed}
    args = [given[each.id] if isinstance(each, ast.Name) else each.value for each in node.args] if alone else None
    # The text of a long array leaves out most of it.
    others = [each.tolist() if isinstance(each, np.ndarray) else each for each in fixed.values()]
    key = f"{ast.unparse(node)} {[*map(id, made.calls)]} {others!r}"
    return CalledValue(reference, inputs, key, [*made.calls, *fixed.values()], args)


@dataclass
class ExpressionReading(ast.NodeTransformer):
    """Replaces what an expression takes by names, and keeps calls of libraries and operators."""

    place: SourcePlace
    inputs: dict[str, Any] = field(default_factory=dict)
    floats: dict[str, float] = field(default_factory=dict)
    others: dict[str, Any] = field(default_factory=dict)
    calls: list[Any] = field(default_factory=list)

    def visit(self, node: ast.AST) -> Any:
        """Return what stands for an expression."""
        if isinstance(node, (ast.BinOp, ast.UnaryOp)) and any(map(_is_call, ast.walk(node))):
            return type(node)(**{
                name: self.visit(each) if isinstance(each, ast.expr) else each for name, each in ast.iter_fields(node)
            })  # fmt: skip
        if isinstance(node, ast.Call) and _is_call(node):
            return self._call(node)
        if isinstance(node, ast.Subscript) and isinstance(node.value, (ast.Call, ast.Subscript)):
            return ast.Subscript(self.visit(node.value), self._taken(node.slice), ast.Load())
        return self._taken(node) if isinstance(node, ast.expr) else node

    def _call(self, node: ast.Call) -> ast.expr:
        function = node.func
        if isinstance(function, ast.Attribute) and any(map(_is_call, ast.walk(function.value))):
            function, called = ast.Attribute(self.visit(function.value), function.attr, ast.Load()), None
        else:
            called = self._value(function)
        if isinstance(function, ast.Attribute) and isinstance(of := getattr(called, "__self__", None), np.ndarray):
            function, called = ast.Attribute(self._named(of), function.attr, ast.Load()), None
        elif called is not None and not _is_of_library(called):
            raise UnknownSourceError("no call of NumPy or SciPy made it")
        if any(each.arg == "out" for each in node.keywords):
            raise UnknownSourceError("its call writes to an argument")
        self.calls.append(called)
        args = [self.visit(each) for each in node.args]
        return ast.Call(function, args, [ast.keyword(each.arg, self._taken(each.value)) for each in node.keywords])

    def _taken(self, node: ast.expr) -> ast.expr:
        for each in ast.walk(node):
            _refuse(each)
        return self._named(self._value(node), node)

    def _value(self, node: ast.expr) -> Any:
        _refuse(node)
        try:
            return SourcePlace(node, self.place.frame).value()
        except Exception as error:  # whatever the expression raises
            raise UnknownSourceError(f"an argument has no value now: {error}") from error

    def _named(self, value: Any, node: ast.expr | None = None) -> ast.expr:
        if isinstance(value, (np.random.Generator, np.random.RandomState)) or (
            callable(value) and not isinstance(value, type) and not _is_of_library(value)
        ):  # whose state would be another one afterwards
            raise UnknownSourceError("its call draws, or calls what the test has")
        array = value
        if isinstance(value, (list, tuple, np.generic)):
            try:
                array = np.asarray(value)
            except ValueError:  # of lists that are no array
                array = value
        if isinstance(array, np.ndarray) and array.dtype.kind in "fc":
            name, kept = _INPUT.format(len(self.inputs) + len(self.floats)), self.inputs
            value = array
        elif isinstance(value, float):
            name, kept = _INPUT.format(len(self.inputs) + len(self.floats)), self.floats
        elif isinstance(node, ast.Constant):
            return node
        else:
            name, kept = _OTHER.format(len(self.others)), self.others
        kept[name] = value
        return ast.Name(name, ast.Load())


def _refuse(node: ast.AST) -> None:
    """Raise UnknownSourceError for what must not be done twice, or makes an argument in a way of its own."""
    if isinstance(node, (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr, ast.Starred)):
        raise UnknownSourceError("its expression has more than calls")
    if _is_call(node):
        raise UnknownSourceError("an argument is made by another call")


def _is_call(node: ast.AST) -> bool:
    """Whether a node is a call, but of `_MAKERS`."""
    return isinstance(node, ast.Call) and getattr(node.func, "attr", "") not in _MAKERS


def _is_of_library(function: Any) -> bool:
    if isinstance(function, np.ufunc):
        return True
    named = getattr(function, "__module__", None) or type(getattr(function, "__self__", None)).__module__
    package, _, rest = str(named).partition(".")
    return callable(function) and package in _LIBRARIES and "random" not in rest and "tests" not in rest


def _behind(place: SourcePlace) -> SourcePlace:
    """Return the expression that a variable was assigned, if the place is a variable."""
    for _ in range(_DEEP):
        if not isinstance(place.node, ast.Name):
            return place
        place = _assigned(place.frame, place.node.id)
    raise UnknownSourceError("no single assignment has made it")


def _assigned(frame: FrameType, name: str) -> SourcePlace:
    """Return the expression that was assigned to a variable last above the line that a frame is at, or that its caller
    gave to a parameter of that name."""
    function = _function(frame.f_code)
    above = [
        each for each in _statements(function)
        if any(isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
               for node in ast.walk(each)) and (each.end_lineno or 0) < frame.f_lineno
    ]  # fmt: skip
    last = max(above, key=lambda each: each.lineno, default=None)
    if isinstance(last, ast.Assign) and len(last.targets) == 1 and isinstance(last.targets[0], ast.Name):
        return SourcePlace(last.value, frame)
    if isinstance(last, ast.Assign) and isinstance(last.value, ast.Call) and isinstance(last.targets[0], ast.Tuple):
        found = [at for at, each in enumerate(last.targets[0].elts) if isinstance(each, ast.Name) and each.id == name]
        if len(last.targets) == len(found) == 1:
            return SourcePlace(ast.Subscript(last.value, ast.Constant(found[0]), ast.Load()), frame)
    parameters = frame.f_code.co_varnames[: frame.f_code.co_argcount]
    if last is None and name in parameters and frame.f_back is not None:
        skipped = 1 if parameters[0] in ("self", "cls") else 0
        return argument(frame.f_back, name, parameters.index(name) - skipped)
    raise UnknownSourceError("no single assignment has made it")


def _statements(function: ast.AST) -> Iterator[ast.stmt]:
    """Yield the simple statements, and the loops and contexts that bind names, of a function."""
    for each in ast.walk(function):
        if isinstance(each, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            yield each
        elif isinstance(each, (ast.For, ast.With)):
            head = [each.target] if isinstance(each, ast.For) else [each.optional_vars for each in each.items]
            yield from (ast.Expr(one, lineno=one.lineno, end_lineno=one.end_lineno) for one in head if one is not None)


def _call(frame: FrameType) -> ast.Call:
    """Return the call that a frame is in."""
    places = [*frame.f_code.co_positions()][frame.f_lasti // 2]
    for each in ast.walk(_function(frame.f_code)):
        if isinstance(each, ast.Call) and places == (
            each.lineno,
            each.end_lineno,
            each.col_offset,
            each.end_col_offset,
        ):
            return each
    raise UnknownSourceError("its source is not to be had")


@lru_cache(maxsize=1024)
def _function(code: CodeType) -> ast.AST:
    for each in ast.walk(_tree(code.co_filename)):
        if isinstance(each, (ast.FunctionDef, ast.Lambda)):
            decorated = [one.lineno for one in getattr(each, "decorator_list", ())]
            if code.co_firstlineno == min([each.lineno, *decorated]):
                return each
    raise UnknownSourceError("its source is not to be had")


@lru_cache(maxsize=64)
def _tree(file: str) -> ast.AST:
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except SyntaxError as error:
        raise UnknownSourceError("its source is not to be had") from error
