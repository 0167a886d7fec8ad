"""The conformance set of every element of one output, from the fast tier, and its comparison with a kernel's values.

A conformance set is the closed interval of output values between the roundings of the two ends of the real interval
that the declaration allows before its last rounding point. The fast tier calculates the ends with an error, so that it
has two bounds for each end: `inner` ends lie inside the true ends, `outer` ends outside (they are nearly always equal).
A value within the inner ends passes, a value outside the outer ends fails, and the precise tier decides about a value
between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import F64, Real, either, end_to_end, head
from oracles.dtypes import Dtype, Format, Integer
from oracles.ranks import Ranks
from oracles.rounding import half_gap, half_gap_of

FORBIDDEN, ALLOWED, REQUIRED = 0, 1, 2
"""Whether an element may be NaN."""
PLUS, MINUS = 1, 2
"""Bits for the infinities that an element may have in addition to numbers."""

ABOVE_ONE = float(np.nextafter(1.0, 2.0))

Mask = NDArray[np.bool_]
Flags = NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class PlaceSet:
    """The allowed places in an output of places. `shape` has an axis for each dimension of the formula."""

    ranks: Ranks
    shape: tuple[int, ...]

    def exist(self, got: F64) -> Mask:
        """Return where `got` is a whole number from 0 to the last place."""
        return self.ranks.exist(got.reshape(self.shape)).reshape(got.shape)

    def compared(self, got: F64) -> tuple[Mask, Mask, Mask]:
        """Return masks: where places certainly conform, where they may conform, and where a place occurs again."""
        full = got.reshape(self.shape)
        found = (*self.ranks.allowed(full), self.ranks.repeated(full))
        return found[0].reshape(got.shape), found[1].reshape(got.shape), found[2].reshape(got.shape)


@dataclass(frozen=True)
class Enclosure:
    """Conformance sets of one output. All arrays have the canonical shape: one axis for each dimension of the
    formula."""

    form: Format
    centre: Real
    """The value of the formula with only the prescribed roundings: exact, if only the last step rounds."""
    below: F64
    above: F64
    """`below` and `above` are the distances from the centre to the ends of the real interval, before the last
    rounding."""
    inner: tuple[F64, F64]
    outer: tuple[F64, F64]
    nan: Flags | None = None
    """Whether NaN is `FORBIDDEN`, `ALLOWED` or `REQUIRED`, for each element; None if no element may be NaN."""
    zero: Mask | None = None
    """Mask of the elements that may also be zero; None if there are no such elements."""
    unjudged: Mask | None = None
    """Mask of the elements that the contract leaves open, so that any value conforms; None if there are none."""
    unsure: Mask | None = None
    """Mask of the elements that only the precise tier can decide; their inner ends are NaN. None if there are none."""
    zeros: Flags | None = None
    """The sign that a zero must have at each element, 1 or -1, or 0 for any sign; None for any sign everywhere."""
    mirrored: Mask | None = None
    """Mask of the elements whose infinity may also have the other sign; None if there are none."""
    places: tuple[PlaceSet, ...] = ()
    """For an output of places, the allowed places under each algorithm; then the ends have no meaning. Other outputs
    have ()."""
    infinities: Flags | None = None
    """Bits `PLUS` and `MINUS` for infinities that conform in addition to the numbers between the ends, or None."""
    beside: Enclosure | None = None
    """Further allowed values of elements whose formula overflows on the way to a number; its ends are NaN for all other
    elements. None if there are no such elements."""

    def shares(self) -> list[float]:
        """Return, for each judged nonzero element, the smallest relative error that is detected: half of the allowed
        interval plus half of the dtype's spacing."""
        centre = head(self.centre)
        low, high = self.outer
        with np.errstate(all="ignore"):
            share = ((high - low) / 2 + half_gap(centre, self.form, centre < 0)) / np.abs(centre)
        judged = np.isfinite(share) & (centre != 0)
        if self.unjudged is not None:
            judged &= ~self.unjudged
        each: list[float] = share[judged].tolist()
        return each

    def anything(self, dtype: Dtype) -> Mask:
        """Return the mask of elements at which any number of the output's dtype conforms, by the fast tier alone."""
        (low, high), least, most = self.outer, -self.form.max, self.form.max
        if isinstance(dtype, Integer):
            least, most = dtype.lowest, dtype.highest
        found = (low <= least) & (high >= most) & (not self.places)
        found = found if self.unsure is None else found & ~self.unsure
        found = found if self.unjudged is None or self.places else found | self.unjudged
        return np.asarray(found if self.beside is None else found | self.beside.anything(dtype))

    def excused(self, dtype: Dtype) -> Mask:
        """Return the mask of the elements that may be NaN or infinite as well as numbers, but not every number."""
        low, high = self.outer
        found = (low <= high) & ((low > -np.inf) & (high < np.inf))
        wild = np.zeros(found.shape, bool) if self.nan is None else self.nan == ALLOWED
        wild = wild if self.infinities is None else wild | (self.infinities != 0)
        beside = self.beside
        if beside is not None:
            wild = wild | np.isinf(beside.outer[0]) | np.isinf(beside.outer[1])
            wild = wild if beside.nan is None else wild | (beside.nan != FORBIDDEN)
        return found & wild & ~self.anything(dtype)

    def hull(self) -> tuple[F64, F64]:
        """Return the least and the greatest value that may conform at each element; NaN where only NaN conforms. Not
        all values between them conform if an element may be a number or infinite, for example."""
        low, high = (np.array(each) for each in self.outer)
        if self.zero is not None:
            low, high = np.where(self.zero, np.fmin(low, 0.0), low), np.where(self.zero, np.fmax(high, 0.0), high)
        if self.mirrored is not None:
            size = np.fmax(np.abs(low), np.abs(high))
            low, high = np.where(self.mirrored, -size, low), np.where(self.mirrored, size, high)
        if self.infinities is not None:
            low = np.where(self.infinities & MINUS, -np.inf, low)
            high = np.where(self.infinities & PLUS, np.inf, high)
        if self.beside is not None:
            others = self.beside.hull()
            low, high = np.fmin(low, others[0]), np.fmax(high, others[1])
        return low, high

    def may_be_nan(self) -> Mask:
        """Return where NaN conforms; also where the outer ends are NaN and `nan` is None."""
        found = np.isnan(self.outer[0]) if self.nan is None else self.nan != FORBIDDEN
        found = found if self.form.infinities else found | np.isinf(self.outer[0]) | np.isinf(self.outer[1])
        return np.asarray(found if self.beside is None else found | self.beside.may_be_nan())

    def is_infinite(self, got: F64) -> Mask | bool:
        """Return where `got` is an infinity that is allowed in addition to numbers."""
        if self.infinities is None:
            return False
        above, below = (self.infinities & PLUS) != 0, (self.infinities & MINUS) != 0
        return np.asarray(((got == np.inf) & above) | ((got == -np.inf) & below))

    def wrong_zeros(self, got: F64) -> Mask | None:
        """Return the mask of zeros in `got` with a wrong sign, or None if every sign is right."""
        if self.zeros is None or not (zero := got == 0).any():  # `got.all()` would warn about signaling NaN
            return None
        wrong = zero & (self.zeros != 0) & (np.signbit(got) != (self.zeros < 0))
        return wrong if wrong.any() else None


