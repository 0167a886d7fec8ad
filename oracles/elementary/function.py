"""An elementary function as one record: everything that values, budgets, signs and laws know of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, TypeVar

import mpmath
import numpy as np
from mpmath import mpf
from numpy.typing import NDArray

from oracles.doubledouble import F64, DoubleDouble
from oracles.elementary import CORRECT, Bound, FormulaError
from oracles.extendeddouble import ExtendedDouble
from oracles.lazy import lazy

Values = TypeVar("Values")
Sign = Literal["positive", "argument", "any"]
Parity = Literal["odd", "even", "neither"]
Limits = tuple[tuple[float, float | None], ...]

EXACT = 0.0
"""The accuracy in ulp of a function whose results need no rounding: numbers of a format become numbers of that
format."""
LEAST_BINADE = -149
"""Every float32 number but zero is at least 2^this."""
SINGLE_BINADES = 128
"""Every float32 number is smaller than 2^this."""
CANCELLED = 25
"""A difference of two float32 numbers is zero, or smaller than the larger one by at most this many binades."""

_ARGUMENTS = (-math.inf, -0.0, 0.0, math.inf, math.nan)


class Certified(NamedTuple, Generic[Values]):
    """A function of arrays of any shape, with the bound of its error."""

    value: Callable[[Values], Values]
    bound: Bound


def of_growth(value: F64, radius: F64) -> F64:
    """Return the remainder (see `Tangent`) of e^x, from e^x: f'' / 2 is at most e^r / 2 times that."""
    return np.where(radius < 700.0, value * radius**2 / 2 * np.exp(np.minimum(radius, 700.0)), np.inf)


class Tangent(NamedTuple):
    """The tangent at x: f(x + e) = f(x) + slope e, off by at most `remainder` for |e| <= r."""

    slope: F64
    remainder: F64


@dataclass(frozen=True, kw_only=True, eq=False)
class Named:
    """What formulas and contracts know of a function."""

    name: str
    """The name in formulas and contracts, and of the file."""
    summary: str
    """What it is, in terms of `value`: "e^value"."""
    usual: float
    """The accuracy in ulp of a plain CPU kernel, which contracts promise unless they say otherwise; or `EXACT`."""
    loose: float
    """The accuracy in ulp of the least accurate kernels in use, for calibration; or `EXACT`."""
    examples: tuple[float, ...] = (0.0,)
    """The constants that tests try; a function without a constant has 0."""
    reciprocal_of: str = ""
    """The function of which it is the reciprocal. If a contract promises only the usual accuracy, kernels may calculate
    both, each correctly rounded."""

    @property
    def is_exact(self) -> bool:
        """Whether no result needs rounding, whatever the format."""
        return self.usual == EXACT

    @property
    def is_bounded(self) -> bool:
        """Whether no result lies far beyond 1, and results are rounded."""
        return False


@dataclass(frozen=True, kw_only=True, eq=False)
class FunctionFamily(Named):
    """Functions that differ by a constant, such as an exponent."""

    constant: str
    """What the constant is."""
    member: Callable[[float, float], Elementary]
    """Return the function with a constant, given as float64 and the rest that float64 does not hold. Raises
    FormulaError if there is no such function."""

    def of(self, constant: float, low: float) -> Elementary:
        """Return the function of that constant."""
        if (constant, low) not in self._members:
            self._members[constant, low] = self.member(constant, low)
        return self._members[constant, low]

    @lazy
    def _members(self) -> dict[tuple[float, float], Elementary]:
        return {}


@dataclass(frozen=True, kw_only=True, eq=False)
class Elementary(Named):
    """An elementwise function of one value. Fields without a default are required; each other field says what gets
    weaker without it, which is never soundness."""

    precise: Callable[[mpf], mpf]
    """The exact value at mpmath's working precision, for arguments within the domain, and for those in `limits` whose
    value is finite and no whole number. It must work in little memory, however large the argument is."""
    double: Certified[DoubleDouble]
    """The value in double-double, special values included."""
    float64: Certified[F64]
    """The value in float64, special values included."""
    extended: Callable[[ExtendedDouble], ExtendedDouble]
    """The value at any magnitude, within 2^-101 of itself, or within the change that 2^-108 of the argument makes."""
    limits: Limits
    """Arguments with their values: -inf, -0, +0, inf and NaN in this order, then the ends of the domain. None as a
    value: kernels differ, and nothing is judged there."""
    domain: float
    """The lower end of the domain; -inf if it has all numbers. Below it the value is NaN."""
    singular: float | None
    """The point at which the slope or the curvature is unbounded: the end of the domain or a pole. Near it, errors of
    arguments are given in proportion to the distance from it."""

    tangent: Callable[[F64, F64, F64], tuple[F64, F64]] | None
    """Slope and remainder (see `Tangent`) for arrays of arguments x, values there and radii r that broadcast: Taylor's
    remainder with Lagrange's bound of the second derivative over [x - r, x + r], infinite if the singular point lies
    within. None: the function is constant except at jumps, as `floor` is, and does not fall."""
    farthest: Callable[[F64, F64, F64], F64] | None
    """The largest distance of the function, between two arguments, from a value: (low, high, value). None: it has no
    extremum, so that one end lies farthest."""

    sign: Sign
    """The sign of results: 'positive' if none is negative; 'argument' if each has the sign of its argument; or
    'any'."""
    parity: Parity
    """What becomes of the value if the argument is negated: it is negated too, stays the same, or is another number."""
    reach: Callable[[int, int], tuple[int, int]]
    """Exponents that bound finite nonzero results, given those of finite nonzero float32 arguments: 2^least <= |x| <
    2^high. They may be too wide, never too narrow."""

    hard: tuple[float, ...]
    """Further arguments that tests try: where a method changes, results leave the normal numbers, or errors are known
    to be largest."""

    power: float | None = None
    """p for x^p, so that errors are in proportion to values. None: the fast screen does not decide about formulas with
    the function."""
    degree: float | None = None
    """The d for which f(2^k x) is 2^(k d) f(x) in every kernel, bit for bit, wherever k d is a whole number. None: no
    formula with the function keeps the law `scaling`, unless the scale cancels first."""
    elasticity: Callable[[F64], F64 | float] | None = None
    """The slope times x, from the value: needed if the slope leaves the range of float64 near a singular zero long
    before the value does; None for other functions."""
    settles: Callable[[float], float] | None = None
    """For a unit roundoff, the magnitude of arguments from which on every kernel returns the value at infinity: no
    number of the dtype lies between the two, and no rounding sees their difference. None: there is no such magnitude,
    or kernels differ."""
    constant: float = 0.0
    low: float = 0.0
    """The low part of its family's constant, beyond float64."""
    strays: Callable[[F64, F64, float], F64] | None = None
    """How far values between two arguments move, relative to themselves, if the constant is off by this much: kernels
    may round it to the dtype that they calculate in. None: it has no constant."""

    def __post_init__(self) -> None:
        """Raise ValueError for fields that contradict each other."""
        arguments = tuple(argument for argument, _ in self.limits)
        told = {
            "limits": repr(arguments[: len(_ARGUMENTS)]) == repr(_ARGUMENTS),
            "usual": self.is_exact or CORRECT <= self.usual <= self.loose,
            "loose": (self.loose == EXACT) == self.is_exact,
            "tangent": self.tangent is not None or self.is_exact,
            "parity": self.parity == "neither" or self._is_of_parity(-1.0 if self.parity == "odd" else 1.0),
            "sign": self.sign != "positive" or all(not (value or 0.0) < 0 for _, value in self.limits),
            "elasticity": self.elasticity is not None or self.singular != 0.0,
            "strays": (self.strays is not None) == bool(self.constant),
        }
        wrong = [name for name, right in told.items() if not right]
        if wrong:
            raise ValueError(f"elementary function {self.name}: {', '.join(wrong)}: the fields contradict each other")

    def _is_of_parity(self, factor: float) -> bool:
        below, above = self.limits[0][1], self.limits[3][1]
        return below is None or above is None or repr(below) == repr(factor * above) or math.isnan(above)

    def of(self, constant: float, low: float) -> Elementary:
        """Return the function itself. Raises FormulaError if a constant is given, since it has none."""
        if constant or low:
            raise FormulaError(f"{self.name} has no constant: write f.{self.name}(value)")
        return self

    @property
    def is_bounded(self) -> bool:
        return not self.is_exact and self.reach(LEAST_BINADE, SINGLE_BINADES)[1] <= 1

    @property
    def is_never_negative(self) -> bool:
        """Whether no result is less than zero. The value at -0 may still be -inf."""
        return self.sign == "positive" or (self.sign == "argument" and self.domain >= 0.0)

    @property
    def keeps_zeros(self) -> bool:
        """Whether a zero is its own value, with its sign."""
        return repr(self.at(-0.0)) == "-0.0"

    def at(self, argument: float) -> float | None:
        """Return the value at one of the arguments of `limits`. Raises KeyError."""
        return self._values[repr(argument)]

    @lazy
    def _values(self) -> dict[str, float | None]:
        return {repr(argument): value for argument, value in self.limits}

    def exactly(self, value: mpf) -> mpf:
        """Return the value in mpmath, at its working precision; a zero of mpmath's counts as +0."""
        if value and mpmath.isfinite(value) and value > self.domain:
            return self.precise(value)
        limit = self._values.get(repr(float(value)) if value in self._ends else "", math.nan)
        if limit is None or not math.isfinite(limit) or limit.is_integer():
            return mpf(math.nan if limit is None else limit)
        return self.precise(value)  # the limit is its rounding

    @lazy
    def _ends(self) -> tuple[float, ...]:
        """Return the arguments of `limits` without NaN, which equals nothing."""
        return tuple(argument for argument, _ in self.limits if not math.isnan(argument))

    def undecided(self, x: F64) -> NDArray[np.bool_] | None:
        """Return where kernels differ, see `limits`; None for nowhere."""
        found: NDArray[np.bool_] | None = None
        for argument, value in self.limits:
            if value is None:
                same = np.isnan(x) if math.isnan(argument) else (x == argument) & (np.signbit(x) == (argument < 0))
                if argument == 0:
                    same = (x == 0) & (np.signbit(x) == (math.copysign(1.0, argument) < 0))
                if same.any():
                    found = same if found is None else found | same
        return found

    def bend(self, x: F64, value: F64, radius: F64) -> Tangent:
        """Return the tangent at x, where the function has that value, within that radius. All arrays broadcast."""
        assert self.tangent is not None
        slope, remainder = self.tangent(x, value, radius)
        none = radius == 0
        return Tangent(np.where(none & ~np.isfinite(slope), 0.0, slope), np.where(none, 0.0, remainder))

    def hull(self, low: F64, high: F64, value: F64) -> F64:
        """Return the largest distance of the function, between two arguments, from a value; infinite where it has
        none."""
        if self.farthest is not None:
            return self.farthest(low, high, value)
        ends = [np.abs(self.float64.value(end) - value) for end in (low, high)]
        return np.where(np.isnan(ends[0]) | np.isnan(ends[1]), np.inf, np.maximum(*ends))

    def share(self, x: F64, radius: F64) -> F64:
        """Return how large errors of arguments are, in proportion to the distance from the singular place."""
        return radius if self.singular is None else radius / np.abs(x - self.singular)

    def meets(self, low: F64, high: F64) -> NDArray[np.bool_]:
        """Return where the singular point, or an end of the domain, lies between two arguments."""
        if self.singular is None:
            return np.zeros(np.shape(low), bool)
        below = np.asarray(low <= self.singular) & ~self.misses(low, high)
        return below if self.domain == self.singular else below & (high >= self.singular)

    def misses(self, low: F64, high: F64) -> NDArray[np.bool_]:
        """Return where all arguments between two lie below the domain: every kernel has NaN there."""
        return np.asarray(high + (high - low) * 2.0**-12 < self.domain)
