"""What all powers of a value have in common, whatever the exponent."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from oracles.doubledouble import F64


def tangent_of(power: float) -> Callable[[F64, F64, F64], tuple[F64, F64]]:
    """Return the tangent (see `Elementary.tangent`) of x^power. The second derivative over 2 is power (power - 1) / 2
    x^(power - 2), which is largest where x is: for a power below 2 at the end next to zero."""
    half = abs(power * (power - 1.0)) / 2.0

    def tangent(x: F64, value: F64, radius: F64) -> tuple[F64, F64]:
        size, p = np.abs(x), radius / np.abs(x)
        slope = power * value / x
        if power >= 2.0:
            return np.where(x == 0, 0.0, slope), half * radius**2 * (size + radius) ** (power - 2.0)
        inside = np.maximum(1.0 - p, 0.0)
        return slope, np.where(p < 1, half * np.abs(value) * p**2 * inside ** (power - 2.0), np.inf)

    return tangent


def farthest_of(value_at: Callable[[F64], F64], power: float) -> Callable[[F64, F64, F64], F64]:
    """Return how far powers of numbers between two arguments lie from one of them (see `Elementary.farthest`), of a
    whole exponent. Between arguments of two signs lies zero: the least even power, or a pole."""

    def farthest(low: F64, high: F64, value: F64) -> F64:
        ends = value_at(low), value_at(high)
        both = (low <= 0) & (high >= 0)
        least, most = np.minimum(*ends), np.maximum(*ends)
        least = np.where(both & (power % 2 == 0), np.minimum(least, 0.0), least)
        return np.where(both & (power < 0), np.inf, np.maximum(most - value, value - least))

    return farthest
