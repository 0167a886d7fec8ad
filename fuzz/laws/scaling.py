"""The law of scaling: multiplying by a power of two is exact, and passes through every rounding, inside the range.

With x (and residual) times s = 2^k and eps times s^2,

    forward:   the sum of both is scaled by s, its squares, their mean and eps by s^2, rstd by 1/s; y is the same;
    backward:  h = x rstd, m = dy weight and mean(h m) are the same, so dw = sum of dy h is;
               dx = rstd (m - h mean(h m)) + dsum is scaled by 1/s, with dsum scaled by 1/s;

where rstd is given to the kernel, it is scaled by 1/s as well. An estimate of the reciprocal root keeps the law too,
since s^2 is an even power of two.

All this holds while nothing over- or underflows on either side. The bounds are on exponents, and cautious: a law that
is applied where it does not hold accuses correct kernels. Elements of dx that are tiny or zero may be anything, since
what cancelled to them may have underflowed. A kernel with an accumulator narrower than float32 must not declare
the law.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fuzz.base.case import Case, Tensor
from fuzz.base.dtypes import LARGEST, SMALLEST_NORMAL, from_bits
from fuzz.base.stream import Reals, Stream
from fuzz.laws.law import Law, Leeway, Outputs, has_elements
from oracles.enclosure import Mask

_INPUTS: Mapping[str, int] = {"x": 1, "residual": 1, "rstd": -1, "dsum": -1}
"""The power of s by which an input is scaled. The others are not scaled."""
_OUTPUTS: Mapping[str, int] = {"sum": 1, "rstd": -1, "dx": -1, "dresidual": -1}
"""The power of s by which an output is scaled then."""
_WIDEST = 24
"""The largest k: as many binades as float32 has bits of significand, so that an absolute constant that stands where a
relative one should (an eps, a threshold) is lost on one side and counts on the other."""
_LEAST, _MOST = -126, 126
"""Exponents within which float32 neither underflows nor overflows, with a binade to spare at the top."""
_CANCELLED = 2.0**-100
"""A sum of float32 numbers smaller than this may have had a term that underflowed."""


@dataclass(frozen=True)
class _Span:
    """Where magnitudes lie: 2^least <= |v| < 2^most."""

    least: int
    most: int

    def powers(self, dtype: str, sign: int) -> tuple[int, int]:
        """The first and the last k for which all of it times 2^(sign k) is normal in that dtype: some kernels flush
        subnormals."""
        down, up = _exponent(SMALLEST_NORMAL[dtype]) - self.least, _exponent(LARGEST[dtype]) - self.most
        return (down, up) if sign > 0 else (-up, -down)


def _powers(case: Case) -> range:
    """Every k that the law holds for."""
    spans = {name: _span(_values(case.inputs[name])) for name in _INPUTS if name in case.inputs}
    normalised = _span(_sum(case)) if "residual" in case.inputs else spans["x"]
    if normalised is None and case.params["eps"] == 0.0:
        return range(0)  # nothing to scale
    bounds = [(-_WIDEST, _WIDEST), *_of_tensors(case, spans), *_of_squares(case, normalised)]
    low, high = max(low for low, _ in bounds), min(high for _, high in bounds)
    return range(low, high + 1) if low <= 0 <= high else range(0)


def _of_tensors(case: Case, spans: Mapping[str, _Span | None]) -> Iterator[tuple[int, int]]:
    for name, span in spans.items():
        if span is not None:
            yield span.powers(case.inputs[name].dtype, _INPUTS[name])


def _of_squares(case: Case, normalised: _Span | None) -> Iterator[tuple[int, int]]:
    """Squares, their sums, their mean and eps must stay normal in float32, on the case's own side too: a square that
    underflows loses bits that its scaled twin keeps. So must what is added, and rstd, in the dtypes that hold them."""
    exponents = []
    if case.params["eps"] != 0.0:
        eps = _exponent(float(case.params["eps"]))
        yield math.ceil((_LEAST - eps) / 2), (_MOST - eps - 1) // 2
        exponents += [eps, eps + 1]
    if normalised is not None:
        steps = case.inputs["x"].layout.shape[int(case.params["axis"])].bit_length()  # n <= 2^steps
        yield math.ceil((_LEAST + steps) / 2) - normalised.least, (_MOST - steps) // 2 - normalised.most
        if "residual" in case.inputs:
            dtypes = {tensor.dtype for name, tensor in case.tensors.items() if name in ("x", "residual", "sum")}
            yield from (normalised.powers(dtype, 1) for dtype in sorted(dtypes))
        exponents += [2 * normalised.least - steps, 2 * normalised.most + 1]
    if "rstd" in case.outputs:
        # of the mean square plus eps, of which rstd is the reciprocal root
        root = _Span(-((max(exponents) + 1) // 2) - 1, (1 - min(exponents)) // 2 + 1)
        yield root.powers(case.outputs["rstd"].dtype, -1)


def _sum(case: Case) -> Reals:
    """What is squared in place of x where there is a residual, rounded to nothing that matters to an exponent."""
    with np.errstate(invalid="ignore", over="ignore"):
        return _values(case.inputs["x"]) + _values(case.inputs["residual"])


def _values(tensor: Tensor) -> Reals:
    with np.errstate(invalid="ignore"):  # a signalling NaN may become a quiet one
        return from_bits(tensor.bits, tensor.dtype, tensor.layout.shape).astype(np.float64)


def _span(values: Reals) -> _Span | None:
    """None where there is no finite value but zero."""
    magnitudes = np.abs(values)
    magnitudes = magnitudes[(magnitudes > 0) & (magnitudes < math.inf)]
    return _Span(_exponent(magnitudes.min()), _exponent(magnitudes.max()) + 1) if magnitudes.size else None


def _exponent(value: float) -> int:
    """e with 2^e <= value < 2^(e + 1)."""
    return math.frexp(value)[1] - 1


def _applies(case: Case) -> bool:
    return has_elements(case) and any(k != 0 for k in _powers(case))


def _power(case: Case, stream: Stream) -> int:
    powers = [k for k in _powers(case) if k != 0]
    return powers[int(stream.words(1)[0]) % len(powers)]


def _scaled(values: NDArray[np.generic], k: int) -> NDArray[np.generic]:
    """Times 2^k, exact where `_powers` allows that k."""
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        return np.ldexp(values.astype(np.float64), k).astype(values.dtype)


def _at_another_scale(case: Case, stream: Stream) -> Case:
    k = _power(case, stream)
    scaled = {
        name: Tensor(
            tensor.dtype,
            tensor.layout,
            _scaled(from_bits(tensor.bits, tensor.dtype, tensor.layout.shape), _INPUTS[name] * k).tobytes(),
        )
        for name, tensor in case.inputs.items()
        if name in _INPUTS
    }
    eps = math.ldexp(float(case.params["eps"]), 2 * k)
    return replace(case, inputs={**case.inputs, **scaled}, params={**case.params, "eps": eps})


def _expected(case: Case, stream: Stream, outputs: Outputs) -> Outputs:
    k = _power(case, stream)
    return {
        name: _scaled(from_bits(outputs[name], output.dtype, output.layout.shape), _OUTPUTS[name] * k).tobytes()
        if name in _OUTPUTS
        else outputs[name]
        for name, output in case.outputs.items()
    }


def _leeway(case: Case, stream: Stream, outputs: Outputs) -> Leeway:
    k = _power(case, stream)
    return Leeway(
        elements={
            name: _unsure(from_bits(outputs[name], output.dtype, (-1,)), output.dtype, _OUTPUTS[name] * k)
            for name, output in case.outputs.items()
            if name in ("dx", "dresidual")
        }
    )


def _unsure(values: NDArray[np.generic], dtype: str, k: int) -> Mask:
    """Elements of a gradient that are not well inside the range, as they are or times 2^k. NaNs are NaNs on both
    sides."""
    with np.errstate(invalid="ignore"):
        here = np.abs(values.astype(np.float64))
    there = np.ldexp(here, k)
    low, high = max(2 * SMALLEST_NORMAL[dtype], _CANCELLED), min(LARGEST[dtype], LARGEST["f32"]) / 2
    return (np.minimum(here, there) < low) | (np.maximum(here, there) > high)


SCALING = Law(
    "scaling", "x times 2^k with eps times 4^k, where nothing over- or underflows", _applies, _at_another_scale,
    _expected, _leeway,
)  # fmt: skip
