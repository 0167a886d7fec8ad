"""Unions: the allowed outputs if a kernel may have any of several algorithms, or if a formula overflows on the way. An
element conforms if it conforms to one of them.

A rounding that all kernels of one dtype share is part of an algorithm's evaluation, but a kernel need not make it: a
kernel that calculates in more bits returns the exact value, rounded once. That value is allowed too, and is only
computed if nothing else allows an output.

A contract states how exactly a kernel calculates, not that it overflows. So the exact value is always right, and so is
the value of the formula as it is written. For the exact value the same formula is evaluated in formats without an end,
in which no operation overflows; a value that is rounded at a declared point has the range of its dtype. A kernel that
does not overflow may meet a pole instead, for example if a variance of two moments is zero or less. Then it may return
anything, and nothing is judged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import mpmath
import numpy as np

from oracles import doubledouble
from oracles.doubledouble import F64, DoubleDouble, Real, head
from oracles.enclosure import ALLOWED, FORBIDDEN, Enclosure, Flags, Mask, Worst, at_some, compare, preferred
from oracles.formula.affine.budget import Budget
from oracles.formula.affine.errors import either
from oracles.formula.affine.reduced import REDUCED
from oracles.formula.trace import Node
from oracles.lazy import lazy
from oracles.precise import Bounds
from oracles.rounding import round_to
from oracles.tiers.conformance import Conformance, unjudged_in
from oracles.tiers.values import dependent


@dataclass(frozen=True, eq=False)
class Way:
    """The allowed outputs for one algorithm."""

    own: Conformance
    """The conformance to the formula with its overflows."""

    def enclosure(self, output: str, *, alone: bool = False) -> Enclosure:
        """Return the conformance sets of all elements of an output, in its shape."""
        found, reached = self.own.enclosure(output, alone=alone), self._reached(output)
        return found if reached is None else preferred(reached, self._numbers(output, alone), found)

    def _numbers(self, output: str, alone: bool) -> Enclosure:
        """Return the enclosure without overflow."""
        exact, free = self.endless.enclosure(output, alone=alone), self._free(output)
        unknown = self._unknown(output)
        opened = self._open(output)
        unsure = (unknown if exact.unsure is None else unknown | exact.unsure & ~free) & ~opened
        most, ends = exact.form.max, (exact.inner, exact.outer)
        inner, outer = ((np.where(free, -most, low), np.where(free, most, high)) for low, high in ends)
        inner = np.where(unsure, np.nan, inner[0]), np.where(unsure, np.nan, inner[1])
        width, centre = np.where(free, np.inf, exact.below), exact.centre
        if isinstance(centre, DoubleDouble):
            centre = doubledouble.either(free, DoubleDouble(self._without(output)), centre)
        nan, zeros = (
            None if each is None else np.where(free, 0, each).astype(np.int8) for each in (exact.nan, exact.zeros)
        )
        return replace(
            exact, centre=centre, below=width, above=width, inner=inner, outer=outer, nan=nan, unjudged=opened,
            zeros=zeros, unsure=unsure,
        )  # fmt: skip

    def _free(self, output: str) -> Mask:
        """Return the mask of elements at which any number is right. The errors of such large values are unknown, since
        half-widths leave the range of float64."""
        unjudged, beyond = self.endless.unjudged(output), self._lost(output)
        if self.own.wide:
            beyond = beyond | _is_outside(self.endless.enclosure(output), self.endless.quick(output))
        return beyond if unjudged is None else beyond | unjudged

    def _lost(self, output: str) -> Mask:
        """Return the mask of elements for which float64 overflows on the way too, so that its result, such as 0 after a
        division, means nothing."""
        return self._left(output, self.endless.quick)

    @lazy
    def _overflown(self) -> Mapping[Node, Mask]:
        """Return, by node, the mask of elements that are calculated from a value that overflows in float64."""
        budget = self.endless.budget
        return dependent(budget.inputs, {node: _origin(budget, node) for node in budget.forms})

    def _open(self, output: str) -> Mask:
        """Return the mask of elements at which anything is allowed: errors reach a pole, or the output's dtype lacks
        the value without overflow."""
        rounded = round_to(self.endless.quick(output), self.own.enclosure(output).form)
        none, poles = ~np.isfinite(rounded) & ~self._lost(output), self._poles[self.endless.made(output)]
        found: Mask = self._free(output) & (none | self.endless.shaped(output, poles))
        return found

    @lazy
    def _poles(self) -> Mapping[Node, Mask]:
        """Return, by node, the mask of elements that depend on a pole which some kernels meet, with bounded errors."""
        budget = self.endless.budget
        return dependent(budget.inputs, {node: _met(budget, node) for node in budget.forms if node.args})

    def bounds(self, output: str, index: Sequence[int]) -> Bounds:
        """Return the bounds of one element, at mpmath's current working precision."""
        found, reached, at = self.own.bounds(output, index), self._reached(output), tuple(index)
        if reached is None or not reached[at]:
            return found
        if self._open(output)[at]:
            return unjudged_in(found.form)
        if not self._free(output)[at]:
            return replace(self.endless.bounds(output, at), beside=found)
        exact, node = self.endless.exactly(output)
        centre, most = exact.element(node, self.endless.place(output, at)), mpmath.mpf(found.form.max)
        quick = float(self.endless.quick(output)[at])
        if not mpmath.isfinite(centre) and math.isfinite(quick):  # the exact value is at a pole
            centre = mpmath.mpf(quick)
        number = Bounds(found.form, centre, -most, most, vanished=exact.vanished, beside=found)
        if math.isfinite(number.rounded(centre)):
            return number
        return found if mpmath.isnan(centre) else replace(number, low=centre, high=centre)

    def wild(self, output: str) -> Mask:
        """Return the mask of elements at which a kernel may overflow on the way, so that it calculates with another
        value than the one it stores."""
        budget = self.own.budget
        seeds = {node: _may_overflow(budget, node) for node in budget.forms}
        return self.own.shaped(output, dependent(budget.inputs, seeds)[self.own.made(output)])

    def of(self, output: str, index: Sequence[int]) -> Conformance:
        """Return the conformance, with or without overflow, that gives an element's exact value and half-width."""
        reached = self._reached(output)
        return self.own if reached is None or not reached[tuple(index)] else self.endless

    @lazy
    def endless(self) -> Conformance:
        """Return the conformance to the formula without overflow."""
        return replace(self.own, endless=True)

    @lazy
    def _overflows(self) -> bool:
        """Whether an operation overflows in all kernels."""
        return _overflows(self.own.budget)

    def _reached(self, output: str) -> Mask | None:
        """Return the mask of elements whose exact value the formula with its overflow forbids, or None."""
        if output not in self._found:
            self._found[output] = self._compared(output)
        return self._found[output]

    @lazy
    def _found(self) -> dict[str, Mask | None]:
        return {}

    def _compared(self, output: str) -> Mask | None:
        if self.own.contract.nonfinite != "ieee" or self.own.has_places(output):
            return None
        if not (self._overflows or self.own.is_closed(output)):  # else the exact value is allowed
            return None
        own, exact = self.own.enclosure(output), self._without(output)
        found = _is_outside(own, exact) | self._unknown(output)
        found = found if own.unjudged is None else found & ~own.unjudged
        return found if found.any() else None

    def _without(self, output: str) -> F64:
        """Return the formula's values without overflow, for kernels in float64 from extended double-double."""
        if self.own.wide:
            return self.endless.extended(output)
        low, high = self.endless.enclosure(output).outer  # next to a pole the centre may lie outside
        return np.fmin(np.fmax(self.endless.quick(output), low), high)

    def _unknown(self, output: str) -> Mask:
        """Return the mask of elements for which only mpmath can hold the intermediate values."""
        return self._left(output, self._without)

    def _left(self, output: str, values: Callable[[str], F64]) -> Mask:
        """Return the mask of elements that are calculated from a value that overflows in float64. For kernels in f32 it
        has only the elements at which these `values` are infinite or NaN."""
        overflown = self.endless.shaped(output, self._overflown[self.endless.made(output)])
        return overflown & ~np.isfinite(values(output)) if self.own.wide else overflown


