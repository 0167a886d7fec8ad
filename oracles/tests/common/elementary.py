"""Elementary functions against mpmath: arguments where they are hard, and how much of its bound an error takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import mpmath
import numpy as np
import pytest
from mpmath import mpf
from numpy.typing import NDArray

from oracles.doubledouble import F64, DoubleDouble, Real
from oracles.elementary.function import Elementary
from oracles.elementary.functions import members
from oracles.elementary.tables import ANGLES, CELLS, STEPS

FUNCTIONS = members()
every_function = pytest.mark.parametrize("of", FUNCTIONS.values(), ids=FUNCTIONS)
Arithmetic = Literal["float64", "double"]
ARITHMETICS: tuple[Arithmetic, ...] = ("float64", "double")


def arguments(of: Elementary, count: int, seed: int) -> F64:
    """About 8 `count` arguments, over all exponents, of ordinary size, beside hard ones, ends of the domain and
    multiples of quarter turns, and some in cells of tables."""
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1.0, 1.0], count)
    wide = signs * 2.0 ** rng.uniform(-1074, 1024, count)
    usual = signs * 2.0 ** rng.uniform(-30, 5, count)
    flat = rng.uniform(-1.0, 1.0, count)
    whole = rng.uniform(-746.0, 710.0, count)
    edges = [*of.hard, *(argument for argument, _ in of.limits if np.isfinite(argument) and argument)]
    beside = np.repeat(edges, -(-count // len(edges)))[:count] * (1 + signs * 2.0 ** rng.uniform(-54, -4, count))
    turns = np.rint(2.0 ** rng.uniform(0, 60, count)) * (np.pi / 2)
    turns = turns * (1 + rng.choice([-1.0, 0.0, 1.0], count) * 2.0**-52)
    steps = np.rint(rng.uniform(-100, 100, count)) / 2 * (1 + rng.choice([-1.0, 0.0, 1.0], count) * 2.0**-52)
    cell = rng.choice(cells(rng), 2 * count)
    found = np.concatenate([wide, usual, flat, whole, beside, edges, cell, turns, steps])
    found = found[found != 0]
    found = np.abs(found) if of.domain >= 0 else found
    return np.asarray(found[(found > of.domain) & (found < of.top)])


def cells(rng: np.random.Generator) -> F64:
    """An argument in each cell of each table, often next to its border."""
    mantissas = np.arange(724, 1450)
    exponents = np.where(np.abs(mantissas - STEPS) < 100, 0, rng.integers(-1000, 1000, mantissas.shape))
    steps = np.arange(-STEPS, STEPS // 2)
    angles = np.tile(np.arange(-100, 101), 4)
    numbers = np.arange(9 * CELLS + 1)
    return np.concatenate(
        [
            (mantissas + places(mantissas, rng)) / STEPS * 2.0**exponents,
            (steps + places(steps, rng)) / STEPS * rng.choice([1.0, np.log(2), np.log(2) / 2], steps.shape),
            (angles + places(angles, rng)) / ANGLES + np.repeat([0, 1, 5, 8], 201) * (np.pi / 2),
            (numbers + places(numbers, rng)) / CELLS * rng.choice([-1.0, 1.0], numbers.shape),
        ]
    )


def places(numbers: NDArray[np.int64], rng: np.random.Generator) -> F64:
    return np.asarray(rng.choice([-0.499, -0.1, 0.0, 0.2, 0.499], numbers.shape))


def with_low_parts(high: F64, seed: int) -> DoubleDouble:
    """Double-double numbers next to `high`: low parts of all sizes, and multiples of a quarter turn to 2^-107."""
    rng = np.random.default_rng(seed)
    low = high * rng.uniform(-1, 1, high.shape) * 2.0 ** rng.choice([-54.0, -60.0, -90.0, -2000.0], high.shape)
    near = _beside_turns(high)
    with mpmath.workprec(300):
        turns = [mpmath.nint(2 * x / mpmath.pi) * mpmath.pi / 2 for x in high[near].tolist()]
        high = high.copy()
        high[near] = [float(turn) for turn in turns]
        low[near] = [float(turn - mpf(x)) for turn, x in zip(turns, high[near].tolist(), strict=True)]
    total = high + low
    return DoubleDouble(total, low - (total - high))


@dataclass(frozen=True)
class Worst:
    """The largest part of its bound that an error takes, and the argument that it was seen at."""

    ratio: float
    high: float
    low: float


def worst(of: Elementary, arithmetic: Arithmetic, x: F64, seed: int = 0) -> Worst:
    """Return the worst error of a function in `arithmetic` at (n,) `x`, with low parts for double-double."""
    return worst_at(of, with_low_parts(x, seed) if arithmetic == "double" else x)


def worst_at(of: Elementary, value: Real) -> Worst:
    """Return the worst error of a function at (n,) `value`, in its arithmetic."""
    bound = (of.double if isinstance(value, DoubleDouble) else of.float64).bound
    result = applied(of, value)
    found = Worst(-1.0, 0.0, 0.0)
    with mpmath.workprec(250):
        relative, absolute = mpf(bound.relative), mpf(bound.absolute)
        for (high, low), got in zip(_pairs(value), _pairs(result), strict=True):
            exact = of.exactly(mpmath.fadd(high, low, exact=True))
            if mpmath.isnan(exact):
                ratio = 0.0 if np.isnan(got[0]) else float("inf")
            elif not np.isfinite(got[0]):
                # The exact value rounds to infinity, or may within the bound.
                overflows = abs(exact) * (1 + relative) >= mpmath.ldexp(1 - mpmath.ldexp(1, -54), 1024)
                ratio = 0.0 if got[0] == mpmath.sign(exact) * np.inf and overflows else float("inf")
            else:
                assert got[0] + got[1] == got[0], (of.name, high, low, got)
                off = abs(mpmath.fadd(got[0], got[1], exact=True) - exact)
                most = relative * abs(exact) + absolute
                ratio = 0.0 if not off else float(off / most) if most else float("inf")
            if not ratio <= found.ratio:
                found = Worst(ratio, high, low)
    return found


def called(of: Elementary, arithmetic: Arithmetic, x: F64) -> Real:
    return applied(of, DoubleDouble(x) if arithmetic == "double" else x)


def applied(of: Elementary, value: Real) -> Real:
    return of.double.value(value) if isinstance(value, DoubleDouble) else of.float64.value(value)


def _beside_turns(high: F64) -> NDArray[np.int64]:
    quarters = np.where(np.abs(high) < 2.0**60, high * (2 / np.pi), 0.5)
    return np.flatnonzero((np.abs(quarters) > 0.5) & (np.abs(quarters - np.rint(quarters)) < 2.0**-20))


def _pairs(value: Real) -> list[tuple[float, float]]:
    if isinstance(value, DoubleDouble):
        return list(zip(value.high.tolist(), value.low.tolist(), strict=True))
    return [(each, 0.0) for each in value.tolist()]
