"""What all powers of a value have in common, whatever the exponent."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from oracles.doubledouble import F64


def tangent_of(power: float) -> Callable[[F64, F64, F64], tuple[F64, F64]]:
    """Return the tangent (see `Elementary.tangent`) of x^power, power < 2, x positive: the second derivative over 2 is
    power (power - 1) / 2 value / x^2, and largest at the lower end, where it is (1 - p)^(power - 2) times as large; p =
    r / x."""
    half = abs(power * (power - 1.0)) / 2.0

    def tangent(x: F64, value: F64, radius: F64) -> tuple[F64, F64]:
        p = radius / x
        inside = np.maximum(1.0 - p, 0.0)
        return power * value / x, np.where(p < 1, half * value * p**2 * inside ** (power - 2.0), np.inf)

    return tangent
