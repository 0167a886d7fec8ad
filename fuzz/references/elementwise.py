"""Torch's elementwise operations, each a row with the names of torch's arguments, and casts. A cast to a shorter float
is no part of the exact value; other casts are. A maximum treats NaN as torch's does: `f.where(a < b, b, a)` is a if
either is NaN."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from fuzz.references.dims import UnreadableError
from fuzz.references.lines import called, is_number, is_point
from fuzz.references.maps import place_along
from fuzz.references.reading import Reader
from fuzz.references.recording import Two
from fuzz.references.scope import COMPARING, Number, Rule, Value
from oracles.dtypes import COMPUTED, DTYPES, FORMATS, NARROW, SPELLED

FUNCTIONS: Mapping[str, str] = {
    **{name: f"f.{name}(self)" for name in (
        "exp", "exp2", "expm1", "log", "log2", "log1p", "sqrt", "rsqrt", "sin", "cos", "tanh", "sigmoid", "erf", "atan",
        "sign", "floor", "round", "tan", "asin", "acos", "sinh", "cosh", "asinh", "acosh", "atanh", "erfc", "log10",
        "lgamma",
    )},
    "abs": "abs(self)", "neg": "-self", "reciprocal": "1.0 / self", "square": "self * self",
    "sgn": "f.sign(self)", "logit": "f.log(self / (1.0 - self))",
    "relu": "f.where(self < 0.0, 0.0, self)", "silu": "self * f.sigmoid(self)",
    "mish": "self * f.tanh(f.softplus(self))",
    "hardtanh": "f.where(self < min_val, min_val, f.where(max_val < self, max_val, self))",
    # Documented as x / 6 + 1/2, calculated as (x + 3) / 6: the factor 6 / 6 allows the roundings of both.
    "hardsigmoid": "f.where(self < -3.0, 0.0, f.where(self > 3.0, 1.0, self / 6.0 + 0.5)) * 6.0 / 6.0",
    "hardswish": "self * f.where(self < -3.0, 0.0, f.where(self > 3.0, 1.0, self / 6.0 + 0.5)) * 6.0 / 6.0",
    "leaky_relu": "f.where(self > 0.0, self, self * negative_slope)",
    "threshold": "f.where(self <= threshold, value, self)",
    "clamp_min": "f.where(self < min, min, self)", "clamp_max": "f.where(max < self, max, self)",
    "add": "self + alpha * other", "sub": "self - alpha * other", "rsub": "other - alpha * self",
    "mul": "self * other", "div.Tensor": "self / other", "div.Scalar": "self / other",
    "maximum": "f.where(self < other, other, self)", "minimum": "f.where(other < self, other, self)",
    "atan2": "f.atan2(self, other)", "hypot": "f.hypot(self, other)",
    "addcmul": "self + value * tensor1 * tensor2",
    "addcdiv": "self + value * tensor1 / tensor2",
    "floor_divide": "f.floor(self / other)",
    "ceil": "-f.floor(-self)",
    "deg2rad": "self * 0.017453292519943295", "rad2deg": "self * 57.29577951308232",
    "fmax": "f.where(self == self, f.where(self < other, other, self), other)",
    "fmin": "f.where(self == self, f.where(other < self, other, self), other)",
    "heaviside": "f.where(self == 0.0, values, f.where(self < 0.0, 0.0, f.where(0.0 < self, 1.0, self)))",
    "ldexp": "self * f.exp2(other)",
    "celu": "f.where(self > 0.0, self, alpha * f.expm1(self / alpha))",
    "elu": "scale * f.where(self > 0.0, self, alpha * f.expm1(input_scale * self))",
    "_prelu_kernel": "f.where(self > 0.0, self, weight * self)",
    "softplus": "f.softplus(beta * self) / beta",  # above its threshold torch returns x, the same number in f32
    "xlogy": "f.where(self == 0.0, 0.0, self * f.log(other))",
    "logaddexp": "f.where(self < other, other, self) + f.log1p(f.exp(-abs(self - other)))",
    "logaddexp2": "f.where(self < other, other, self) + f.log1p(f.exp2(-abs(self - other))) / f.log(2.0)",
}  # fmt: skip
COMPARISONS: Mapping[str, str] = dict(
    zip(COMPARING, (f"self {sign} other" for sign in ("<", "<=", ">", ">=", "==", "!=")), strict=True)
)
HINTS = {"exp": "e", "add": "t", "sub": "t", "mul": "t", "div": "t", "neg": "t", "rsqrt": "scale", "sqrt": "root",
         "_prelu_kernel": "prelu"}  # fmt: skip
BOTH = {"and": "a & b", "or": "a | b", "xor": "(a & ~b) | (~a & b)"}
"""The conditions that are made of two conditions."""
HALVES = tuple(f"torch.{FORMATS[name].spelling}" for name in NARROW)
_MOST_FACTORS = 4
"""The largest exponent for which a power becomes a product."""

RULES: dict[str, Rule] = {}
Registered = TypeVar("Registered", bound=Rule)


def _row(name: str, text: str) -> Rule:
    used = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    hint = HINTS.get(name.partition(".")[0], name.partition(".")[0].strip("_"))

    def rule(reader: Reader, **given: Any) -> Value:
        return reader.each(text, hint, **{each: given[each] for each in given if each in used})

    return rule


def _comparison(name: str, text: str) -> Rule:
    def rule(reader: Reader, self: Value, other: Value | Number) -> Value:
        flag = self.condition is not None and not isinstance(other, Value) and name in ("eq", "ne")
        if flag and other in (0, 1):  # the flag itself, or its opposite
            assert self.condition is not None
            return self if (other == 1) == (name == "eq") else opposite(reader, self)
        _note_places(reader, self, other)
        return reader.compared(text, self=self, other=other)

    return rule


def _note_places(reader: Reader, value: Value, other: Value | Number) -> None:
    """Note what a comparison shows about an integer input: the dimension along which its values are places, or a
    negative number that stands for no place."""
    for one, two in ((value, other), (other, value)):
        if not isinstance(one, Value) or not one.places:
            continue
        if isinstance(two, Value):
            if (dim := place_along(reader, two.expression)) is not None:
                reader.indices.setdefault(one.places, dim.name)
        elif isinstance(two, (int, float)) and two < (reader.step.op in ("lt", "ge")) and not _is_of_loss(reader, one):
            reader.apart.setdefault(one.places, int(two) if two < 0 else -1)


def _is_of_loss(reader: Reader, labels: Value) -> bool:
    """Whether a comparison comes from torch's loss with smoothed labels, not from the reference's own code."""
    losses = (each.at for each in reader.recording.steps if each.op.startswith("nll_loss"))
    return reader.step.op == "eq" and labels.places in reader.unnamed and reader.step.at in losses


RULES |= {name: _row(name, text) for name, text in FUNCTIONS.items()}
RULES |= {name: _comparison(name, text) for name, text in COMPARISONS.items()}


def rule(*names: str) -> Callable[[Registered], Registered]:
    """Return a decorator that registers a rule for operations of torch."""

    def register(function: Registered) -> Registered:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


@rule("gelu")
def _gelu(reader: Reader, self: Value, approximate: str) -> Value:
    if approximate == "none":
        return reader.each("0.5 * x * (1.0 + f.erf(x * 0.5**0.5))", "gelu", x=self)
    inner = reader.each("0.7978845608028654 * (x + 0.044715 * x * x * x)", "inner", x=self)
    return reader.each("0.5 * x * (1.0 + f.tanh(inner))", "gelu", x=self, inner=inner)


@rule("div.Tensor_mode", "div.Scalar_mode")
def _divided(reader: Reader, self: Value, other: Value | Number, rounding_mode: str | None) -> Value:
    found = reader.each("a / b", "t", a=self, b=other)
    if rounding_mode is None:
        return found
    return _row("floor", "f.floor(self)")(reader, self=found) if rounding_mode == "floor" else whole(reader, found)


@rule("remainder")
def _remainder(reader: Reader, self: Value | Number, other: Value | Number) -> Value:
    dim = next((each for each in reader.sizes if isinstance(other, Two) and each.sizes == other.pair), None)
    if isinstance(self, Value) and self.places and dim and reader.indices.setdefault(self.places, dim.name) == dim.name:
        return self  # a place is less than its dimension's extent
    return reader.each("a - b * f.floor(a / b)", "rest", a=self, b=other)


@rule("fmod")
def fmod(reader: Reader, self: Value, other: Value | Number) -> Value:
    """Return the remainder with the sign of the dividend."""
    cut = whole(reader, reader.each("a / b", "t", a=self, b=other))
    return reader.each("a - b * cut", "rest", a=self, b=other, cut=cut)


LERP = {"from_start": "a + t * (b - a)", "from_end": "b - (b - a) * (1.0 - t)", "shares": "(1.0 - t) * a + t * b"}
"""Three algorithms for a blend of a and b."""


@rule("lerp")
def _lerp(reader: Reader, self: Value, end: Value | Number, weight: Value | Number) -> Value:
    """Return a blend. Torch starts from the nearer end but does not document it, so that kernels may use any way."""
    given = {"a": self, "b": end, "t": weight}
    return reader.ways(reader.each(LERP["from_start"], "lerp", **given), LERP, **given)


@rule("soft_margin_loss")
def _soft_margin(reader: Reader, self: Value, target: Value, reduction: int) -> Value:
    return _reduced(reader, reader.each("f.softplus(-b * a)", "loss", a=self, b=target), reduction)


@rule("log_sigmoid_forward")
def _log_sigmoid(reader: Reader, self: Value) -> tuple[Value, None]:
    return reader.each("-f.softplus(-x)", "log_sigmoid", x=self), None


@rule("clamp")
def clamped(reader: Reader, self: Value, min: Any, max: Any) -> Value:  # noqa: A002 (torch's own names)
    """Return a value within bounds, of which one may be None."""
    found = self if min is None else reader.each("f.where(x < low, low, x)", "clamped", x=self, low=min)
    return found if max is None else reader.each("f.where(high < x, high, x)", "clamped", x=found, high=max)


@rule("pow")
def power(reader: Reader, self: Value | Number, exponent: Value | Number) -> Value:
    """Return a power."""
    if isinstance(exponent, Value):
        return reader.each("f.pow(a, b)", "power", a=self, b=exponent)
    assert isinstance(self, Value)
    known = {0.5: "f.sqrt(x)", -0.5: "f.rsqrt(x)", -1: "1.0 / x", 1: "x", 0: "1.0"}
    if exponent in known:
        return reader.each(known[exponent], "power", x=self)
    if isinstance(exponent, int) and 2 <= exponent <= _MOST_FACTORS:
        return reader.each(" * ".join("x" * exponent), "square" if exponent == 2 else "power", x=self)
    return reader.each("f.pow(x, exponent)", "power", x=self, exponent=exponent)


@rule("where")
def where(reader: Reader, condition: Value, self: Value | Number, other: Value | Number) -> Value:
    """Return one value where a condition holds, else another."""
    condition, self, other = reader.met(condition, self, other)
    values = [each for each in (condition, self, other) if isinstance(each, Value)]
    axes = reader.aligned(values)
    made = reader.add("f.where(mask, a, b)", "chosen", mask=reader.mask(condition), a=self, b=other)
    return Value(made, axes, frozenset().union(*(each.has for each in values)), reader.step.dtype)


@rule("masked_fill")
def _masked_fill(reader: Reader, self: Value, mask: Value, value: Value | Number) -> Value:
    return where(reader, mask, value, self)


@rule("logical_and", "bitwise_and", "logical_or", "bitwise_or", "logical_xor", "bitwise_xor")
def _both(reader: Reader, self: Value, other: Value | Number) -> Value:
    if not isinstance(other, Value):
        return _bits(reader, self, other)
    return both(reader, BOTH[reader.step.op.partition("_")[2]], self, other)


def _bits(reader: Reader, self: Value, mask: Number) -> Value:
    """Return the integers that successive bits of integers make, such as those of 15 or 240, where the others are 0."""
    if reader.step.op != "bitwise_and" or not isinstance(mask, int) or mask <= 0:
        raise UnreadableError("joins the bits of a tensor and of a number")
    low = mask & -mask
    if (end := mask + low) & mask:
        raise UnreadableError(f"takes the bits of {mask}, which are not successive")
    text = "f.floor(x / low) * low - f.floor(x / end) * end" if low > 1 else "x - f.floor(x / end) * end"
    return reader.each(text, "bits", x=self, end=end, **({"low": low} if low > 1 else {}))


@rule("bitwise_right_shift", "__rshift__")
def _shifted(reader: Reader, self: Value, other: Number) -> Value:
    if not isinstance(other, int) or other < 0:
        raise UnreadableError("shifts bits by what is no number of Python")
    return reader.each("f.floor(x / by)", "bits", x=self, by=1 << other)


def both(reader: Reader, text: str, first: Value, second: Value) -> Value:
    """Return the condition that a template such as "a & b" makes of two conditions."""
    first, second = reader.met(first, second)
    made = reader.add(text, "mask", a=reader.mask(first), b=reader.mask(second))
    return Value(None, reader.aligned([first, second]), first.has | second.has, "torch.bool", condition=made)


@rule("logical_not", "bitwise_not")
def opposite(reader: Reader, self: Value) -> Value:
    """Return the negation of a condition."""
    made = reader.add("~mask", "mask", mask=reader.mask(self))
    return replace(self, expression=None, dtype="torch.bool", condition=made)


@rule("clone", "alias", "alias_copy", "detach", "lift_fresh_copy", "lift_fresh", "contiguous", "_conj")
def _same(reader: Reader, self: Value, **_: object) -> Value:
    return self


@rule("copy")
def _copy(reader: Reader, self: Value, src: Value, **_: object) -> Value:
    src, self = reader.met(src, self)
    return replace(src, axes=self.axes, dtype=self.dtype)


@rule("copy_")
def _written(reader: Reader, self: Value, **_: object) -> Value:
    name = self.expression.id if isinstance(self.expression, ast.Name) else "an argument"
    raise UnreadableError(f"writes {name!r}: a formula returns its outputs, and changes no input")


_LOSSES = {
    "mse_loss": "a * a", "huber_loss": "f.where(a < d, 0.5 * a * a, d * (a - 0.5 * d))",
    "smooth_l1_loss": "f.where(a < d, 0.5 * a * a / d, a - 0.5 * d)",
}  # fmt: skip
"""Losses of a difference, or of its magnitude if they have a bound d."""


@rule(*_LOSSES)
def _loss(reader: Reader, self: Value, target: Value, reduction: int, **given: Any) -> Value:
    away = reader.each("a - b", "away", a=self, b=target)
    parts = dict(zip("d", given.values(), strict=False))
    away = reader.each("abs(a)", "size", a=away) if parts else away
    return _reduced(reader, reader.each(_LOSSES[reader.step.op], "loss", a=away, **parts), reduction)


def _reduced(reader: Reader, loss: Value, reduction: int) -> Value:
    """Return a loss reduced as torch's `reduction` says: 0 keeps it, 1 is the mean, 2 the sum."""
    return reader.reduced("avg" if reduction == 1 else "total", "loss", loss, None, False) if reduction else loss