def concatenated(parts: Sequence[Enclosure]) -> Enclosure:
    """Return the enclosures of parts of an output, joined along their first axis."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]

    def joined(name: str) -> Any:
        """Return masks or flags joined; a part without an array counts as zeros."""
        values = [getattr(part, name) for part in parts]
        if all(value is None for value in values):
            return None
        dtype = next(value.dtype for value in values if value is not None)
        shapes = [part.below.shape for part in parts]
        return np.concatenate(
            [np.zeros(shape, dtype) if value is None else value for value, shape in zip(values, shapes, strict=True)]
        )

    below = np.concatenate([part.below for part in parts])
    ends = (
        [np.concatenate([getattr(part, end)[side] for part in parts]) for side in (0, 1)] for end in ("inner", "outer")
    )
    inner, outer = ((low, high) for low, high in ends)
    return Enclosure(
        first.form, end_to_end([part.centre for part in parts]), below, below, inner, outer, nan=joined("nan"),
        unjudged=joined("unjudged"), unsure=joined("unsure"), zeros=joined("zeros"), zero=joined("zero"),
        mirrored=joined("mirrored"), infinities=joined("infinities"), beside=_besides(parts),
    )  # fmt: skip


def _besides(parts: Sequence[Enclosure]) -> Enclosure | None:
    """Return the `beside` of the joined parts; None if no part has one."""
    if all(part.beside is None for part in parts):
        return None
    nowhere = (replace(part, beside=None) for part in parts)
    return concatenated(
        [
            part.beside if part.beside is not None else at_some(np.zeros(part.below.shape, bool), own)
            for part, own in zip(parts, nowhere, strict=True)
        ]
    )


def at_some(mask: Mask, enclosure: Enclosure) -> Enclosure:
    """Return the enclosure with ends of NaN outside of the mask, so that no value conforms there."""

    def ends(pair: tuple[F64, F64]) -> tuple[F64, F64]:
        return np.where(mask, pair[0], np.nan), np.where(mask, pair[1], np.nan)

    def kept(flags: Any) -> Any:
        return None if flags is None else np.where(mask, flags, np.zeros((), flags.dtype))

    return replace(
        enclosure, inner=ends(enclosure.inner), outer=ends(enclosure.outer), nan=kept(enclosure.nan),
        zero=kept(enclosure.zero), unjudged=kept(enclosure.unjudged), unsure=kept(enclosure.unsure),
        mirrored=kept(enclosure.mirrored), infinities=kept(enclosure.infinities),
    )  # fmt: skip


def preferred(mask: Mask, first: Enclosure, own: Enclosure) -> Enclosure:
    """Return an enclosure that is `first` where the mask is set, with `own` as its `beside`, and `own` elsewhere."""

    def chosen(a: Any, b: Any) -> Any:
        if a is None and b is None:
            return None
        dtype = (b if a is None else a).dtype
        return np.where(mask, np.zeros((), dtype) if a is None else a, np.zeros((), dtype) if b is None else b)

    def ends(a: tuple[F64, F64], b: tuple[F64, F64]) -> tuple[F64, F64]:
        return np.where(mask, a[0], b[0]), np.where(mask, a[1], b[1])

    width = np.where(mask, first.below, own.below)
    return Enclosure(
        own.form, either(mask, first.centre, own.centre), width, width, ends(first.inner, own.inner),
        ends(first.outer, own.outer), nan=chosen(first.nan, own.nan), zero=chosen(first.zero, own.zero),
        unjudged=chosen(first.unjudged, own.unjudged), unsure=chosen(first.unsure, own.unsure),
        zeros=chosen(first.zeros, own.zeros), mirrored=chosen(first.mirrored, own.mirrored),
        infinities=chosen(first.infinities, own.infinities),
        beside=at_some(mask, own),
    )  # fmt: skip


@dataclass(frozen=True)
class OutputComparison:
    """The fast tier's verdict on each element. No element is both `unsure` and `failing`."""

    failing: Mask
    unsure: Mask
    ratio: F64
    """The err/budget: above 1 exactly for failures; infinite for a NaN or infinity in the wrong place."""
    repeated: Mask | None = None
    """Mask of failures that are wrong only because the same place occurs at a lower rank; None if there are none."""


