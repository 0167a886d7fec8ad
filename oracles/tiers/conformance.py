"""Conformance: the allowed outputs of a formula, as enclosures of all elements in float64, and as bounds of single
elements in mpmath.

The two tiers calculate the centre separately. The half-width around it is the same number in both, from
`oracles.formula.affine.budget`; the fast tier subtracts from it, or adds to it, the bound of its own centre's error.
For kernels in float64 the fast tier's centre is double-double.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import F64, DoubleDouble, Real, head
from oracles.dtypes import DTYPES, Format, Integer, judged
from oracles.enclosure import ALLOWED, FORBIDDEN, MINUS, PLUS, REQUIRED, Enclosure, Flags, Mask
from oracles.formula.affine import edges
from oracles.formula.affine.edges import Ends
from oracles.formula.affine.outcomes import NAN
from oracles.formula.affine.signs import Signs
from oracles.formula.trace import Node
from oracles.lazy import lazy
from oracles.precise import Bounds
from oracles.rounding import round_to
from oracles.tiers.values import OutputValues, dependent


@dataclass(frozen=True, eq=False)
class Conformance(OutputValues):
    """The allowed outputs of a formula under one contract."""

    def enclosure(self, output: str, *, alone: bool = False) -> Enclosure:
        """Return the conformance sets of all elements of an output, in its shape. With `alone` they are those of the
        precise tier, except that the exact values are float64's: both tiers then use the same forms."""
        key = self.inputs.trace.outputs[output], self.outputs[output], self.axes(output), alone
        if key not in self._enclosures:
            with np.errstate(all="ignore"):
                self._enclosures[key] = self._enclosure(output, judged(self.outputs[output]), alone)
        return self._enclosures[key]

    @lazy
    def _enclosures(self) -> dict[tuple[Node, str, frozenset[str], bool], Enclosure]:
        """Return a cache of enclosures, by node, dtype, dimensions and `alone`, since two outputs may be equal."""
        return {}

    def _enclosure(self, output: str, dtype: Format, alone: bool) -> Enclosure:
        if self.has_places(output):
            from oracles.tiers import places

            return places.enclosure_of(self, output, self._kept(output), dtype)
        # A row may have millions of elements: besides the results, only one array at a time is held in memory.
        other = edges.ends(self._kept(output))
        centre, width, own = self.centre(output), self.width(output), self.error(output, self.wide)
        if alone and not self.wide:
            own = np.fmin(own, self.shaped(output, self.budget.error(self.made(output))))
        ends, beyond = list[F64](), np.zeros(width.shape, bool)
        for side, sign in ((-1.0, 1.0), (-1.0, -1.0), (1.0, -1.0), (1.0, 1.0)):
            end = centre + side * np.maximum(width + sign * own, 0.0)
            beyond |= ~np.isfinite(head(end))
            ends.append(self._rounded(end, centre, dtype))
        may = zero = None
        if other is not None:
            self._replace(output, ends, other.outwards(0.0 if alone else edges.OWN), dtype)
            may, zero = (self.shaped(output, each) if each.any() else None for each in (other.nan, other.zero))
        del own, other, end
        nan = self._nan(centre, ends, dtype)
        if may is not None:  # NaN in the formula is required, others are allowed
            nan = np.where(may & ~np.isnan(head(centre)), ALLOWED, FORBIDDEN if nan is None else nan).astype(np.int8)
        unsure = self._unsure(output, ends, beyond, dtype, alone)
        if unsure is not None:
            ends[1], ends[2] = (np.where(unsure, np.nan, end) for end in ends[1:3])
        if self.sharp:  # only ends that no error of the centre changes are certain
            ends[1], ends[2] = (np.where(ends[0] == ends[3], end, np.nan) for end in ends[1:3])
        may_be_zero = zero is not None or ((ends[0] <= 0) & (ends[3] >= 0)).any()
        zeros = self._zeros(output) if may_be_zero else None
        found = Enclosure(
            dtype, centre, width, width, (ends[1], ends[2]), (ends[0], ends[3]), nan=nan, unsure=unsure,
            unjudged=self.unjudged(output), zero=zero, zeros=zeros, mirrored=self._mirrored(output),
        )  # fmt: skip
        closed, share = self._closed(output), 0.0 if alone else edges.OWN
        return found if closed is None else closed.enclosure(found, share)

    def _replace(self, output: str, ends: list[F64], others: Iterable[F64], dtype: Format) -> None:
        """Replace the ends of elements whose allowed values do not follow from centre and half-width. Ends are in
        order, the lowest first."""
        for place, end in enumerate(others):
            new = self._rounded(self.shaped(output, end), end, dtype)
            ends[place] = np.where(np.isnan(new), ends[place], new)

    def bounds(self, output: str, index: Sequence[int]) -> Bounds:
        """Return the bounds of one element, at mpmath's current working precision."""
        with np.errstate(all="ignore"):
            return self._bounds(output, tuple(index), judged(self.outputs[output]))

    def _bounds(self, output: str, at: tuple[int, ...], dtype: Format) -> Bounds:
        if self.has_places(output):
            from oracles.tiers import places

            return places.bounds_of(self, output, at, self._kept(output), dtype)
        quick, width = float(self.shaped(output, self._kept(output).centre)[at]), float(self.width(output)[at])
        marked, zeros = self.unjudged(output), self._zeros(output)
        if marked is not None and marked[at]:
            return unjudged_in(dtype)
        if (closed := self._closed(output)) is not None and closed.where[at]:
            return replace(closed.bounds(dtype, at, quick), integer=self._is_integer(output))
        if not math.isfinite(quick):  # overflow and NaN follow from float64
            nan = REQUIRED if math.isnan(quick) else FORBIDDEN
            mirrored = self._mirrored(output)
            either = mirrored is not None and bool(mirrored[at])
            return Bounds(dtype, quick, quick, quick, nan, saturate=self.contract.saturate, mirrored=either)
        exact, node = self.exactly(output)
        centre, width = exact.element(node, self.place(output, at)), mpmath.mpf(width)
        if mpmath.isnan(centre):  # every kernel has a pole at a number there: float64 has the result, 0
            centre = mpmath.mpf(quick)
        sign = 0 if zeros is None else int(zeros[at])
        found = Bounds(
            dtype, centre, centre - width, centre + width, saturate=self.contract.saturate, sign=sign,
            integer=self._is_integer(output), vanished=exact.vanished,
        )  # fmt: skip
        if self.contract.nonfinite == "overflow" and math.inf in map(abs, found.ends):
            found = replace(found, nan=ALLOWED)
        other = self._ends[output]
        if other is None:
            return found
        low, high, nan, zero = (
            self.shaped(output, each)[at] for each in (other.low, other.high, other.nan, other.zero)
        )
        return replace(
            found, low=found.low if np.isnan(low) else mpmath.mpf(float(low)),
            high=found.high if np.isnan(high) else mpmath.mpf(float(high)),
            nan=ALLOWED if nan else found.nan, zero=bool(zero),
        )  # fmt: skip

    def _rounded(self, values: Real, centre: Real, dtype: Format) -> F64:
        """Return values rounded to an output's dtype; where the centre is infinite or NaN, the centre itself."""
        found = round_to(values, dtype)
        if isinstance(values, DoubleDouble):
            found = np.where(np.isfinite(head(centre)), found, head(centre))
        return np.clip(found, -dtype.max, dtype.max) if self.contract.saturate else found

    @lazy
    def _ends(self) -> Mapping[str, Ends | None]:
        with np.errstate(all="ignore"):
            return {name: edges.ends(kept) for name, kept in self._forms.items()}

    def _nan(self, centre: Real, ends: Sequence[F64], dtype: Format) -> Flags | None:
        wrong, beyond = np.isnan(head(centre)), self._beyond(ends[0], ends[3], dtype)
        if not (wrong.any() or beyond.any()):
            return None
        return np.where(wrong, REQUIRED, np.where(beyond, ALLOWED, FORBIDDEN)).astype(np.int8)

    def _unsure(self, output: str, ends: Sequence[F64], beyond: Mask, dtype: Format, alone: bool) -> Mask | None:
        """Return the mask of elements that only the precise tier can decide: those where an overflow may leave NaN or
        the error of float64 decides a choice, and, for f64, those whose values leave the range of double-double."""
        found = self._beyond(ends[0], ends[3], dtype) != self._beyond(ends[1], ends[2], dtype)
        if self.wide and beyond.any():
            found = found | beyond & np.isfinite(self.shaped(output, self._kept(output).centre))
        if self.budget.read.doubts or (self.budget.read.guesses and not alone):
            doubts = self._doubts if alone else self._by_chance
            found = found | self.shaped(output, doubts[self.made(output)])
        return found if found.any() else None

    @lazy
    def _doubts(self) -> Mapping[Node, Mask]:
        return dependent(self.inputs, self.budget.read.doubts, self.budget.read.same)

    @lazy
    def _by_chance(self) -> Mapping[Node, Mask]:
        return dependent(self.inputs, self.budget.read.by_chance, self.budget.read.same)

    def _beyond(self, low: F64, high: F64, dtype: Format) -> Mask:
        """Return where an end overflows and may leave NaN: in a format without infinity, or if the contract says so."""
        if dtype.infinities and self.contract.nonfinite != "overflow":
            return np.zeros(low.shape, bool)
        return np.asarray(np.isinf(low) | np.isinf(high))

    def unjudged(self, output: str) -> Mask | None:
        """Return the mask of elements that the contract leaves unjudged; None if there are none."""
        if output not in self._marks:
            self._marks[output] = self._marked(output)
        return self._marks[output]

    @lazy
    def _marks(self) -> dict[str, Mask | None]:
        return {}

    def _marked(self, output: str) -> Mask | None:
        """Return the mask of elements that the contract leaves unjudged: their errors are unbounded, or an overflow on
        the way or in the last cast may change them."""
        kept, width = self._kept(output), self._widths[output]
        marked = np.isnan(width) | np.isinf(width)
        # Infinities in the formula itself count as numbers.
        if self.contract.nonfinite == "unspecified" and not self.contract.saturate:
            size = np.abs(self.shaped(output, kept.centre))
            marked = marked | (np.isfinite(size) & (size + width > judged(self.outputs[output]).max))
        if isinstance(integer := DTYPES[self.outputs[output]], Integer):  # casts of larger numbers are open
            centre = self.shaped(output, kept.centre)
            low, high = np.ceil(centre - width), np.floor(centre + width)  # exact values are whole
            marked = marked | ~((low >= integer.lowest) & (high <= min(integer.highest, 2**53)))
        if kept.may is not None:
            marked = marked | self.shaped(output, kept.may)
        if (mirrored := self._mirrored(output)) is not None:
            marked = marked & ~mirrored
        if not marked.any():
            return None
        with np.errstate(all="ignore"):
            self._outcomes[output] = closed = self._closed_at(output, marked)
        marked = marked if closed is None else marked & ~closed.where
        return marked if marked.any() else None

    def _closed(self, output: str) -> Closed | None:
        """Return the allowed values of elements that no form bounds but whose values are known, or None."""
        self.unjudged(output)
        return self._outcomes.get(output)

    def is_closed(self, output: str) -> bool:
        """Whether allowed values are known for some elements that no form bounds."""
        return self._closed(output) is not None

    @lazy
    def _outcomes(self) -> dict[str, Closed | None]:
        return {}

    def _closed_at(self, output: str, marked: Mask) -> Closed | None:
        """Return the allowed values of elements that no form bounds but whose values are known all the same, except
        where the error of float64 decides a choice."""
        outcome = self.budget.outcome(output, self.outputs[output])
        if outcome is None:
            return None
        low, high, others = (self.shaped(output, each) for each in (outcome.low, outcome.high, outcome.others))
        stored, limits = DTYPES[self.outputs[output]], judged(self.outputs[output]).max
        least, most = -limits, limits
        where = marked & ~((low <= -limits) & (high >= limits))
        if isinstance(stored, Integer):
            low, high = np.ceil(low), np.floor(high)
            least, most = stored.lowest, stored.highest
            where &= (low >= least) & (high <= most) & (others == 0) & ~((low <= least) & (high >= most))
        # Comparisons that float64 may get wrong are left out: outcomes include both their sides.
        by_chance = {
            node: each if (may := self.budget.forms[node].may) is None else each & ~may  # there no form is asked
            for node, each in self.budget.read.by_chance.items()
            if node.kind not in ("less", "at_most")
        }
        if by_chance:
            where &= ~self.shaped(output, dependent(self.inputs, by_chance)[self.made(output)])
        return Closed(where, low, high, others) if where.any() else None

    def _mirrored(self, output: str) -> Mask | None:
        """Return the mask of infinities that may have the other sign as well."""
        found = self.budget.read.mirrored.get(self.made(output))
        return None if found is None else self.shaped(output, found)

    def _zeros(self, output: str) -> Flags | None:
        if self.contract.zeros == "any" or self._is_integer(output):
            return None
        return self.shaped(output, self._signs[self.inputs.trace.outputs[output]])

    @lazy
    def _signs(self) -> Signs:
        return Signs(self.inputs, self.budget.forms, self.complete, self.budget.chains)


