"""Gamma function."""

from __future__ import annotations

import math

import mpmath
import numpy as np
from mpmath import mpf

from oracles.doubledouble import F64, ORDINARY, DoubleDouble, ExtendedDouble, absolute, chosen, whichever
from oracles.elementary import gamma
from oracles.elementary.elementwise import I64, U, V, mantissa, of_double, rounded, scaled, scaled_double
from oracles.elementary.function import LEAST_BINADE, Bound, Certified, Elementary
from oracles.elementary.functions import exp, lgamma, sin
from oracles.elementary.functions.pow import BINADES

_FARTHEST = 2.0**20
"""The magnitude of x from which on gamma overflows or underflows in any format."""


def precise(x: mpf) -> mpf:
    if x <= 0 and mpmath.isint(x):
        return mpf(mpmath.nan)
    if abs(x) > _FARTHEST:
        return mpf(mpmath.inf if x > 0 else 0)
    if x > 0:
        return mpmath.gamma(x)
    with mpmath.workprec(mpmath.mp.prec + 60):
        return mpmath.pi / (mpmath.sinpi(x) * mpmath.gamma(1 - x))


@of_double
def double(x: DoubleDouble) -> DoubleDouble:
    """Return gamma x, see `parts`."""
    value, exponent = parts(x)
    found = scaled_double(value, np.clip(exponent, *BINADES))
    found = DoubleDouble(np.where(found.high == 0, np.copysign(0.0, value.high), found.high), found.low)
    special = np.where(x.high == 0, 1.0 / x.high, np.where(x.high > 0, np.inf, np.nan))
    return chosen(np.isfinite(x.high) & (x.high != 0), found, DoubleDouble(special))


def parts(x: DoubleDouble) -> tuple[DoubleDouble, I64]:
    """Return a number and k, with gamma x = number 2^k, for x between -`gamma.LAST` and `gamma.LAST`; beyond, for the
    ends; NaN for 0 and negative whole numbers.

    For x >= 1/2 it is e^s 2^e from the table, where s is off by 41 V and the power by 5 V. Below it is gamma(1 + x) /
    x, 56 V; and for x <= 0 pi / sin(pi x) / gamma(1 - x) with sin(pi x) = q t for the distance t of x from a whole
    number. q is off by 40 V, the products and quotients add 25 V: 111 V."""
    one = DoubleDouble(np.ones_like(x.high))
    inside = chosen(np.isfinite(x.high), x, one)
    negative = inside.high < 0
    near = chosen(
        np.abs(inside.high) < gamma.LAST - 1, inside, DoubleDouble(np.copysign(gamma.LAST - 1.0, inside.high))
    )
    above = chosen(negative, one, near)
    small = above.high < lgamma.NEAR
    mirrored = gamma.of_mirrored(chosen(negative, near, DoubleDouble(np.zeros_like(x.high))))
    plain = gamma.of_positive(chosen(small, one, above), 0.0)
    moved = gamma.of_positive(chosen(small, above, DoubleDouble(np.zeros_like(x.high))), 1.0)
    binade, rest = gamma.joined(negative, mirrored, gamma.joined(small, moved, plain))
    more, a = exp.parts(rest)
    exponent, value = binade.astype(np.int64) + more, a + 1.0
    t, odd = gamma.from_whole(inside)
    divisor = chosen(negative, t, chosen(small, above, one))
    whole = divisor.high == 0
    m, moved_by = mantissa(np.where(whole, 1.0, np.abs(divisor.high)))
    sign = np.where((divisor.high < 0) != (negative & (odd != 0)), -1.0, 1.0)
    size = DoubleDouble(sign * m, sign * np.copysign(1.0, divisor.high) * scaled(divisor.low, -moved_by))
    pi = lgamma.constants()[0]
    flat = np.abs(t.high) < 2.0**-60
    safe = chosen(flat, one, t)
    q = chosen(
        flat, DoubleDouble(np.full_like(x.high, pi.high), np.full_like(x.high, pi.low)), sin.double(safe * pi) / safe
    )
    mirror = (1.0 / (value * absolute(q))) * pi / size
    value, exponent = chosen(negative, mirror, value / size), np.where(negative, -exponent, exponent) - moved_by
    return chosen(negative & whole, DoubleDouble(np.full_like(x.high, np.nan)), value), exponent


def extended(x: ExtendedDouble) -> ExtendedDouble:
    """Return gamma x: 1 / x below 2^-900. Beyond `gamma.LAST` a power of e, which is as far off as its exponent; below
    minus that, where it is less than 2^-9000, 0."""
    size = x.doubled
    value, exponent = parts(size)
    near = whichever(
        x.exponent < -ORDINARY,
        ExtendedDouble.of(DoubleDouble(np.ones(x.shape))) / x,
        ExtendedDouble.of(value, exponent),
    )
    beyond = np.where(np.isfinite(size.high) & ~np.isnan(value.high), 0.0, np.nan)
    far = whichever(size.high > 0, exp.extended(lgamma.extended(x)), ExtendedDouble.of(DoubleDouble(beyond)))
    return whichever(np.abs(size.high) < gamma.LAST - 1, near, far)


def tangent(x: F64, value: F64, radius: F64) -> tuple[F64, F64]:
    """Return slope and remainder: |f''| = |gamma| (psi^2 + psi'). Between poles |gamma| is largest at an end, and so is
    |psi|, which increases."""
    ends = [x - radius, x + radius]
    most = np.maximum(*(np.abs(FUNCTION.float64.value(end)) for end in ends))
    bound = most * (np.maximum(*(gamma.psi(end) ** 2 for end in ends)) + gamma.steepest(x, radius)) / 2 * radius**2
    return value * gamma.psi(x), np.where(np.isnan(bound), np.inf, bound)


def farthest(low: F64, high: F64, value: F64) -> F64:
    """Return the largest distance from a value. Between poles |gamma| is largest at an end, and at least 0.8856 for
    positive x."""
    most = np.maximum(*(np.abs(FUNCTION.float64.value(end)) for end in (low, high)))
    size = np.abs(value)
    away = np.maximum(most - size, size - np.where(low > 0, 0.8856, 0.0))
    return np.where(FUNCTION.meets(low, high) | np.isnan(away), np.inf, away)


FUNCTION = Elementary(
    name="tgamma",
    summary="gamma(value)",
    precise=precise,
    double=Certified(double, Bound(112 * V, 2.0**-1073)),
    float64=Certified(rounded(double), Bound(1.01 * U, 2.0**-1073)),
    extended=extended,
    limits=((-math.inf, math.nan), (-0.0, -math.inf), (0.0, math.inf), (math.inf, math.inf), (math.nan, math.nan)),
    domain=-math.inf,
    singular=None,
    apart=gamma.apart,
    tangent=tangent,
    farthest=farthest,
    sign="any",
    parity="neither",
    reach=lambda least, high: (LEAST_BINADE, 150),
    hard=(0.5, 1.0, 2.0, 1.4616321449683622, 35.04, 171.6, -0.5, -20.5, -150.5, -170.6, -184.25, 2.0**-1022),
    usual=4.0,
    loose=10.0,
)
