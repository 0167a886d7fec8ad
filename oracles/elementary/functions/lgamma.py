"""Logarithm of the magnitude of the gamma function."""

from __future__ import annotations

import math
from functools import cache

import mpmath
import numpy as np
from mpmath import mpf

from oracles.doubledouble import F64, ORDINARY, DoubleDouble, ExtendedDouble, absolute, chosen, whichever
from oracles.elementary import gamma
from oracles.elementary.elementwise import U, V, of_double, polynomial, rounded, scaled, scaled_double
from oracles.elementary.function import LEAST_BINADE, Bound, Certified, Elementary
from oracles.elementary.functions import log, sin
from oracles.elementary.tables import doubled, fixed, logarithms, ratio

NEAR = 0.5
"""The argument from which on the table is asked for x itself."""
_SMALLER = 60
"""The power of two that is taken out of products that might overflow."""
_SERIES = [-1 / 360, 1 / 1260, -1 / 1680]
"""Stirling's coefficients of 1/x^3, 1/x^5 and 1/x^7."""


@cache
def constants() -> tuple[DoubleDouble, DoubleDouble, DoubleDouble]:
    """Return pi, its logarithm, and half of the logarithm of 2 pi."""
    found = (lambda: mpmath.pi), (lambda: mpmath.log(mpmath.pi)), (lambda: mpmath.log(2 * mpmath.pi) / 2)
    values = doubled(fixed(each) for each in found)
    return values[0], values[1], values[2]


def precise(x: mpf) -> mpf:
    if x > 0:
        return mpmath.loggamma(x)
    if mpmath.isint(x):
        return mpf(mpmath.inf)
    if x > -mpmath.ldexp(1, -4 * mpmath.mp.prec):  # 1 - x is rounded to 1
        return -mpmath.log(-x)
    with mpmath.workprec(mpmath.mp.prec + 250 + abs(int(mpmath.mag(x)))):
        return mpmath.log(mpmath.pi / abs(mpmath.sinpi(x))) - mpmath.loggamma(1 - x)


@of_double
def double(x: DoubleDouble) -> DoubleDouble:
    """Return e log 2 + s from the table for x >= 1/2, within 41 V; log gamma(1 + x) - log x below, within 40 V; and for
    x <= 0 log(pi / |sin(pi x)|) - log gamma(1 - x). The logarithm there is off by 60 V and the other by 43 V. They may
    cancel: either is then at most 750, which adds 2^-89."""
    positive = x.high > 0
    inside = chosen(np.isfinite(x.high) & (x.high != 0), x, DoubleDouble(np.ones_like(x.high)))
    size = chosen(positive, inside, 1.0 - inside)
    far = of_large(size)
    near = chosen(size.high < gamma.LAST, inside, DoubleDouble(np.ones_like(x.high)))
    least = np.where(near.high > 0, 0.0, near.high)
    mirrored = gamma.of_mirrored(DoubleDouble(least, np.where(near.high > 0, 0.0, near.low)))
    above = chosen(near.high > 0, near, DoubleDouble(np.ones_like(x.high)))
    more = above.high < NEAR
    plain = gamma.of_positive(chosen(more, DoubleDouble(np.ones_like(x.high)), above), 0.0)
    moved = gamma.of_positive(chosen(more, above, DoubleDouble(np.zeros_like(x.high))), 1.0)
    binade, rest = gamma.joined(near.high <= 0, mirrored, gamma.joined(more, moved, plain))
    value = chosen(binade == 0, rest, logarithms().log_two * binade + rest)
    value = chosen(size.high < gamma.LAST, value, far)
    value = chosen(positive & (inside.high < NEAR), value - log.double(chosen(more, above, size)), value)
    value = chosen(positive, value, _mirrored(inside, value))
    return chosen((x.high == 0) | ~np.isfinite(x.high), DoubleDouble(np.where(np.isnan(x.high), np.nan, np.inf)), value)


