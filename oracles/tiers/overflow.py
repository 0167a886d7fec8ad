"""Overflow: the allowed outputs if a formula overflows on the way: its value without the overflow, and its value with
it.

A contract states how exactly a kernel calculates, not that it overflows. So the exact value is always right, and so is
the value of the formula as it is written. For the exact value the same formula is evaluated in formats without an end,
in which no operation overflows; a value that is rounded at a declared point has the range of its dtype. A kernel that
does not overflow may meet a pole instead, for example if a variance of two moments is zero or less. Then it may return
anything, and nothing is judged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import mpmath
import numpy as np

from oracles import doubledouble
from oracles.doubledouble import F64, DoubleDouble
from oracles.enclosure import FORBIDDEN, Enclosure, Mask, preferred
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
