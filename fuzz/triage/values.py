"""Traits of a case's values: what is special about them, and how eps compares with the rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from fuzz.base.case import Case
from fuzz.base.draw import Frame
from fuzz.base.dtypes import SMALLEST_NORMAL, from_bits, quantise
from fuzz.base.stream import Reals
from fuzz.triage.rule import Trait

_PRECISION: Mapping[str, int] = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}
"""bits of the mantissa, the implicit one included."""
_NEVER, _ALWAYS = -999, 999
"""powers of two that stand for 0 and for infinity."""
_LARGEST_SQUARE = float(np.finfo(np.float32).max)


_ABOUT_VALUES = (
    "a NaN", "an infinity", "a zero row", "an ordinary row", "a subnormal", "a sum of squares beyond f32",
    "log2 of the mean square", "log2 of eps in ulp of the mean square", "eps",
)  # fmt: skip


def is_about_values(trait: str) -> bool:
    """True for traits that hide a failure more often than they cause one: a huge eps, a row of zeros."""
    return trait in _ABOUT_VALUES


def value_traits(case: Case, frame: Frame) -> Iterator[tuple[str, Trait]]:
    """Of x first, then of the weight."""
    rows = _rows(case, "x", frame)
    finite = np.where(np.isfinite(rows), rows, 0.0)
    zero, whole = (rows == 0).all(axis=-1), np.isfinite(rows).all(axis=-1)
    yield "a NaN", _yes(np.isnan(rows).any())
    yield "an infinity", _yes(np.isinf(rows).any())
    yield "a zero row", _yes(zero.any())
    yield "an ordinary row", _yes((whole & ~zero).any())
    small = SMALLEST_NORMAL[case.inputs["x"].dtype]
    yield "a subnormal", _yes(((finite != 0) & (np.abs(finite) < small)).any())
    with np.errstate(over="ignore"):  # float64 kernels have squares beyond its range
        squares = np.square(finite)
        means = squares.mean(axis=-1)
        yield "a sum of squares beyond f32", _yes((squares.sum(axis=-1) > _LARGEST_SQUARE).any())
    largest = float(means.max())
    if largest > 0 and math.isfinite(largest):
        yield "log2 of the mean square", round(math.log2(largest))
    yield from _eps_traits(case, means[whole])
    for name in ("weight", "dy", "residual"):
        if name in case.inputs:
            values = _rows(case, name, frame)
            yield f"{name} of ones", _yes((values == 1).all())


def _eps_traits(case: Case, means: Reals) -> Iterator[tuple[str, Trait]]:
    """eps against the mean square of the row where it matters most, in units that the output can show."""
    eps = float(case.params.get("eps", 0.0))
    yield "eps", eps
    if not means.size:
        return
    smallest = float(means.min())
    output = next(iter(case.outputs.values()))
    ulp = 2.0 ** -_PRECISION[output.dtype]
    rounded = float(quantise(np.array([eps]), case.inputs["x"].dtype).astype(np.float64)[0])
    yield "log2 of eps in ulp of the mean square", _log2(eps, smallest * ulp)
    yield "log2 of the change of eps in the dtype of x in ulp", _log2(abs(rounded - eps), (smallest + eps) * ulp)


def _log2(part: float, whole: float) -> int:
    if part == 0:
        return _NEVER
    return math.floor(math.log2(part / whole)) if whole > 0 and part / whole < math.inf else _ALWAYS


def _rows(case: Case, name: str, frame: Frame) -> Reals:
    """Values of an input, a row of it in each row."""
    tensor = case.inputs[name]
    with np.errstate(invalid="ignore"):
        values = from_bits(tensor.bits, tensor.dtype, tensor.layout.shape).astype(np.float64)
    if frame.role(name) != "grid":
        return values.reshape(1, -1)
    return np.moveaxis(values, frame.axis, -1).reshape(-1, frame.n) if values.size else np.zeros((1, 1))


def _yes(what: bool | np.bool_) -> str:
    return "yes" if what else "no"
