"""Elementary functions against mpmath: arguments where they are hard, and how much of its bound an error takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import mpmath
import numpy as np
from mpmath import mpf
from numpy.typing import NDArray

from oracles.doubledouble import F64, DoubleDouble, Real
from oracles.elementary import Bound, doubledouble, float64
from oracles.elementary.tables import ANGLES, CELLS, STEPS

ARITHMETICS: dict[str, ModuleType] = {"float64": float64, "doubledouble": doubledouble}

EXACT: dict[str, Callable[[mpf], mpf]] = {
    "exp": mpmath.exp,
    "log": mpmath.log,
    "tanh": mpmath.tanh,
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "erf": mpmath.erf,
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "sqrt": mpmath.sqrt,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
}

NOT_NEGATIVE = ("log", "sqrt", "rsqrt")

WORST_TURN = 6381956970095103 * 2.0**797
"""The float64 number nearest to a multiple of a quarter turn: 2^-60.9 beside it."""

EDGES = {
    "exp": (709.0, 709.782712893384, -708.0, -708.396418532264, -744.4, -745.133219101941),
    "log": (1.0, 2.0**-1022, 2.0**-1074, 0.70703125, 1.4140625, 0.5**0.5, 2.0**0.5),
    "tanh": (20.0, 19.06, 22.0, 40.0, 2.0**-27, 2.0**-55),
    "sigmoid": (-708.0, -745.0, 36.7, 709.78, -37.0),
    "erf": (1 / 128, 3 / 128, 5.9, 6.0, 8.5, 9.0, 2.0**-1022),
    "sin": (2.0**20, 2.0**-27, 2.0**-55, 0.7853981633974483, WORST_TURN, 2.0**1023),
    "cos": (2.0**20, 2.0**-27, 2.0**-55, 0.7853981633974483, WORST_TURN, 2.0**1023),
    "sqrt": (1.0, 4.0, 2.0**-1022, 2.0**-1074, 2.0**1023),
    "rsqrt": (1.0, 4.0, 2.0**-1022, 2.0**-1074, 2.0**1023),
}
"""Where a method changes, where results leave the normal numbers, and the worst known."""


def arguments(name: str, count: int, seed: int) -> F64:
    """About 6 `count` arguments, over all exponents, of ordinary size, next to `EDGES` and to multiples of quarter
    turns, and one in each cell of the table."""
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1.0, 1.0], count)
    wide = signs * 2.0 ** rng.uniform(-1074, 1024, count)
    usual = signs * 2.0 ** rng.uniform(-30, 5, count)
    flat = rng.uniform(-1.0, 1.0, count)
    whole = rng.uniform(-746.0, 710.0, count)
    edges = np.repeat(EDGES[name], -(-count // len(EDGES[name])))[:count]
    beside = edges * (1 + signs * 2.0 ** rng.uniform(-54, -4, count))
    turns = np.rint(2.0 ** rng.uniform(0, 60, count)) * (np.pi / 2)
    turns = turns * (1 + rng.choice([-1.0, 0.0, 1.0], count) * 2.0**-52)
    found = np.concatenate([wide, usual, flat, whole, beside, EDGES[name], cells(name, rng), turns])
    return np.abs(found[found != 0]) if name in NOT_NEGATIVE else found


def cells(name: str, rng: np.random.Generator) -> F64:
    """An argument in each cell of the table of `name`, often next to its border."""
    if name == "log":
        mantissas = np.arange(724, 1450)
        exponents = np.where(np.abs(mantissas - STEPS) < 100, 0, rng.integers(-1000, 1000, mantissas.shape))
        return np.asarray((mantissas + places(mantissas, rng)) / STEPS * 2.0**exponents)
    if name in ("exp", "tanh", "sigmoid"):
        steps = np.arange(-STEPS, STEPS // 2)
        return np.asarray((steps + places(steps, rng)) * (np.log(2) / STEPS / (2 if name == "tanh" else 1)))
    if name in ("sin", "cos"):
        numbers = np.tile(np.arange(-100, 101), 4)
        return np.asarray((numbers + places(numbers, rng)) / ANGLES + np.repeat([0, 1, 5, 8], 201) * (np.pi / 2))
    numbers = np.arange(9 * CELLS + 1)
    return np.asarray((numbers + places(numbers, rng)) / CELLS * rng.choice([-1.0, 1.0], numbers.shape))


def places(numbers: NDArray[np.int64], rng: np.random.Generator) -> F64:
    return np.asarray(rng.choice([-0.499, -0.1, 0.0, 0.2, 0.499], numbers.shape))


def with_low_parts(name: str, high: F64, seed: int) -> DoubleDouble:
    """Double-double numbers next to `high`: low parts of all sizes, and multiples of a quarter turn to 2^-107."""
    rng = np.random.default_rng(seed)
    low = high * rng.uniform(-1, 1, high.shape) * 2.0 ** rng.choice([-54.0, -60.0, -90.0, -2000.0], high.shape)
    if name in ("sin", "cos"):
        quarters = np.where(np.abs(high) < 2.0**60, high * (2 / np.pi), 0.5)
        near = np.flatnonzero((np.abs(quarters) > 0.5) & (np.abs(quarters - np.rint(quarters)) < 2.0**-20))
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


def worst(name: str, arithmetic: str, x: F64, seed: int = 0) -> Worst:
    """Return the worst error of the function `name` in `arithmetic` at (n,) `x`, with low parts for double-double."""
    return worst_at(name, with_low_parts(name, x, seed) if arithmetic == "doubledouble" else x)


def worst_at(name: str, value: Real) -> Worst:
    """Return the worst error of the function `name` at (n,) `value`, in its arithmetic."""
    module = doubledouble if isinstance(value, DoubleDouble) else float64
    bound: Bound = module.BOUNDS[name]
    result: Real = getattr(module, name)(value)
    found = Worst(-1.0, 0.0, 0.0)
    with mpmath.workprec(250):
        relative, absolute = mpf(bound.relative), mpf(bound.absolute)
        for (high, low), got in zip(_pairs(value), _pairs(result), strict=True):
            exact = EXACT[name](mpmath.fadd(high, low, exact=True))
            if not np.isfinite(got[0]):
                # The exact value rounds to infinity, or may within the bound.
                overflows = exact * (1 + relative) >= mpmath.ldexp(1 - mpmath.ldexp(1, -54), 1024)
                ratio = 0.0 if got[0] == np.inf and overflows else float("inf")
            else:
                assert got[0] + got[1] == got[0], (name, high, low, got)
                off = abs(mpmath.fadd(got[0], got[1], exact=True) - exact)
                ratio = float(off / (relative * abs(exact) + absolute)) if off else 0.0
            if not ratio <= found.ratio:
                found = Worst(ratio, high, low)
    return found


def called(name: str, arithmetic: str, x: F64) -> Real:
    value: Real = DoubleDouble(x) if arithmetic == "doubledouble" else x
    result: Real = getattr(ARITHMETICS[arithmetic], name)(value)
    return result


def _pairs(value: Real) -> list[tuple[float, float]]:
    if isinstance(value, DoubleDouble):
        return list(zip(value.high.tolist(), value.low.tolist(), strict=True))
    return [(each, 0.0) for each in value.tolist()]