@dataclass(frozen=True)
class Worst:
    """The element of a passing output with the largest err/budget."""

    flat: int
    """The flat index into the output in canonical shape, which has one axis for each dimension of the formula."""
    ratio: float
    blunt: bool
    """Whether the element's err/budget means nothing, see `is_blunt`."""
    centre: float | None = field(default=None, compare=False)
    width: float | None = field(default=None, compare=False)
    """The fast tier's centre, and its distance to the lower end, with which the precise tier must agree, or None."""


def passes(enclosure: Enclosure, got: F64) -> bool:
    """Whether every element certainly conforms, by a short check for the usual case. False decides nothing."""
    if enclosure.places:
        found = compare(enclosure, got)
        return not (found.failing.any() or found.unsure.any())
    low, high = enclosure.inner
    return bool(((got >= low) & (got <= high)).all()) and enclosure.wrong_zeros(got) is None


def compare(enclosure: Enclosure, got: F64) -> OutputComparison:
    """Return the verdict on every element of `got` (float64, canonical shape)."""
    if enclosure.places:
        return _compared_places(enclosure, got)
    found = _compared(enclosure, got)
    return found if enclosure.beside is None else _either(found, _compared(enclosure.beside, got))


def _either(a: OutputComparison, b: OutputComparison) -> OutputComparison:
    """Return the joint comparison of an enclosure and its `beside`: an element fails if it fails in both."""
    certain = ~(a.failing | a.unsure) | ~(b.failing | b.unsure)
    failing = a.failing & b.failing
    ratio = np.where(a.failing == b.failing, np.minimum(a.ratio, b.ratio), np.where(a.failing, b.ratio, a.ratio))
    return OutputComparison(failing, ~certain & ~failing, ratio)


def _compared(enclosure: Enclosure, got: F64) -> OutputComparison:
    inside = (got >= enclosure.inner[0]) & (got <= enclosure.inner[1])
    possible = (got >= enclosure.outer[0]) & (got <= enclosure.outer[1])
    if enclosure.zero is not None:
        inside |= enclosure.zero & (got == 0)
    if enclosure.mirrored is not None:
        inside |= enclosure.mirrored & (-got >= enclosure.inner[0]) & (-got <= enclosure.inner[1])
    inside |= enclosure.is_infinite(got)
    wrong = enclosure.wrong_zeros(got)
    if wrong is not None:
        inside &= ~wrong
        possible &= ~wrong
    if enclosure.nan is not None:
        inside = np.where(np.isnan(got), enclosure.nan != FORBIDDEN, inside & (enclosure.nan != REQUIRED))
        possible &= enclosure.nan != REQUIRED
    if enclosure.unsure is not None:
        inside &= ~enclosure.unsure
        possible |= enclosure.unsure
    if enclosure.unjudged is not None:
        inside |= enclosure.unjudged
    failing = ~(inside | possible)
    return OutputComparison(failing, possible & ~inside, _ratios(enclosure, got, inside, failing))


