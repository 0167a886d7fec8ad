"""An elementary function as one record: all that values, budgets, signs, laws and emitted C know of it."""

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
"""The accuracy in ulp of a function whose results need no rounding: from numbers of a format it makes numbers of that
format."""
LEAST_BINADE = -149
"""No float32 number but zero is smaller than 2 to this."""
SINGLE_BINADES = 128
"""Each float32 number is smaller than 2 to this."""
CANCELLED = 25
"""A difference of two float32 numbers is zero, or at most this many binades smaller than the larger one."""

_ARGUMENTS = (-math.inf, -0.0, 0.0, math.inf, math.nan)


class Certified(NamedTuple, Generic[Values]):
    """A function of arrays of any shape, and what its results may be off by."""

    value: Callable[[Values], Values]
    bound: Bound


def of_growth(value: F64, radius: F64) -> F64:
    """Return the remainder (see `Tangent`) of e^x, from e^x: f'' / 2 is at most e^r / 2 times that."""
    return np.where(radius < 700.0, value * radius**2 / 2 * np.exp(np.minimum(radius, 700.0)), np.inf)


class Tangent(NamedTuple):
    """f(x + e) = f(x) + slope e + what is at most `remainder` for |e| <= r."""

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
    c: str
    """The value of `x` as an expression of C, of f32 and of f64, with the generic functions of <tgmath.h>; the constant
    of a family is `c`."""
    examples: tuple[float, ...] = (0.0,)
    """The constants that tests try; one without a constant has 0."""
    reciprocal_of: str = ""
    """The function that it is 1 over. Where a contract promises no more than the usual accuracy, kernels are both
    rounded correctly, one after the other."""

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
    value is finite and no whole number. Must work in little memory, however large the argument is."""
    double: Certified[DoubleDouble]
    """The value in double-double, special values included."""
    float64: Certified[F64]
    """The value in float64, special values included."""
    extended: Callable[[ExtendedDouble], ExtendedDouble]
    """The value at any magnitude, within 2^-101 of itself or as far off as the argument may be by 2^-108 of itself."""
    limits: Limits
    """Arguments and values: -inf, -0, +0, inf and NaN in this order, then the ends of the domain. None: kernels differ,
    and nothing is judged there."""
    domain: float
    """The lower end of the domain; -inf if all numbers are in it. The value below is NaN."""
    singular: float | None
    """The point where the slope or the curvature is unbounded: the end of the domain or a pole. Near it, errors of
    arguments are given in proportion to the distance from it."""

    tangent: Callable[[F64, F64, F64], tuple[F64, F64]] | None
    """Slope and remainder (see `Tangent`) for arrays of arguments x, values there and radii r that broadcast: Taylor's
    remainder with Lagrange's bound of the second derivative over [x - r, x + r], infinite where the singular place lies
    within. None: the function is constant but for jumps, as `floor` is, and does not fall."""
    farthest: Callable[[F64, F64, F64], F64] | None
    """How far at most it lies from a value between two arguments: (low, high, value). None: it has no extremum, so that
    one of the two lies farthest."""

    sign: Sign
    """The sign of results: 'positive' if none is negative; 'argument' if each has the sign of its argument; or
    'any'."""
    parity: Parity
    """What becomes of the value where the argument is negated: negated too, the same, or another number."""
    reach: Callable[[int, int], tuple[int, int]]
    """Exponents that bound finite nonzero results, given those of finite nonzero float32 arguments: 2^least <= |x| <
    2^high. May be too wide, never too narrow."""

    hard: tuple[float, ...]
    """Arguments that tests try besides: where a method changes, results leave the normal numbers, or errors are known
    to be largest."""

    power: float | None = None
    """p of x^p, so that errors are in proportion to values. None: no screen decides about formulas that have it."""
    degree: float | None = None
    """f(2^k x) is 2^(k degree) f(x) in every kernel, bit for bit, wherever k times the degree is a whole number. None:
    no formula with it keeps the law `scaling`, but where the scale cancels before."""
    elasticity: Callable[[F64], F64 | float] | None = None
    """The slope times x, from the value: needed if the slope leaves the range of float64 near a singular zero long
    before the value does. None for all others."""
    settles: Callable[[float], float] | None = None
    """The magnitude of arguments from which on every kernel has the value at infinity, in a dtype of that unit
    roundoff: no number of the dtype lies between the two, nor does a rounding see their difference. None: it has no
    such values, or kernels have others there.
    """
    constant: float = 0.0
    low: float = 0.0
    """The constant of its family, and what it is more than that."""
    strays: Callable[[F64, F64, float], F64] | None = None
    """How far values between two arguments move, as a share of themselves, with a constant that is off by so much:
    kernels round it to the dtype that they calculate in, or do not. None: it has no constant."""

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
        """Return the function itself. Raises FormulaError for a constant, which it has not."""
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
        """The arguments of `limits` but NaN, which equals nothing."""
        return tuple(argument for argument, _ in self.limits if not math.isnan(argument))

    def undecided(self, x: F64) -> NDArray[np.bool_] | None:
        """Return where kernels differ, see `limits`; None: nowhere."""
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
        """Return how far the function lies from a value between two arguments at most, infinite where it has none."""
        if self.farthest is not None:
            return self.farthest(low, high, value)
        ends = [np.abs(self.float64.value(end) - value) for end in (low, high)]
        return np.where(np.isnan(ends[0]) | np.isnan(ends[1]), np.inf, np.maximum(*ends))

    def share(self, x: F64, radius: F64) -> F64:
        """Return how large errors of arguments are, in proportion to the distance from the singular place."""
        return radius if self.singular is None else radius / np.abs(x - self.singular)

    def meets(self, low: F64, high: F64) -> NDArray[np.bool_]:
        """Return where the singular place lies between two arguments, or an end of the domain does."""
        if self.singular is None:
            return np.zeros(np.shape(low), bool)
        below = np.asarray(low <= self.singular) & ~self.misses(low, high)
        return below if self.domain == self.singular else below & (high >= self.singular)

    def misses(self, low: F64, high: F64) -> NDArray[np.bool_]:
        """Return where all arguments between two lie below the domain: every kernel has NaN there."""
        return np.asarray(high + (high - low) * 2.0**-12 < self.domain)