@dataclass(frozen=True, eq=False)
class Closed:
    """The allowed values of the elements in `where`, which no form bounds, see `oracles.formula.affine.outcomes`."""

    where: Mask
    low: F64
    high: F64
    others: NDArray[np.uint8]

    def __post_init__(self) -> None:
        """Set both ends to infinity where it is allowed, and otherwise to NaN, so that no number is allowed."""
        infinite = np.select([(self.others & PLUS) != 0, (self.others & MINUS) != 0], [np.inf, -np.inf], np.nan)
        for name in ("low", "high"):
            object.__setattr__(self, name, np.where(self.low <= self.high, getattr(self, name), infinite))

    @lazy
    def nan(self) -> Flags:
        """Return, for each element, whether NaN is `FORBIDDEN`, `ALLOWED` or `REQUIRED`."""
        may = np.where((self.others & NAN) != 0, ALLOWED, FORBIDDEN)
        return np.where(np.isnan(self.low), REQUIRED, may).astype(np.int8)

    def enclosure(self, own: Enclosure, share: float) -> Enclosure:
        """Return the enclosure `own` with the elements in `where` replaced by the values from `low` to `high`. These
        two ends have a relative error of at most `share`."""

        def without(values: Any, other: Any = 0) -> Any:
            return None if values is None else np.where(self.where, np.asarray(other, values.dtype), values)

        each = [(end, np.where(np.isinf(end), 0.0, np.abs(end) * share)) for end in (self.low, self.high)]
        low, high = ([round_to(end + side * moved, own.form) for side in (-1, 1)] for end, moved in each)
        inner, outer = (low[1], high[0]), (low[0], high[1])
        inner, outer = (
            (np.where(self.where, new[0], old[0]), np.where(self.where, new[1], old[1]))
            for new, old in ((inner, own.inner), (outer, own.outer))
        )
        width, others = np.where(self.where, np.inf, own.below), self.others & (PLUS | MINUS)
        no = np.zeros(self.where.shape, np.int8)
        nan = np.where(self.where, self.nan, no if own.nan is None else own.nan)
        return replace(
            own, below=width, above=width, inner=inner, outer=outer, nan=nan, zeros=without(own.zeros),
            zero=without(own.zero), unsure=without(own.unsure), mirrored=without(own.mirrored),
            infinities=np.where(self.where, others, no).astype(np.int8),
        )  # fmt: skip

    def bounds(self, dtype: Format, at: tuple[int, ...], centre: float) -> Bounds:
        """Return the bounds of one element."""
        low, high = (mpmath.mpf(float(end[at])) for end in (self.low, self.high))
        infinities = int(self.others[at]) & (PLUS | MINUS)
        return Bounds(dtype, mpmath.mpf(centre), low, high, int(self.nan[at]), infinities=infinities)


def unjudged_in(dtype: Format) -> Bounds:
    """Return the bounds of an element that the contract leaves open."""
    return Bounds(dtype, mpmath.mpf(0), -mpmath.inf, mpmath.inf, ALLOWED)
