"""Powers with a constant exponent."""

from __future__ import annotations

import math
from dataclasses import dataclass

import mpmath
import numpy as np
from mpmath import mpf
from numpy.typing import NDArray

from oracles.doubledouble import F64, DoubleDouble, ExtendedDouble, chosen, two_product, two_sum
from oracles.elementary import FormulaError
from oracles.elementary.elementwise import (
    I64,
    U,
    V,
    farthest_of,
    nearest,
    of_double,
    of_float64,
    scaled_double,
    tangent_of,
)
from oracles.elementary.function import Bound, Certified, Elementary, FunctionFamily, Limits, Sign
from oracles.elementary.functions import exp2, log2

MOST = 1024.0
"""The largest exponent. With larger ones all powers are infinite or zero, except powers of numbers next to 1."""
BINADES = -1100, 1030
"""The exponents of two of float64, and some more. Beyond this range the low part would be infinite too."""
FARTHEST = 1 << 28
"""The largest exponent of two that is calculated: no format reaches it."""


@dataclass(frozen=True)
class Exponent:
    """The exponent of a power, `high + low`."""

    high: float
    low: float

    @property
    def is_whole(self) -> bool:
        """Whether the exponent is a whole number, so that negative numbers have such a power."""
        return not self.low and self.high.is_integer()

    @property
    def is_odd(self) -> bool:
        """Whether the exponent is odd, so that powers of negative numbers are negative."""
        return self.is_whole and bool(self.high % 2)

    def parts(self, x: DoubleDouble, binades: I64 | int = 0) -> tuple[I64, DoubleDouble]:
        """Return k and a such that (x 2^binades)^p = 2^k (1 + a), for positive finite x.

        With e + l = log2 x, e whole and |l| <= 1/2, the power is 2^(p e + p l). p e is exact in two numbers. The
        fraction of p e, and p l, are off by p (34 V / 2 + 5 V / 2 + 3 V / 2) + 3 V / 2, absolutely: that is 15 p V + 1
        V of the result, and `exp2` adds 4.3 V.
        """
        whole, part = log2.parts(x)
        whole = whole + binades
        product = two_product(np.full_like(whole, self.high), whole)
        nearby, number = nearest(product.high)
        rest = two_sum(product.high - nearby, product.low + self.low * whole)
        more, a = exp2.parts(rest + part * DoubleDouble(np.full_like(whole, self.high), np.full_like(whole, self.low)))
        return number + more, a

    def double(self, x: DoubleDouble) -> DoubleDouble:
        """Return the power, see `parts`."""
        inside, size = self._inside(x)
        number, a = self.parts(size)
        value = scaled_double(a + 1.0, np.clip(number, *BINADES))
        return chosen(inside, self._signed(value, x.high), self._special(x.high))

    def float64(self, x: F64) -> F64:
        """Return the double-double value rounded; before the rounding it is off by less than 0.01 u."""
        return self.double(DoubleDouble(x)).high

    def extended(self, x: ExtendedDouble) -> ExtendedDouble:
        """Return the power in extended range, from its `parts`."""
        inside, size = self._inside(x.fraction)
        number, a = self.parts(size, np.where(inside, x.exponent, 0))
        value = chosen(inside, self._signed(a + 1.0, x.fraction.high), self._special(x.fraction.high))
        return ExtendedDouble.of(value, np.where(inside, np.clip(number, -FARTHEST, FARTHEST), 0))

    def _inside(self, x: DoubleDouble) -> tuple[NDArray[np.bool_], DoubleDouble]:
        """Return the mask of arguments for which `parts` gives the power, and their magnitudes; 1 for others."""
        inside = (x.high != 0) & np.isfinite(x.high) & ((x.high > 0) | self.is_whole)
        sign = np.where(x.high < 0, -1.0, 1.0)
        return inside, chosen(inside, DoubleDouble(sign * x.high, sign * x.low), DoubleDouble(np.ones_like(x.high)))

    def _signed(self, size: DoubleDouble, x: F64) -> DoubleDouble:
        sign = np.where((x < 0) & self.is_odd, -1.0, 1.0)
        return DoubleDouble(sign * size.high, sign * size.low)

    def _special(self, x: F64) -> DoubleDouble:
        """Return the powers of zeros, infinities and NaN, and of negative numbers without a power."""
        size = np.where((x == 0) == (self.high > 0), 0.0, np.inf)
        value = np.copysign(size, x) if self.is_odd else size
        return DoubleDouble(np.where((x == 0) | np.isinf(x), value, np.nan))

    def precise(self, x: mpf) -> mpf:
        """Return the power: mpmath's numbers have exponents of any size, so that no power is too large."""
        value = mpmath.power(abs(x), mpmath.fadd(self.high, self.low, exact=True))
        return -value if x < 0 and self.is_odd else value

    @property
    def limits(self) -> Limits:
        """The `Elementary.limits`. If the exponent is no whole number, kernels differ at -0 and -inf: some calculate
        the powers 1/2 and -1/2 as roots."""
        zero, infinity = (0.0, math.inf) if self.high > 0 else (math.inf, 0.0)
        above = (0.0, zero), (math.inf, infinity), (math.nan, math.nan)
        if not self.is_whole:
            return (-math.inf, None), (-0.0, None), *above
        sign = -1.0 if self.is_odd else 1.0
        return (-math.inf, math.copysign(infinity, sign)), (-0.0, math.copysign(zero, sign)), *above

    def strays(self, low: F64, high: F64, off: float) -> F64:
        """Return the relative change of values if the exponent is off by d: x^(p + d) is e^(d log x) times x^p."""
        logs = np.maximum(np.abs(np.log(np.abs(low))), np.abs(np.log(np.abs(high))))
        return np.expm1(off * logs) * (1 + 2.0**-40)

    def reach(self, least: int, high: int) -> tuple[int, int]:
        """Return the exponents of two between which results lie; a negative exponent swaps the ends."""
        ends = sorted((least * self.high, high * self.high))
        return math.floor(ends[0]) - 1, math.ceil(ends[1]) + 1

    @property
    def record(self) -> Elementary:
        """The record of the function that raises to this power."""
        singular = None if self.is_whole and self.high > 0 else 0.0
        sign: Sign = "argument" if self.is_odd else "positive"
        return Elementary(
            name="pow",
            summary=f"value^{self.high:g}",
            precise=self.precise,
            double=Certified(of_double(self.double), Bound((15 * abs(self.high) + 8) * V, 2.0**-1073)),
            float64=Certified(of_float64(self.float64), Bound(1.01 * U, 2.0**-1074)),
            extended=self.extended,
            limits=self.limits,
            domain=-math.inf if self.is_whole else 0.0,
            singular=singular,
            tangent=tangent_of(self.high),
            farthest=farthest_of(self.float64, self.high) if self.is_whole else None,
            sign=sign,
            parity="odd" if self.is_odd else "even" if self.is_whole else "neither",
            reach=self.reach,
            hard=(1.0, 2.0, 0.5, 2.0**-1074, 2.0**1023, 2.0 ** (1024 / self.high) if abs(self.high) > 1 else 3.0),
            usual=FUNCTION.usual,
            loose=FUNCTION.loose,
            power=self.high,
            elasticity=lambda value: self.high * value,
            constant=self.high,
            low=self.low,
            strays=self.strays,
        )


def member(high: float, low: float) -> Elementary:
    """Return the record of the power with exponent `high` + `low`. Raises FormulaError if there is none."""
    if not 0 < abs(high) <= MOST:
        raise FormulaError(
            f"pow: write f.pow(value, exponent) with a number from -{MOST:g} to {MOST:g}, and not {high:g}"
        )
    return Exponent(high, low).record


FUNCTION = FunctionFamily(
    name="pow",
    constant="exponent",
    summary="value^exponent, the exponent a number",
    member=member,
    examples=(2.5, -1.5, 3.0, -2.0, 1 / 3, 2.0, -1.0, 0.5, 40.0),
    usual=2.0,
    loose=8.0,
)
