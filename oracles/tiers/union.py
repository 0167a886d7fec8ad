"""Unions: the allowed outputs if a kernel may have any of several algorithms. An element conforms if it conforms to one
of them.

A rounding that all kernels of one dtype share is part of an algorithm's evaluation, but a kernel need not make it: a
kernel that calculates in more bits returns the exact value, rounded once. That value is allowed too, and is only
computed if nothing else allows an output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import mpmath
import numpy as np

from oracles.doubledouble import F64, Real, either, head
from oracles.enclosure import ALLOWED, Enclosure, Flags, Mask, Worst, at_some, compare
from oracles.lazy import lazy
from oracles.precise import Bounds
from oracles.tiers.conformance import Conformance
from oracles.tiers.overflow import Way

_REPRESENTED = 2.0**-52
"""The relative precision with which the fast tier holds a number."""


@dataclass(frozen=True, eq=False)
class Union:
    """The allowed outputs under one contract, as conformances to each algorithm that it allows."""

    members: Sequence[Conformance]
    unrounded: Callable[[], Sequence[Conformance]]
    """A function that returns the allowed outputs of kernels that calculate in float64 and round only at the end and at
    points where every kernel rounds: conformances to the op's own formula, to the exact value rounded once, or to both;
    () if the contract allows no such kernel."""

    @lazy
    def _ways(self) -> Sequence[Way]:
        return [Way(each) for each in self.members]

    @lazy
    def _unrounded(self) -> Sequence[Way]:
        return [Way(each) for each in self.unrounded()]

    def rounds(self, output: str) -> bool:
        """Whether an algorithm rounds a value on the way to an output that kernels with more bits need not round."""
        return any(each.rounds(output) for each in self.members) and bool(self._unrounded)

    def enclosure(self, output: str) -> Enclosure:
        """Return the conformance sets of all elements of an output, in its shape."""
        return joined(way.enclosure(output) for way in self._ways)

    def first(self, output: str) -> Enclosure:
        """Return the conformance sets of the first algorithm alone."""
        return self._ways[0].enclosure(output)

    def once(self, output: str) -> Enclosure:
        """Return the conformance sets of kernels in many bits, which return the exact value, rounded once."""
        return joined(self._once(output))

    def decided(self, output: str, got: F64) -> tuple[Mask, Mask]:
        """Return two masks of elements: those that certainly conform, and those that certainly fail, by `bounds` with
        `once`. Both use the same forms."""
        each = [*self._once(output, alone=True)] if self.rounds(output) else []
        each += [way.enclosure(output, alone=True) for way in self._ways]
        found = [compare(one, got) for one in (joined(each), *each)]
        # An element that conforms by one algorithm does so even if another one is unsure.
        return ~np.logical_and.reduce([one.failing | one.unsure for one in found]), found[0].failing

    def _once(self, output: str, *, alone: bool = False) -> Iterator[Enclosure]:
        for way in self._unrounded:
            found, nothing = way.enclosure(output, alone=alone), self._says_nothing(way, output)
            yield found if nothing is None else at_some(~nothing, found)

    def _says_nothing(self, way: Way, output: str) -> Mask | None:
        """Return the mask of elements for which `unrounded` allows any value, since their exact value is no number."""
        found, others = way.enclosure(output), len(self._unrounded) > 1
        if found.unjudged is None or (others and way.own.sharp):  # the other conformance says more
            return found.unjudged
        return found.unjudged & ~np.isfinite(head(found.centre))

    def bounds(self, output: str, index: Sequence[int], *, once: bool = False) -> Bounds:
        """Return the bounds of one element, at mpmath's current working precision. With `once` the exact value, rounded
        once, conforms too, and becomes the `centre` of the bounds."""
        ways = [*self._ways]
        for way in reversed(self._unrounded if once and self.rounds(output) else ()):
            nothing = self._says_nothing(way, output)
            ways = ways if nothing is not None and nothing[tuple(index)] else [way, *ways]
        return reduce(_joined_bounds, (each.bounds(output, index) for each in ways))

    def contradiction(self, output: str, index: Sequence[int], worst: Worst, bounds: Bounds) -> str:
        """Return text about a contradiction between both tiers' centres and half-widths of an element, or ""."""
        if bounds.members is not None:  # several places may be right
            return ""
        spelled = worst.width is None and bounds.beside is not None  # the formula with its overflow
        bounds = bounds.beside if spelled and bounds.beside else bounds
        if worst.centre is None or not (_is_finite(bounds.centre) and _is_finite(bounds.high)):
            return ""
        members = [way.own if spelled else way.of(output, index) for way in self._ways]
        with np.errstate(all="ignore"):
            # An output that is the exact value, rounded once, has a centre in float64, and no half-width.
            doubled = worst.width is not None
            errors = (each.error(output, each.wide and doubled) for each in members)
            own = max(float(each[tuple(index)]) for each in errors)
            # The bounds do not tell the width: each algorithm that rounds on the way has a centre of its own.
            width = float(np.fmax.reduce([each.width(output)[tuple(index)] for each in members]))
        if worst.width == np.inf:  # any number
            return ""
        if abs(bounds.centre - worst.centre) <= own + _REPRESENTED * abs(worst.centre) and (
            worst.width is None or abs(width - worst.width) <= own + _REPRESENTED * width
        ):
            return ""
        return (
            f"exact value and half-width are {worst.centre!r} and {worst.width!r} in the fast tier, "
            f"{mpmath.nstr(bounds.centre, 20)} and {mpmath.nstr(width, 20)} in the precise one"
        )

    def wild(self, output: str) -> Mask:
        """Return the mask of elements for which a kernel may overflow on the way, by any of the algorithms."""
        found: Mask = np.logical_or.reduce([way.wild(output) for way in self._ways])
        return found

    def widest(self, output: str, index: Sequence[int]) -> Conformance:
        """Return the conformance with the largest half-width of an element."""
        members = [way.of(output, index) for way in self._ways]
        return max(members, key=lambda each: float(each.width(output)[tuple(index)]))


