"""Torch's reductions, and softmax and norms written out as their definitions."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from fuzz.references import rewrites
from fuzz.references.dims import UnreadableError
from fuzz.references.elementwise import opposite, rule
from fuzz.references.lines import Lines, template
from fuzz.references.maps import split
from fuzz.references.reading import Reader
from fuzz.references.scope import Number, Value


@rule("sum", "nansum")
def total(reader: Reader, self: Value, dim: Any = None, keepdim: bool = False, **_: object) -> Value:
    """Return the sum along axes."""
    if reader.step.op == "nansum":
        raise UnreadableError("leaves NaN out, which no formula does")
    return reader.reduced("total", "total", self, dim, keepdim)


@rule("mean")
def _mean(reader: Reader, self: Value, dim: Any = None, keepdim: bool = False, **_: object) -> Value:
    return reader.reduced("avg", "mean", self, dim, keepdim)


@rule("amax")
def most(reader: Reader, self: Value, dim: Any = None, keepdim: bool = False) -> Value:
    """Return the maximum along axes."""
    return reader.reduced("greatest", "most", self, dim, keepdim)


@rule("amin")
def least(reader: Reader, self: Value, dim: Any = None, keepdim: bool = False) -> Value:
    """Return the minimum along axes."""
    negative = reader.each("-x", "t", x=self)
    found = reader.reduced("greatest", "t", negative, dim, keepdim)
    return reader.line("-x", "least", found, x=found)


@rule("any", "all")
def some_or_all(reader: Reader, self: Value, dim: Any = None, keepdim: bool = False) -> Value:
    """Return whether a condition holds somewhere along axes, or everywhere, as the name of the operation says."""
    of_all = reader.step.op in ("all", "lax.reduce_and")
    mask = opposite(reader, self) if of_all else self
    mask = replace(mask, expression=None, condition=reader.mask(mask))
    found = reader.reduced("greatest", "flag", mask, dim, keepdim)
    made = reader.add("x > 0.0", "mask", x=found)
    found = replace(found, expression=None, dtype="torch.bool", condition=made)
    return opposite(reader, found) if of_all else found


def moments(reader: Reader, x: Value, dims: Any, less: Number = 0) -> tuple[Value, Value, Value]:
    """Return the mean along axes, which are kept, the elements minus the mean, and the sum of the squares of these
    differences, divided by the number of elements minus `less`."""
    mean = reader.reduced("avg", "mean", x, dims, True)
    away = reader.each("x - mean", "away", x=x, mean=mean)
    squares = reader.each("away * away", "squares", away=away)
    if not less:
        return mean, away, reader.reduced("avg", "var", squares, dims, True)
    total = reader.reduced("total", "squares", squares, dims, True)
    count = template("n - less", n=reader.count(x, dims), less=reader.number(less))
    return mean, away, reader.with_count("self / count", "var", total, count)


def _dropped(reader: Reader, value: Value, dims: Any, keep: bool) -> Value:
    gone = reader.axes(value, dims)
    return value if keep else replace(value, axes=tuple(a for at, a in enumerate(value.axes) if at not in gone))


@rule("var", "std", "var_mean", "std_mean")
def _var(
    reader: Reader, self: Value, dim: Any = None, correction: Any = None, keepdim: bool = False, unbiased: Any = None
) -> Any:
    less = 1 if correction is None else correction
    less = less if unbiased is None else int(unbiased)
    mean, _, var = moments(reader, self, dim, less)
    if "std" in reader.step.op:
        var = reader.line("f.sqrt(x)", "std", var, x=var)
    found, middle = (_dropped(reader, each, dim, keepdim) for each in (var, mean))
    return (found, middle) if "mean" in reader.step.op else found


_BASE_2 = {"base 2": "f.exp2(x * (1.0 / f.log(2.0)) - most * (1.0 / f.log(2.0)))"}
"""e^(x - maximum) by a power of 2, where x and the maximum are first divided by log(2) and rounded."""
WEAKER = rewrites.WEAKER.union(_BASE_2)
"""The algorithms with larger errors than others, which a kernel must declare."""
_LSE = "f.log(mass) + most"
_LIMIT = f"f.where(most >= float('inf'), most, f.where(most <= -float('inf'), most, {_LSE}))"
"""The algorithm of torch.logsumexp for a row whose maximum is infinite: the result is that infinity, not NaN."""
LIMIT, _BY_LIMIT = "limit", "by_limit"
LIMITS = LIMIT, _BY_LIMIT
"""The algorithms that only differ for infinities."""


def forget(lines: Lines, *ways: str) -> None:
    """Remove the algorithms of these names."""
    for line in lines.found.values():
        line.ways = {way: each for way, each in line.ways.items() if way not in ways}


@rule("_softmax", "_safe_softmax")
def softmax(reader: Reader, self: Value, dim: int, **_: object) -> Value:
    most = reader.reduced("greatest", "most", self, dim, True)
    e = reader.ways(reader.each("f.exp(x - most)", "e", x=self, most=most), _BASE_2, x=self, most=most)
    mass = reader.reduced("total", "mass", e, dim, True)
    return reader.each("e / mass", "softmax", e=e, mass=mass)


@rule("_log_softmax")
def _log_softmax(reader: Reader, self: Value, dim: int, **_: object) -> Value:
    most = reader.reduced("greatest", "most", self, dim, True)
    below = reader.each("x - most", "below", x=self, most=most)
    mass = reader.reduced("total", "mass", reader.each("f.exp(below)", "e", below=below), dim, True)
    found = reader.each("below - f.log(mass)", "log_softmax", below=below, mass=mass)
    ways = {"by_lse": f"x - ({_LSE})", _BY_LIMIT: f"x - {_LIMIT}"}
    return reader.ways(found, ways, x=self, mass=mass, most=most)


@rule("logsumexp")
def _logsumexp(reader: Reader, self: Value, dim: Any, keepdim: bool = False) -> Value:
    most = reader.reduced("greatest", "most", self, dim, True)
    e = reader.each("f.exp(x - most)", "e", x=self, most=most)
    mass = reader.reduced("total", "mass", e, dim, True)
    lse = reader.ways(reader.each(_LSE, "lse", mass=mass, most=most), {LIMIT: _LIMIT}, mass=mass, most=most)
    return _dropped(reader, lse, dim, keepdim)


@rule("linalg_vector_norm", "norm")
def _norm(reader: Reader, self: Value, dim: Any = None, keepdim: bool = False, **given: Any) -> Value:
    order = given.get("ord", given.get("p", 2))
    if order in (2, None):
        squares = reader.reduced("total", "squares", reader.each("x * x", "t", x=self), dim, keepdim)
        return reader.line("f.sqrt(x)", "norm", squares, x=squares)
    size = reader.each("abs(x)", "size", x=self)
    if order == 1:
        return reader.reduced("total", "norm", size, dim, keepdim)
    if order == math.inf:
        return reader.reduced("greatest", "norm", size, dim, keepdim)
    raise UnreadableError(f"of order {order} has no formula")


@rule("native_layer_norm")
def _layer_norm(reader: Reader, input: Value, normalized_shape: Any, weight: Any, bias: Any, eps: Number) -> Any:  # noqa: A002
    dims = [*range(input.rank - len(normalized_shape), input.rank)]
    mean, _, var = moments(reader, input, dims)
    return _normalised(reader, input, mean, var, eps, weight, bias)


def _normalised(
    reader: Reader, x: Value, mean: Value, var: Value, eps: Number, weight: Any, bias: Any
) -> tuple[Value, Value, Value]:
    """Return a normalised and scaled value, the mean and the reciprocal of the standard deviation."""
    rstd = reader.each("f.rsqrt(var + eps)", "rstd", var=var, eps=eps)
    found = _scaled(reader, normal(reader, x, mean, rstd), weight, bias)
    return _folded(reader, found, x, mean, rstd, weight, bias), mean, rstd


def normal(reader: Reader, x: Value, mean: Value, rstd: Value) -> Value:
    """Return (x - mean) rstd. A kernel may also calculate x rstd - mean rstd."""
    away = reader.each("x - mean", "away", x=x, mean=mean)
    return reader.ways(
        reader.each("away * rstd", "normal", away=away, rstd=rstd), {"apart": "x * rstd - mean * rstd"},
        x=x, mean=mean, rstd=rstd,
    )  # fmt: skip


@rule("_fused_rms_norm", "rms_norm")
def _rms_norm(reader: Reader, input: Value, normalized_shape: Any, weight: Any = None, eps: Any = None) -> Any:  # noqa: A002
    dims = [*range(input.rank - len(normalized_shape), input.rank)]
    square = reader.reduced("avg", "mean_square", reader.each("x * x", "t", x=input), dims, True)
    if eps is None:
        raise UnreadableError("takes the eps of its dtype: write the eps that is meant")
    rstd = reader.each("f.rsqrt(square + eps)", "rstd", square=square, eps=eps)
    found = _scaled(reader, reader.each("x * rstd", "normal", x=input, rstd=rstd), weight, None)
    return (found, rstd) if len(reader.step.shapes) > 1 else found


def _scaled(reader: Reader, value: Value, weight: Any, bias: Any) -> Value:
    if weight is not None:
        value = reader.each("x * weight", "scaled", x=value, weight=weight)
    return value if bias is None else reader.each("x + bias", "moved", x=value, bias=bias)


def _folded(reader: Reader, found: Value, x: Value, mean: Value, rstd: Value, weight: Any, bias: Any) -> Value:
    """Return a normalised and scaled value. A kernel may first make one factor and one term for each row or channel."""
    if weight is None:
        return found
    end = "(bias - mean * (rstd * weight))" if bias is not None else "(-mean * (rstd * weight))"
    moved: dict[str, Value] = {} if bias is None else {"bias": bias}
    text = f"x * (rstd * weight) + {end}"
    return reader.ways(found, {"folded": text}, x=x, mean=mean, rstd=rstd, weight=weight, **moved)


@rule("native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_functional")
def _batch_norm(
    reader: Reader, input: Value, weight: Any, bias: Any, training: bool, eps: Number,  # noqa: A002
    running_mean: Any = None, running_var: Any = None, **_: object,
) -> Any:  # fmt: skip
    channel = (input.axes[1], *[()] * (input.rank - 2))
    weight, bias, running_mean, running_var = (
        None if each is None else replace(each, axes=channel) for each in (weight, bias, running_mean, running_var)
    )
    if training:
        mean, var = moments(reader, input, [at for at in range(input.rank) if at != 1])[::2]
    else:
        mean, var = running_mean, running_var
    return _normalised(reader, input, mean, var, eps, weight, bias)


@rule("native_group_norm")
def _group_norm(
    reader: Reader,
    input: Value,  # noqa: A002
    weight: Any,
    bias: Any,
    group: int,
    eps: Number,
    **_: object,
) -> Any:
    cut = split(reader, input, 1, group)
    mean, var = moments(reader, cut, [*range(2, cut.rank)])[::2]
    rstd = reader.each("f.rsqrt(var + eps)", "rstd", var=var, eps=eps)
    found = normal(reader, cut, mean, rstd)
    whole, channel = (found.axes[0], (*found.axes[1], *found.axes[2]), *found.axes[3:]), [()] * (input.rank - 2)
    weight, bias = (None if each is None else replace(each, axes=(*each.axes, *channel)) for each in (weight, bias))
    x, found = replace(cut, axes=whole), replace(found, axes=whole)
    of_group = [replace(each, axes=(*whole[:2], *channel)) for each in (mean, rstd)]
    found = _folded(reader, _scaled(reader, found, weight, bias), x, of_group[0], of_group[1], weight, bias)
    return found, *(replace(each, axes=each.axes[:2]) for each in (mean, rstd))