def _mirrored(x: DoubleDouble, value: DoubleDouble) -> DoubleDouble:
    """Return log(pi / |sin(pi x)|) less `value`; infinity where x is a whole number."""
    t, _ = gamma.from_whole(x)
    pi, log_pi, _ = constants()
    tiny = np.abs(t.high) < 2.0**-900
    t = chosen(tiny, DoubleDouble(t.high * 2.0**900, t.low * 2.0**900), t)
    size = absolute(t * pi)
    logarithm = log.double(chosen(tiny, size, absolute(sin.double(size))))
    logarithm = logarithm - logarithms().log_two * np.where(tiny, 900.0, 0.0)
    return chosen(t.high == 0, DoubleDouble(np.full_like(x.high, np.inf)), (log_pi - logarithm) - value)


def of_large(x: DoubleDouble) -> DoubleDouble:
    """Return log gamma(x) by Stirling's series for x >= `gamma.LAST`: x (log x - 1) - log(x) / 2 + log(2 pi) / 2 + 1 /
    12 x - ..., whose next term is 2^-113 of it. The logarithm less 1 is off by 31 V, the product by 36 V, and the sums
    add 9 V; the terms from 1/x^3 on, in float64, 3 V."""
    x = chosen(x.high < gamma.LAST, DoubleDouble(np.full_like(x.high, gamma.LAST)), x)
    logarithm = log.double(x)
    inverse = 1.0 / x.high
    series = (1.0 / x) * ratio(1, 12) + inverse**3 * polynomial(inverse * inverse, _SERIES)
    rest = (constants()[2] - DoubleDouble(logarithm.high / 2, logarithm.low / 2)) + series
    down = DoubleDouble(*(scaled(each, np.full(each.shape, -_SMALLER)) for each in (x.high, x.low)))
    product = down * (logarithm - 1.0)
    total = product + DoubleDouble(rest.high * 2.0**-_SMALLER, rest.low * 2.0**-_SMALLER)
    return scaled_double(total, np.full(x.high.shape, _SMALLER))


def extended(x: ExtendedDouble) -> ExtendedDouble:
    """Return lgamma x: -log |x| below 2^-900, x (log x - 1) above 2^900, and infinity below -2^900."""
    sign = np.copysign(1.0, x.fraction.high)
    size = ExtendedDouble(DoubleDouble(sign * x.fraction.high, sign * x.fraction.low), x.exponent)
    logarithm = log.extended(size)
    near = whichever(x.exponent < -ORDINARY, -logarithm, ExtendedDouble.of(double(x.doubled)))
    far = size * (logarithm - ExtendedDouble.of(DoubleDouble(np.ones(x.shape))))
    return whichever((x.exponent > ORDINARY) & (sign > 0), far, near)


def tangent(x: F64, value: F64, radius: F64) -> tuple[F64, F64]:
    return gamma.psi(x), gamma.steepest(x, radius) / 2 * radius**2


def farthest(low: F64, high: F64, value: F64) -> F64:
    """Return the largest distance from a value. Between poles the function is convex: it is largest at an end, at least
    -0.1215 for positive x, and at least log(pi) - log gamma(1 - low) for negative x."""
    ends = [FUNCTION.float64.value(end) for end in (low, high)]
    least = np.where(low > 0, -0.1215, 1.144 - FUNCTION.float64.value(1.0 - np.minimum(low, 0.0)))
    away = np.maximum(np.maximum(*ends) - value, value - np.minimum(least, np.minimum(*ends)))
    return np.where(FUNCTION.meets(low, high) | np.isnan(away), np.inf, away)


FUNCTION = Elementary(
    name="lgamma",
    summary="log |gamma(value)|",
    precise=precise,
    double=Certified(double, Bound(256 * V, 2.0**-88)),
    float64=Certified(rounded(double), Bound(1.01 * U, 2.0**-88)),
    extended=extended,
    limits=((-math.inf, math.inf), (-0.0, math.inf), (0.0, math.inf), (math.inf, math.inf), (math.nan, math.nan)),
    domain=-math.inf,
    singular=None,
    apart=gamma.apart,
    tangent=tangent,
    farthest=farthest,
    sign="any",
    parity="neither",
    reach=lambda least, high: (LEAST_BINADE, max(high, 0) + 8),
    hard=(0.5, 1.0, 2.0, 3.5, 15.97, 16.5, 1100.0, -0.5, -2.457024738220801, -2.7476826467274127, -20.5, 2.0**1000),
    usual=4.0,
    loose=8.0,
)