_ROUNDED = ("floor", "round", "sign", "argmax", "argmin", "argsort", "position", "extent")
_KEPT = ("total", "greatest", "take", "where", "point")
"""Functions of `f` whose result is whole if their arguments are."""


@rule("_to_copy", "to")
def _cast(reader: Reader, self: Value, dtype: str | None, **_: object) -> Value:
    return rounded_to(reader, self, self.dtype if dtype is None else dtype)


def rounded_to(reader: Reader, self: Value, to: str) -> Value:
    """Return a value cast to another dtype."""
    if "float8" in self.dtype and to != self.dtype:
        raise UnreadableError(f"goes on from {self.dtype.removeprefix('torch.')}: formulas round to that at their end")
    if to == "torch.bool":
        return Value(None, self.axes, self.has, to, condition=reader.mask(self))
    if "int" in to:
        return replace(self if self.places else whole(reader, self), dtype=to)
    if self.places:
        return replace(self, expression=reader.expression(self), dtype=to, places="")
    line = reader.lines.line(self.expression) if self.expression is not None else None
    if line is None or (to in HALVES) == (self.dtype in HALVES):
        return replace(self, dtype=to)
    # A result in 16 bits is rounded to 16 bits and then widened, where a kernel may round too.
    if to not in HALVES and (is_point(line.expression) or _is_moved(reader, line.expression)):
        return replace(self, dtype=to)
    line.rounded = True
    return replace(reader.line("f.point(x)", "rounded", self, x=self), dtype=to)