def _is_outside(enclosure: Enclosure, values: F64) -> Mask:
    """Return where a value, rounded to the output's format, does not conform."""
    rounded = round_to(values, enclosure.form)
    inside = ((rounded >= enclosure.outer[0]) & (rounded <= enclosure.outer[1])) | enclosure.is_infinite(rounded)
    return ~inside if enclosure.nan is None else ~inside & ~(np.isnan(rounded) & (enclosure.nan != FORBIDDEN))


def _met(budget: Budget, node: Node) -> Mask:
    """Return where bounded errors of an argument reach a pole of an operation, or leave the domain of a function."""
    argument = budget.forms[node.args[-1]]
    if node.kind == "function":
        met = node.function.meets(argument.lowest, argument.centre + argument.spread)
    elif node.kind == "divide":
        met = (argument.lowest <= 0) & (argument.centre + argument.spread >= 0)
    else:
        return np.zeros((1,) * argument.centre.ndim, bool)
    return met & (argument.spread > 0) & np.isfinite(argument.size)


def _may_overflow(budget: Budget, node: Node) -> Mask:
    """Return the mask of elements at which an operation on numbers may give infinity or NaN without meeting a pole."""
    no = np.zeros((1,) * len(budget.inputs.trace.dims), bool)
    mask = either([budget.forms[node]])
    if mask is None or not node.args:
        return no
    before = either([budget.forms[arg] for arg in node.args])
    if before is not None and node.kind in REDUCED:
        before = np.logical_or.reduce(before, budget.inputs.axes(node), keepdims=True)
    found: Mask = mask & ~_met(budget, node)
    return found if before is None else found & ~before


def _overflows(budget: Budget) -> bool:
    """Whether some operation returns infinity or NaN although its arguments are numbers; poles do not count."""
    return any(bool(_origin(budget, node).any()) for node in budget.forms)


def _origin(budget: Budget, node: Node) -> Mask:
    """Return the mask of elements at which an operation on numbers returns infinity or NaN; poles do not count."""
    wild: Mask = ~np.isfinite(budget.forms[node].centre)
    if not node.args or node.is_exact:
        return np.zeros_like(wild)
    cut = np.zeros_like(wild)  # operands that overflow in the operation's dtype
    for place, arg in enumerate(node.args):
        if (held := budget.read.held.get((node, place))) is not None:
            cut = cut | np.isinf(held) & np.isfinite(budget.forms[arg].centre)
    if not wild.any():
        return cut
    for arg in node.args:
        centre = budget.forms[arg].centre
        before = ~np.isfinite(centre)
        if node.kind in ("divide", "function", "pair"):  # a pole is no overflow
            before = before | (centre == 0)
        if node.kind in REDUCED:
            before = np.logical_or.reduce(before, budget.inputs.axes(node), keepdims=True)
        wild = wild & ~before
    return wild | cut


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
    return doubledouble.either(np.isfinite(head(a)), a, b)


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
