"""JAX's elementwise primitives: the expressions of torch's operations with the same meaning, and casts."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fuzz.references.dims import Dim, UnreadableError, extent
from fuzz.references.elementwise import (
    BOTH,
    COMPARISONS,
    FUNCTIONS,
    HINTS,
    Registered,
    both,
    clamped,
    fmod,
    opposite,
    power,
    rounded_to,
    where,
    whole,
)
from fuzz.references.elementwise import rule as of_any
from fuzz.references.lines import called, is_number
from fuzz.references.maps import place_along
from fuzz.references.reading import Reader
from fuzz.references.recording import Two
from fuzz.references.scope import Number, Rule, Value

_ONE = ("exp", "exp2", "expm1", "log", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "tanh", "erf", "erfc", "atan",
        "asin", "acos", "sinh", "cosh", "asinh", "acosh", "atanh", "lgamma",
        "sign", "floor", "ceil", "abs", "neg", "square")  # fmt: skip
_TEXTS: Mapping[str, str] = {
    **{name: FUNCTIONS[name] for name in _ONE},
    "logistic": FUNCTIONS["sigmoid"], "cbrt": "f.cbrt(self)",
    "add": "self + other", "add_any": "self + other", "sub": "self - other", "mul": "self * other",
    "max": FUNCTIONS["maximum"], "min": FUNCTIONS["minimum"], "floor_divide": "f.floor(self / other)",
    "remainder": "self - other * f.floor(self / other)", "atan2": FUNCTIONS["atan2"],
}  # fmt: skip


def primitive(*names: str) -> Callable[[Registered], Registered]:
    """Return a decorator that registers a rule for primitives of JAX."""
    return of_any(*(f"lax.{name}" for name in names))


def _row(name: str, text: str) -> None:
    @primitive(name)
    def rule(reader: Reader, args: Any, **_: object) -> Any:
        if (same := _unchanged(name, args)) is not None:
            return same
        return reader.each(text, HINTS.get(name, name), **dict(zip(("self", "other"), args, strict=False)))


def _unchanged(name: str, args: Any) -> Value | None:
    """Return an operand that the other operand, a number, leaves unchanged, such as x in x + 0; None for none."""
    neutral = {"add": 0, "sub": 0, "mul": 1, "max": -float("inf"), "min": float("inf")}.get(name)
    if neutral is None:
        return None
    first, second = args
    if isinstance(first, Value) and _is(second, neutral):
        return first
    return second if name != "sub" and isinstance(second, Value) and _is(first, neutral) else None


def _is(value: Any, number: float) -> bool:
    if isinstance(value, Value):
        return not value.rank and value.expression is not None and is_number(value.expression, number)
    return isinstance(value, (int, float)) and value == number


for _name, _text in _TEXTS.items():
    _row(_name, _text)


def _comparison(name: str, text: str) -> None:
    @primitive(name)
    def rule(reader: Reader, args: Any, **_: object) -> Value:
        first, second = args
        for one, other in ((first, second), (second, first)):
            if isinstance(one, Value) and one.places and isinstance(other, Value) and name in ("eq", "ne"):
                return _at_places(reader, one, other, equal=name == "eq")
        return reader.compared(text, self=first, other=second)


for _name, _text in COMPARISONS.items():
    _comparison(_name, _text)


def _at_places(reader: Reader, index: Value, place: Value, *, equal: bool) -> Value:
    """Return the condition that the values of an integer input are the place along a dimension."""
    dim = along(reader, place)
    if dim is not None:
        reader.indices.setdefault(index.places, dim.name)
    index, place = reader.met(replace(index, places=""), place)
    made = reader.compared("self == other", self=index, other=place)
    return made if equal else opposite(reader, made)


def along(reader: Reader, value: Value) -> Dim | None:
    """Return the dimension along which a value is the place; None if it is no place."""
    return place_along(reader, value.expression)


@primitive("div")
def _div(reader: Reader, args: Sequence[Any], **_: object) -> Value:
    """Return a quotient. A sum divided by the number of its terms is a mean; quotients of integers are truncated."""
    first, second = args
    if "int" in reader.step.dtype:
        return whole(reader, reader.each("self / other", "t", self=first, other=second))
    mean = _mean(reader, first, second) if isinstance(first, Value) and not isinstance(second, Value) else None
    return reader.each("self / other", "t", self=first, other=second) if mean is None else mean


def _mean(reader: Reader, total: Value, count: Number) -> Value | None:
    """Return a sum divided by the number of its terms as a mean; None for other quotients."""
    line = reader.lines.line(total.expression) if total.expression is not None else None
    if line is None or not isinstance(line.expression, ast.Call) or called(line.expression) != "total":
        return None
    terms, over = line.expression.args
    values = [getattr(each, "value", None) for each in ast.walk(over)]
    dims = [each for each in values if isinstance(each, Dim)]
    if extent(dims) != ((count.first, count.second) if isinstance(count, Two) else (count, count)):
        return None
    return replace(total, expression=reader.add("f.avg(x, dims)", "mean", x=terms, dims=dims))


@primitive("integer_pow")
def _integer_pow(reader: Reader, args: Sequence[Any], y: int) -> Value:
    found: Value = power(reader, args[0], abs(y) if y < -1 else y)
    return reader.each("1.0 / x", "power", x=found) if y < -1 else found


@primitive("round")
def _round(reader: Reader, args: Sequence[Any], rounding_method: Any) -> Value:
    if int(rounding_method) == 1:  # half-way to the even number
        return reader.each("f.round(x)", "round", x=args[0])
    return reader.each("f.sign(x) * f.floor(abs(x) + 0.5)", "round", x=args[0])


@primitive("copy", "copy_p", "stop_gradient", "optimization_barrier", "reduce_precision", "real", "name")
def _same(reader: Reader, args: Sequence[Any], **_: object) -> Any:
    return args[0] if len(args) == 1 else args


_OF_OPERANDS: Mapping[str, Rule] = {
    "rem": fmod, "pow": power, "clamp": lambda reader, low, x, high: clamped(reader, x, low, high),
    "convert_element_type": lambda reader, x: rounded_to(reader, x, reader.step.dtype),
    "is_finite": lambda reader, x: reader.compared("abs(x) < float('inf')", x=x),
}  # fmt: skip
"""The rules of primitives that only take their operands."""


@primitive(*_OF_OPERANDS)
def _of_operands(reader: Reader, args: Sequence[Any], **_: object) -> Any:
    return _OF_OPERANDS[reader.step.op.partition(".")[2]](reader, *args)


def truth(value: Any) -> bool | None:
    """Return the constant value of a condition; None if it varies."""
    if isinstance(value, Value):
        there = value.expression
        return bool(there.value) if isinstance(there, ast.Constant) else None
    return bool(value)


def _spread(reader: Reader, value: Value, like: Any) -> Value:
    """Return a condition that also has the axes of another value."""
    if not isinstance(like, Value) or like.axes == value.axes:
        return value
    first, second = reader.met(value, like)
    assert isinstance(first, Value)
    return replace(first, axes=reader.aligned([first, second]))


@primitive("and", "or", "xor", "not")
def _logic(reader: Reader, args: Sequence[Any], **_: object) -> Any:
    name = reader.step.op.partition(".")[2]
    if reader.step.dtype != "torch.bool":
        raise UnreadableError("calculates with bits of integers")
    if name == "not":
        return opposite(reader, args[0])
    for one, other in (args, args[::-1]):
        known = truth(one)
        if known is not None and name != "xor" and isinstance(other, Value):
            return _spread(reader, one if known == (name == "or") else other, one)
    return both(reader, BOTH[name], *args)


@primitive("select_n")
def _select(reader: Reader, args: Sequence[Any], **_: object) -> Any:
    which, *cases = args
    if len(cases) > 2:
        raise UnreadableError("chooses among more than two")
    if (known := truth(which)) is not None:
        return cases[int(known)]
    no, yes = cases
    if reader.step.dtype != "torch.bool":
        return where(reader, which, yes, no)
    answers = truth(no), truth(yes)
    if answers == (False, True):
        return _spread(reader, which, no)
    if answers == (True, False):
        return _spread(reader, opposite(reader, which), no)
    for place, answer, text in ((0, False, "a & b"), (1, True, "a | b"), (1, False, "~a & b"), (0, True, "~a | b")):
        if answers[place] is answer:
            return both(reader, text, which, cases[1 - place])
    return both(reader, "a | b", both(reader, "a & b", which, yes), both(reader, "~a & b", which, no))