def joined(each: Iterable[Enclosure]) -> Enclosure:
    """Return the enclosure of the values that any of these enclosures allows."""
    found = reduce(_joined, each)
    if found.zeros is None:
        return found
    possible = (found.outer[0] <= 0) & (found.outer[1] >= 0)
    if found.zero is not None:
        possible = possible | found.zero
    return replace(found, zeros=np.where(possible, found.zeros, 0).astype(np.int8))


def _joined(a: Enclosure, b: Enclosure) -> Enclosure:
    width = np.fmax(a.below, b.below)
    return replace(
        a,
        centre=_finite(a.centre, b.centre),
        below=width,
        above=width,
        inner=(np.fmin(a.inner[0], b.inner[0]), np.fmax(a.inner[1], b.inner[1])),
        outer=(np.fmin(a.outer[0], b.outer[0]), np.fmax(a.outer[1], b.outer[1])),
        nan=_nan(a.nan, b.nan),
        unjudged=_any(a.unjudged, b.unjudged),
        unsure=_any(a.unsure, b.unsure),
        zero=_any(a.zero, b.zero),
        mirrored=_any(a.mirrored, b.mirrored),
        infinities=_any(a.infinities, b.infinities),
        places=(*a.places, *b.places),
        zeros=_zeros(a.zeros, b.zeros),
        beside=_joined(a.beside, b.beside) if a.beside and b.beside else a.beside or b.beside,
    )


def _finite(a: Real, b: Real) -> Real:
    """Return the centre of the first algorithm where it is finite, else that of the second."""
    return either(np.isfinite(head(a)), a, b)


def _nan(a: Flags | None, b: Flags | None) -> Flags | None:
    if a is None and b is None:
        return None
    one, two = (np.zeros(1, np.int8) if each is None else each for each in (a, b))
    return np.where(one == two, one, ALLOWED).astype(np.int8)


def _zeros(a: Flags | None, b: Flags | None) -> Flags | None:
    """Return the signs that zeros must have under both algorithms; 0 where they differ. If one is None, the other's."""
    if a is None or b is None:
        return b if a is None else a
    return np.where(a == b, a, 0).astype(np.int8)


def _any(a: Any, b: Any) -> Any:
    return (b if a is None else a) if a is None or b is None else a | b


def _joined_bounds(a: Bounds, b: Bounds) -> Bounds:
    centre = a.centre if mpmath.isfinite(a.centre) else b.centre
    low, high = (
        choose([end for end in ends if not mpmath.isnan(end)] or [mpmath.nan])
        for choose, ends in ((min, (a.low, b.low)), (max, (a.high, b.high)))
    )
    nan = a.nan if a.nan == b.nan else ALLOWED
    sign = a.sign if a.sign == b.sign else 0
    return replace(
        a,
        centre=centre,
        low=low,
        high=high,
        nan=nan,
        sign=sign,
        zero=a.zero or b.zero,
        saturate=a.saturate and b.saturate,  # an element that is left open may be infinite
        mirrored=a.mirrored or b.mirrored,
        infinities=a.infinities | b.infinities,
        vanished=a.vanished or b.vanished,
        beside=_joined_bounds(a.beside, b.beside) if a.beside and b.beside else a.beside or b.beside,
        members=None if a.members is None or b.members is None else tuple(sorted({*a.members, *b.members})),
    )


def _is_finite(value: mpmath.mpf) -> bool:
    return bool(mpmath.isfinite(value))
