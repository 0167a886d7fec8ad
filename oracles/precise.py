"""The precise tier: the conformance set of single elements in mpmath, and whether a value is in it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mpmath
from mpmath import mpf

from oracles.dtypes import Format
from oracles.enclosure import ALLOWED, FORBIDDEN, MINUS, PLUS, REQUIRED
from oracles.lazy import lazy
from oracles.rounding import round_precise

START = 160
"""The bits of the first evaluation: twice the significand of f64 and some more. Each further one has twice as many."""
MOST = 16 * START
"""The bits of the last evaluation. 1 + e^-700 differs from 1 in bit 1010, which the last two evaluations see."""


@dataclass(frozen=True)
class Bounds:
    """The conformance set of one element: a real interval before the last rounding, and special values."""

    form: Format
    centre: mpf
    low: mpf
    high: mpf
    nan: int = FORBIDDEN
    zero: bool = False
    """Whether zero conforms in addition to the interval."""
    saturate: bool = False
    """Whether overflow in the last rounding becomes the largest finite number."""
    sign: int = 0
    """The sign that a zero must have, 1 or -1; 0 for any sign."""
    mirrored: bool = False
    """Whether an infinity may have the other sign as well."""
    infinities: int = 0
    """Bits `PLUS` and `MINUS` for infinities that conform in addition to the numbers between the ends."""
    integer: bool = False
    """Whether the element is an integer."""
    members: tuple[int, ...] | None = None
    """All right places, each of which may come once along the ranks. None: the element is no place, or may be any place
    between the ends."""
    vanished: bool = False
    """Whether an intermediate value became zero that may be another number with more bits, such as 1 + tanh(-160)."""
    beside: Bounds | None = None
    """Further values that conform, because the formula overflows on the way to a number; None if there are none."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """The special rules that apply to the element, in words."""
        required = "NaN is required" if self.beside is None else "NaN is right"
        rules = {ALLOWED: ("NaN is allowed",), REQUIRED: (required,), FORBIDDEN: ()}[self.nan]
        signs = {1: ("a zero must be +0",), -1: ("a zero must be -0",), 0: ()}[self.sign if not self.centre else 0]
        places = (f"any place of {_listed(self.members)}, each once",) if len(self.members or ()) > 1 else ()
        others = (("may also be 0",) if self.zero else ()) + (("of either sign",) if self.mirrored else ())
        others += tuple(f"{each} is allowed" for each in self._infinite)
        over = () if self.beside is None else (f"may also be {self.beside.words}: the formula overflows on the way",)
        return rules + signs + places + others + over

    @property
    def words(self) -> str:
        """The values that conform, in words."""
        low, high = self.ends
        found = [] if self.nan == REQUIRED else [f"{low:g}" if low == high else f"{low:g} to {high:g}"]
        found += [*self._infinite, *(["NaN"] if self.may_be_nan else [])]
        return " or ".join([*found, *(["0"] if self.zero else [])])

    @property
    def _infinite(self) -> tuple[str, ...]:
        return tuple(each for flag, each in ((PLUS, "inf"), (MINUS, "-inf")) if self.infinities & flag)

    @lazy
    def ends(self) -> tuple[float, float]:
        """Return the ends of the conformance set, as values of the output's dtype."""
        return self.rounded(self.low), self.rounded(self.high)

    @property
    def hull(self) -> tuple[float, float]:
        """The least and the greatest value that conforms; NaN if only NaN conforms."""
        low, high = (math.nan, math.nan) if self.nan == REQUIRED else self.ends
        if self.zero:
            low, high = min(low, 0.0), max(high, 0.0)
        if self.mirrored:
            low, high = min(low, -high), max(high, -low)
        low, high = -math.inf if self.infinities & MINUS else low, math.inf if self.infinities & PLUS else high
        if self.beside is None:
            return low, high
        ends = [each for each in (low, high, *self.beside.hull) if each == each]
        return (min(ends), max(ends)) if ends else (low, high)

    def rounded(self, value: mpf) -> float:
        """Return a real number rounded to the output's format. Without `saturate`, overflow becomes infinite, even if
        the format has no infinity."""
        found, limit = round_precise(value, self.form), self.form.max
        return min(max(found, -limit), limit) if self.saturate else found

    @property
    def may_be_nan(self) -> bool:
        """Whether NaN conforms, also as the result of overflow in a format without infinity."""
        return self.nan != FORBIDDEN or (not self.form.infinities and max(map(abs, self.ends)) == math.inf)

    @property
    def decision(self) -> tuple[object, ...]:
        """All values that a verdict depends on, which must be equal at two precisions."""
        beside = None if self.beside is None else self.beside.decision
        if self.nan == REQUIRED:  # the ends are NaN, and no number equals them
            return REQUIRED, beside
        return self.ends, self.nan, self.zero, self.sign, self.mirrored, self.infinities, self.members, beside


_LISTED = 6


def _listed(places: Sequence[int] | None) -> str:
    """Return places as text, at most `_LISTED` of them."""
    shown = [str(each) for each in places or ()]
    return ", ".join(shown if len(shown) <= _LISTED else [*shown[:_LISTED], f"{len(shown) - _LISTED} more"])


def conforms(bounds: Bounds, got: float) -> bool:
    """Whether `got`, a number of the output's dtype or NaN, conforms. The sign of a zero counts."""
    if bounds.beside is not None and conforms(bounds.beside, got):
        return True
    if got != got:
        return bounds.may_be_nan
    if bounds.nan == REQUIRED:
        return False
    if math.isinf(got) and bounds.infinities & (PLUS if got > 0 else MINUS):
        return True
    if bounds.members is not None:
        return got in bounds.members
    if not got and bounds.sign and (math.copysign(1.0, got) < 0) != (bounds.sign < 0):
        return False
    low, high = bounds.ends
    return low <= got <= high or (bounds.zero and got == 0) or (bounds.mirrored and low <= -got <= high)


def stable(evaluate: Callable[[], Bounds]) -> Bounds | None:
    """Return the bounds of an element once two precisions agree on the decision. `evaluate` is called at `START` bits,
    then at twice as many each time; near a tie many bits are needed. Return None if no two results agree up to `MOST`
    bits: the oracle gives up. If a value vanished at `START` bits, it may vanish at twice as many too, so that the next
    evaluation is at `MOST` bits."""
    before = _at(START, evaluate)
    vanished = before.vanished
    for precision in (MOST, *_BETWEEN) if vanished else (*_BETWEEN, MOST):
        found = _at(precision, evaluate)
        if found.decision == before.decision:
            return found
        if not vanished or precision == MOST:
            before = found
    return None


_BETWEEN = (2 * START, 4 * START, 8 * START)


def _at(precision: int, evaluate: Callable[[], Bounds]) -> Bounds:
    with mpmath.workprec(precision):
        return evaluate()