def _is_moved(reader: Reader, expression: ast.expr) -> bool:
    """Whether an expression only moves or chooses elements of inputs, so that it rounds nothing."""
    if isinstance(expression, ast.Name):
        line = reader.lines.line(expression)
        return line is None or _is_moved(reader, line.expression)
    moves = {"take": slice(1), "where": slice(1, 3)}.get(called(expression))
    if isinstance(expression, ast.Call) and moves is not None:
        return all(_is_moved(reader, each) for each in expression.args[moves])
    return is_number(expression)


@rule("frac")
def _fraction(reader: Reader, self: Value) -> Value:
    return reader.each("x - cut", "rest", x=self, cut=whole(reader, self))


@rule("trunc", "fix")
def whole(reader: Reader, self: Value) -> Value:
    """Return the value rounded to a whole number towards zero."""
    expression = reader.expression(self)
    if is_whole(reader, expression):
        return replace(self, expression=expression, condition=None)
    return reader.line("f.where(x < 0.0, -f.floor(-x), f.floor(x))", "whole", self, x=self)


_REFUSED = {
    "round.decimals": "rounds to decimals: write torch.round(x * 10) / 10",
    "lax.while": "loops as often as a value says: a formula has loops over a dimension",
    "lax.cond": "does what a value says: write jnp.where",
}
"""What has no formula, and what to do."""