def _compared_places(enclosure: Enclosure, got: F64) -> OutputComparison:
    judged = np.ones(got.shape, bool) if enclosure.unjudged is None else ~enclosure.unjudged
    # Kernels sort NaN in different ways. So where nothing is judged, any existing place conforms.
    inside = possible = ~judged & np.any([each.exist(got) for each in enclosure.places], axis=0)
    for each in enclosure.places:
        certain, maybe, again = each.compared(got)
        certain, maybe = certain & judged, maybe & judged
        inside, possible = inside | certain, possible | maybe
    again = again & judged & possible
    failing = ~possible | again
    ratio = np.where(failing, np.inf, 0.0)
    return OutputComparison(failing, possible & ~inside & ~failing, ratio, again if again.any() else None)


def worst_pass(enclosure: Enclosure, got: F64) -> Worst:
    """Return the element with the largest err/budget of an output in which every element passes."""
    everywhere = np.ones(got.shape, bool)
    return worst_of(_ratios(enclosure, got, everywhere, ~everywhere), enclosure, got)


def worst_of(ratio: F64, enclosure: Enclosure, got: F64, part: slice = slice(None)) -> Worst:
    """Return the element with the largest err/budget in one part of an output, for which `ratio` holds it."""
    index = int(ratio.argmax())
    flat = index + (part.start or 0) * (got.size // len(got))
    centre, width = float(head(enclosure.centre).flat[flat]), float(enclosure.below.flat[flat])
    return Worst(index, float(ratio.flat[index]), is_blunt(enclosure, got, flat), centre, width)


def is_blunt(enclosure: Enclosure, got: F64, flat: int) -> bool:
    """Whether the last rounding of an element is larger than all errors that are allowed before it.

    Then its err/budget says nothing: it may be anything up to 1 for correct kernels too.
    """
    value = float(got.flat[flat])
    width = max(enclosure.below.flat[flat], enclosure.above.flat[flat])
    return not half_gap_of(value, enclosure.form) < width


def err_over_budget(enclosure: Enclosure, got: F64) -> F64:
    """Return, for each element, the least error that the value must have had before the last rounding, divided by the
    largest allowed error: 0 for correct rounding, and for elements that are not judged.

    It is (|got - centre| - half of got's rounding cell towards the centre) / width of the real interval on got's side.
    It is at most 1 exactly if the cell of `got` meets the interval, that is, if `got` conforms. On the edge of a cell
    (a tie) the parity of the last bit decides: callers adjust the result to the verdict.

    The last rounding is subtracted from the error, not added to the budget: in 16 bits it is a thousand times the rest,
    and every kernel, right or off by one bit, would have an err/budget between 1 and 2.
    """
    if enclosure.places:
        return np.zeros(got.shape)
    # Infinities and NaN are included: callers adjust their results to the verdict.
    with np.errstate(all="ignore"):
        error = head(got - enclosure.centre)
        upward = error < 0
        strayed = np.maximum(np.abs(error) - half_gap(got, enclosure.form, upward), 0.0)
        if not strayed.any():  # true of most outputs of 16 bits
            return strayed
        ratio: F64 = np.where(strayed == 0, 0.0, strayed / np.where(upward, enclosure.below, enclosure.above))
    return ratio if enclosure.unjudged is None else np.where(enclosure.unjudged, 0.0, ratio)


def _ratios(enclosure: Enclosure, got: F64, inside: Mask, failing: Mask) -> F64:
    ratio = err_over_budget(enclosure, got)
    # An infinity in its right place is at no distance from anything.
    ratio = np.where(np.isfinite(got) & ~np.isnan(ratio), ratio, np.where(inside, 0.0, np.inf))
    if (far := inside & (ratio > 1)).any():  # only the largest number conforms, in place of an overflow
        low, high = enclosure.inner
        ratio = np.where(far & (low == got) & (got == high), 0.0, ratio)
    if enclosure.zero is not None:
        # A zero is right where it is allowed, so that its distance from the centre is no error.
        ratio = np.where(inside & enclosure.zero & (got == 0), 0.0, ratio)
    return np.where(failing, np.maximum(ratio, ABOVE_ONE), np.minimum(ratio, 1.0))
