"""Slopes of elementwise functions, and bounds of what a tangent leaves out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from oracles.doubledouble import F64
from oracles.formula.exact.arithmetic import Float64
from oracles.formula.trace import Kind


class Tangent(NamedTuple):
    """f(x + e) = f(x) + slope e + what is at most `remainder` for |e| <= r."""

    slope: F64
    remainder: F64


def tangent(kind: Kind, x: F64, value: F64, radius: F64) -> Tangent:
    """The tangent of a function at x, where it has that value, within that radius. All arrays broadcast.

    The remainder is Taylor's with Lagrange's bound of the second derivative over [x - r, x + r]; infinite where a pole
    or the end of the domain lies within.
    """
    slope, remainder = _TANGENTS[kind](x, value, radius)
    none = radius == 0
    return Tangent(np.where(none & ~np.isfinite(slope), 0.0, slope), np.where(none, 0.0, remainder))


def hull(kind: Kind, low: F64, high: F64, value: F64) -> F64:
    """How far the function lies from that value between these ends, infinite where it is not defined."""
    if kind in ("sin", "cos"):
        return 1.0 + np.abs(value)
    ends = [np.abs(Float64().apply(kind, end) - value) for end in (low, high)]
    return np.where(np.isnan(ends[0]) | np.isnan(ends[1]), np.inf, np.maximum(*ends))


STEEPNESS: Mapping[Kind, float] = {"log": 1.0, "sqrt": 0.5, "rsqrt": -0.5}
"""The slopes of these functions, times x and over the value; of log times x alone."""


def _exp(x: F64, value: F64, radius: F64) -> tuple[F64, F64]:
    return value, value * radius**2 / 2 * np.exp(np.minimum(radius, 700.0))


def _powers(slope: float, half: float, power: float) -> Callable[[F64, F64, F64], tuple[F64, F64]]:
    """Return the function for the slope of value = x^slope and for what its curvature adds: the second derivative over
    2 is `half` value / x^2, and largest at the lower end, where it is (1 - p)^-power times as large; p = r / x."""

    def of(x: F64, value: F64, radius: F64) -> tuple[F64, F64]:
        p = radius / x
        inside = np.maximum(1.0 - p, 0.0)
        return slope * value / x, np.where(p < 1, half * value * p**2 * inside**-power, np.inf)

    return of


def _log(x: F64, value: F64, radius: F64) -> tuple[F64, F64]:
    p = radius / x
    return 1.0 / x, np.where(p < 1, p**2 / 2 * np.maximum(1.0 - p, 0.0) ** -2, np.inf)


def _tanh(x: F64, value: F64, radius: F64) -> tuple[F64, F64]:
    """|f''| / 2 = |tanh| / cosh^2 is at most 0.385, and at most 4 e^(-2|x|)."""
    near = np.maximum(np.abs(x) - radius, 0.0)
    slope = np.cosh(np.minimum(np.abs(x), 350.0)) ** -2
    return slope, np.minimum(0.385, 4 * np.exp(-2 * near)) * radius**2


def _sigmoid(x: F64, value: F64, radius: F64) -> tuple[F64, F64]:
    """|f''| / 2 is at most 0.0482, and at most e^-|x| / 2."""
    near = np.maximum(np.abs(x) - radius, 0.0)
    small = np.exp(-np.abs(x))
    return small / (1 + small) ** 2, np.minimum(0.0482, np.exp(-near) / 2) * radius**2


def _erf(x: F64, value: F64, radius: F64) -> tuple[F64, F64]:
    """|f''| / 2 = 2 |x| e^(-x^2) / sqrt(pi) is at most 0.484, and falls from 1/sqrt(2) on."""
    near = np.maximum(np.abs(x) - radius, 0.0)
    beyond = 2 * near * np.exp(-(near**2)) / math.sqrt(math.pi)
    bound = np.where(near > math.sqrt(0.5), beyond, 0.484)
    return 2 / math.sqrt(math.pi) * np.exp(-(x**2)), bound * radius**2


def _sin(x: F64, value: F64, radius: F64) -> tuple[F64, F64]:
    return np.cos(x), radius**2 / 2


def _cos(x: F64, value: F64, radius: F64) -> tuple[F64, F64]:
    return -np.sin(x), radius**2 / 2


def _absolute(x: F64, value: F64, radius: F64) -> tuple[F64, F64]:
    return np.sign(x), 2 * np.maximum(radius - np.abs(x), 0.0)


_TANGENTS: Mapping[Kind, Callable[[F64, F64, F64], tuple[F64, F64]]] = {
    "exp": _exp, "log": _log, "tanh": _tanh, "sigmoid": _sigmoid, "erf": _erf, "sin": _sin, "cos": _cos,
    "sqrt": _powers(0.5, 0.125, 1.5), "rsqrt": _powers(-0.5, 0.375, 2.5), "absolute": _absolute,
}  # fmt: skip