@rule(*_REFUSED)
def _refused(reader: Reader, **_: Any) -> Value:
    raise UnreadableError(_REFUSED.get(reader.step.op) or _REFUSED[f"{reader.step.op}.{reader.step.overload}"])


def is_whole(reader: Reader, expression: ast.expr) -> bool:
    """Whether an expression of the formula is certainly a whole number."""
    if isinstance(expression, ast.Name):
        line = reader.lines.line(expression)
        return line is not None and is_whole(reader, line.expression)
    if isinstance(expression, ast.Constant):
        return isinstance(expression.value, (int, float)) and float(expression.value).is_integer()
    if isinstance(expression, ast.UnaryOp):
        return isinstance(expression.op, ast.USub) and is_whole(reader, expression.operand)
    if isinstance(expression, ast.BinOp) and isinstance(expression.op, (ast.Add, ast.Sub, ast.Mult)):
        return is_whole(reader, expression.left) and is_whole(reader, expression.right)
    if isinstance(expression, ast.Subscript):  # the places that sort or topk returns
        return isinstance(expression.slice, ast.Constant) and expression.slice.value == 1
    if not isinstance(expression, ast.Call):
        return False
    name, args = called(expression), expression.args
    if name == "where":
        return all(is_whole(reader, each) for each in args[1:])
    return name in _ROUNDED or (name in _KEPT and is_whole(reader, args[0]))


def dtype_of(value: Value) -> str:
    """Return the `Operand.dtype` of an output: "" for floats, except those that kernels only store."""
    spelling = value.dtype.removeprefix("torch.")
    own = SPELLED.get(spelling)
    if own is None and "float" not in spelling:
        known = ", ".join(name for name in DTYPES if name not in FORMATS)
        raise UnreadableError(f"returns {spelling}: outputs of integers are {known}")
    return "" if own is None or own.name in COMPUTED else own.name
