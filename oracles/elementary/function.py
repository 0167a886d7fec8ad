"""The record of an elementary function, from which values, budgets, signs and laws take all facts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, TypeVar

import mpmath
import numpy as np
from mpmath import mpf
from numpy.typing import NDArray

from oracles.doubledouble import F64, DoubleDouble, ExtendedDouble
from oracles.elementary import CORRECT, FormulaError
from oracles.lazy import lazy

Values = TypeVar("Values")
Sign = Literal["positive", "argument", "any"]
Parity = Literal["odd", "even", "neither"]
Limits = tuple[tuple[float, float | None], ...]

EXACT = 0.0
"""The accuracy, in ulp, of a function whose results for numbers of a format are numbers of that format."""
LEAST_BINADE = -149
"""Every nonzero float32 number has a magnitude of at least 2^`LEAST_BINADE`."""
SINGLE_BINADES = 128
"""Every finite float32 number has a magnitude below 2^`SINGLE_BINADES`."""
CANCELLED = 25
"""A difference of two float32 numbers is zero, or smaller than the larger one by at most this many binades."""

DUST = 2.0**-20
"""The share by which an interval is widened, which is more than its ends are rounded by."""

_ARGUMENTS = (-math.inf, -0.0, 0.0, math.inf, math.nan)


@dataclass(frozen=True)
class Bound:
    """The error bound of a result whose exact value y is finite: `relative` * |y| + `absolute`. The absolute part comes
    from gradual underflow, or from an argument next to a zero of a sine. If y rounds to infinity, the result may be
    infinite."""

    relative: float
    absolute: float = 0.0


class Certified(NamedTuple, Generic[Values]):
    """A function of arrays of any shape, with the bound of its error."""

    value: Callable[[Values], Values]
    bound: Bound


def of_growth(value: F64, radius: F64) -> F64:
    """Return the remainder (see `Tangent`) of e^x from its value: f'' / 2 is at most e^radius / 2 times the value."""
    return np.where(radius < 700.0, value * radius**2 / 2 * np.exp(np.minimum(radius, 700.0)), np.inf)


class Tangent(NamedTuple):
    """The tangent of f at x: f(x + e) differs from f(x) + `slope` e by at most `remainder` for |e| up to a radius."""

    slope: F64
    remainder: F64


@dataclass(frozen=True, kw_only=True, eq=False)
class Named:
    """The properties of a function that formulas and contracts use."""

    name: str
    """The name in formulas and contracts, which is also the name of the file."""
    summary: str
    """The function as an expression of `value`: "e^value"."""
    usual: float
    """The accuracy in ulp of a plain CPU kernel, which contracts promise unless they say otherwise; or `EXACT`."""
    loose: float
    """The accuracy in ulp of the least accurate kernels in use, for calibration; or `EXACT`."""
    examples: tuple[float, ...] = (0.0,)
    """The constants that tests try; a function without a constant has 0."""
    reciprocal_of: str = ""
    """The name of the function of which this is the reciprocal. If a contract promises the usual accuracy, kernels may
    calculate that function and then its reciprocal, each correctly rounded."""

    @property
    def is_exact(self) -> bool:
        """Whether no result needs rounding, whatever the format."""
        return self.usual == EXACT

    @property
    def is_bounded(self) -> bool:
        """Whether all results have magnitudes of at most about 1, and are rounded."""
        return False


@dataclass(frozen=True, kw_only=True, eq=False)
class FunctionFamily(Named):
    """Functions that differ by a constant, such as an exponent."""

    constant: str
    """The meaning of the constant, in words."""
    member: Callable[[float, float], Elementary]
    """A function that returns the record for a constant, given as a float64 and the rest that float64 does not hold. It
    raises FormulaError if there is no such function."""

    def of(self, constant: float, low: float) -> Elementary:
        """Return the record for the constant `constant` + `low`."""
        if (constant, low) not in self._members:
            self._members[constant, low] = self.member(constant, low)
        return self._members[constant, low]

    @lazy
    def _members(self) -> dict[tuple[float, float], Elementary]:
        return {}


@dataclass(frozen=True, kw_only=True, eq=False)
class Elementary(Named):
    """The record of an elementwise function of one value. Fields without a default are required. The notes of the
    others say what does not work without them; judgements stay sound."""

    precise: Callable[[mpf], mpf]
    """The value at mpmath's working precision, for arguments inside the domain, and those in `limits` whose value is
    finite and no whole number. It must need little memory, however large the argument is."""
    double: Certified[DoubleDouble]
    """The value in double-double, special values included."""
    float64: Certified[F64]
    """The value in float64, special values included."""
    extended: Callable[[ExtendedDouble], ExtendedDouble]
    """The value at any magnitude, with a relative error of 2^-101, or the change by a relative error of 2^-108 in x."""
    limits: Limits
    """Pairs of an argument and its value: -inf, -0, +0, inf and NaN in this order, then the ends of the domain. With
    None as the value kernels differ, and nothing is judged there."""
    domain: float
    """The lower end of the domain, below which the value is NaN; -inf if all negative numbers are in the domain."""
    singular: float | None
    """The point at which the slope or the curvature is unbounded: the end of the domain or a pole. Near it, errors of
    arguments are measured relative to the distance from it. None: there is no such point."""

    tangent: Callable[[F64, F64, F64], tuple[F64, F64]] | None
    """The slope and the remainder (see `Tangent`) for arrays of arguments x, values there and radii r, which broadcast.
    The remainder is Lagrange's, with a bound of the second derivative over [x - r, x + r]; it is infinite if the
    singular point lies there. None: the function is constant except at jumps, as `floor` is, and never decreases."""
    farthest: Callable[[F64, F64, F64], F64] | None
    """The function of (low, high, value) that returns the largest distance from `value` to results of arguments from
    `low` to `high`. None: results have no extremum between two arguments, so that one of the ends lies farthest."""

    sign: Sign
    """The sign of results: 'positive' if none is negative; 'argument' if each has its argument's sign; or 'any'."""
    parity: Parity
    """The change of the value if the argument is negated: 'odd' negates it, 'even' keeps it, 'neither' does neither."""
    reach: Callable[[int, int], tuple[int, int]]
    """The function that returns exponents (least, high) such that 2^least <= |result| < 2^high, from those of finite
    nonzero float32 arguments. They may be too wide, never too narrow. Zeros and infinities do not count."""

    hard: tuple[float, ...]
    """Further arguments that tests try: where the method of calculation changes, results become subnormal or overflow,
    or errors are known to be largest."""

    top: float = math.inf
    """The upper end of the domain, above which the value is NaN; inf if all positive numbers are in the domain."""
    apart: Callable[[F64], F64] | None = None
    """The distance from the nearest singular point, for functions with several: poles, and both ends of a domain.
    `singular` is None then."""
    power: float | None = None
    """The p of x^p, whose relative errors are p times those of x. None: the fast screen does not decide about formulas
    with the function."""
    degree: float | None = None
    """The d for which f(2^k x) is 2^(k d) f(x) in every kernel, bit for bit, if k d is a whole number. None: a formula
    with the function only keeps the law `scaling` if the scale cancels before the function."""
    elasticity: Callable[[F64], F64 | float] | None = None
    """The slope times x, as a function of the value. It is needed if near a singular point at 0 the slope leaves the
    range of float64 long before the value does; None for other functions."""
    settles: Callable[[float], float] | None = None
    """A function that returns, for a unit roundoff, the magnitude of arguments from which on every kernel returns the
    value at infinity: the exact value is too close to that limit for any number of the dtype between them. None: there
    is no such magnitude, or kernels differ."""
    constant: float = 0.0
    low: float = 0.0
    """The low part of the constant: the constant of the family is `constant` + `low`."""
    strays: Callable[[F64, F64, float], F64] | None = None
    """The function of (low, high, off) that returns the largest relative change of values between two arguments if the
    constant changes by `off`, which kernels may round. None without a constant."""

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
            "apart": self.singular is None or self.apart is None,
            "strays": (self.strays is not None) == bool(self.constant),
        }
        wrong = [name for name, right in told.items() if not right]
        if wrong:
            raise ValueError(f"elementary function {self.name}: {', '.join(wrong)}: the fields contradict each other")

    def _is_of_parity(self, factor: float) -> bool:
        below, above = self.limits[0][1], self.limits[3][1]
        return below is None or above is None or repr(below) == repr(factor * above) or math.isnan(above)

    def of(self, constant: float, low: float) -> Elementary:
        """Return the record itself. Raises FormulaError for a constant, since the function has none."""
        if constant or low:
            raise FormulaError(f"{self.name} has no constant: write f.{self.name}(value)")
        return self

    @property
    def is_bounded(self) -> bool:
        return not self.is_exact and self.reach(LEAST_BINADE, SINGLE_BINADES)[1] <= 1

    @property
    def is_never_negative(self) -> bool:
        """Whether no result is less than zero, except that the value at -0 may be -inf."""
        return self.sign == "positive" or (self.sign == "argument" and self.domain >= 0.0)

    @property
    def keeps_zeros(self) -> bool:
        """Whether the value at 0 is 0 and that at -0 is -0."""
        return repr(self.at(-0.0)) == "-0.0"

    def at(self, argument: float) -> float | None:
        """Return the value at an argument in `limits`. Raises KeyError for other arguments."""
        return self._values[repr(argument)]

    @lazy
    def _values(self) -> dict[str, float | None]:
        return {repr(argument): value for argument, value in self.limits}

    def exactly(self, value: mpf) -> mpf:
        """Return the value at mpmath's working precision, also at special arguments. A zero argument counts as +0."""
        if value and mpmath.isfinite(value) and self.domain < value < self.top:
            return self.precise(value)
        limit = self._values.get(repr(float(value)) if value in self._ends else "", math.nan)
        if limit is None or not math.isfinite(limit) or limit.is_integer():
            return mpf(math.nan if limit is None else limit)
        return self.precise(value)  # the limit is only its rounding

    @lazy
    def _ends(self) -> tuple[float, ...]:
        """Return the arguments of `limits` without NaN, which no comparison finds."""
        return tuple(argument for argument, _ in self.limits if not math.isnan(argument))

    def undecided(self, x: F64) -> NDArray[np.bool_] | None:
        """Return the mask of the arguments at which kernels differ, see `limits`; None if there are none."""
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
        """Return the tangent at x for a radius around x. `value` is the function's value at x. All arrays broadcast."""
        assert self.tangent is not None
        slope, remainder = self.tangent(x, value, radius)
        none = radius == 0
        return Tangent(np.where(none & ~np.isfinite(slope), 0.0, slope), np.where(none, 0.0, remainder))

    def hull(self, low: F64, high: F64, value: F64) -> F64:
        """Return the largest distance from a value to the function's values between two arguments, or inf for a NaN."""
        if self.farthest is not None:
            return self.farthest(low, high, value)
        ends = [np.abs(self.float64.value(end) - value) for end in (low, high)]
        return np.where(np.isnan(ends[0]) | np.isnan(ends[1]), np.inf, np.maximum(*ends))

    def share(self, x: F64, radius: F64) -> F64:
        """Return errors of arguments relative to the distance from a singular point; unchanged if there is none."""
        if self.apart is not None:
            return radius / self.apart(x)
        return radius if self.singular is None else radius / np.abs(x - self.singular)

    def meets(self, low: F64, high: F64) -> NDArray[np.bool_]:
        """Return the mask where a singular point lies between arguments, or above `low` if the domain ends there."""
        if self.apart is not None:
            return ~np.asarray(self.apart((low + high) / 2) > (high - low) * (0.5 + DUST)) & ~self.misses(low, high)
        if self.singular is None:
            return np.zeros(np.shape(low), bool)
        below = np.asarray(low <= self.singular) & ~self.misses(low, high)
        return below if self.domain == self.singular else below & (high >= self.singular)

    def misses(self, low: F64, high: F64) -> NDArray[np.bool_]:
        """Return the mask where all arguments between two lie outside the domain, so that every kernel has NaN."""
        slack = (high - low) * 2.0**-12
        return np.asarray(high + slack < self.domain) | np.asarray(low - slack > self.top)


@dataclass(frozen=True, kw_only=True, eq=False)
class OfTwo(Named):
    """A function of two values. `oracles.formula.pairs` has the expression that it is."""

    examples: tuple[float, ...] = ()

    def of(self, constant: float, low: float) -> Elementary:
        """Raise FormulaError, as there is no function of one value."""
        raise FormulaError(f"{self.name} takes two values: write f.{self.name}(value, other)")
