"""What outputs may be of a formula that overflows on its way to a number: that number, and what the overflow leaves.

A contract says how exactly a kernel calculates, not that it overflows: the exact value is right wherever the output's
dtype has it, and so is what the formula comes to as it is spelled. For the number the same formula is read again in
formats without end, in which no operation overflows; what is rounded at a declared point has the range of its dtype.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import mpmath
import numpy as np

from oracles.doubledouble import F64, DoubleDouble, either
from oracles.enclosure import FORBIDDEN, Enclosure, Mask, preferred
from oracles.formula.affine.budget import Budget
from oracles.formula.affine.reduced import REDUCED
from oracles.formula.tiers.conformance import Conformance
from oracles.formula.trace import Node
from oracles.lazy import lazy
from oracles.precise import Bounds
from oracles.rounding import round_to


@dataclass(frozen=True, eq=False)
class Way:
    """What outputs may be by one algorithm."""

    own: Conformance
    """The formula, overflows and all."""

    def enclosure(self, output: str) -> Enclosure:
        """The conformance sets of all elements of an output, in its shape."""
        found, reached = self.own.enclosure(output), self._reached(output)
        return found if reached is None else preferred(reached, self._numbers(output), found)

    def _numbers(self, output: str) -> Enclosure:
        """The numbers without overflow."""
        assert self.endless is not None
        exact, free, unknown = self.endless.enclosure(output), self._free(output), self._unknown(output)
        unsure = unknown if exact.unsure is None else unknown | exact.unsure & ~free
        most, ends = exact.form.max, (exact.inner, exact.outer)
        inner, outer = ((np.where(free, -most, low), np.where(free, most, high)) for low, high in ends)
        inner = np.where(unsure, np.nan, inner[0]), np.where(unsure, np.nan, inner[1])
        width, centre = np.where(free, np.inf, exact.below), exact.centre
        if isinstance(centre, DoubleDouble):
            centre = either(free, DoubleDouble(self._without(output)), centre)
        zeros = None if exact.zeros is None else np.where(free, 0, exact.zeros).astype(np.int8)
        return replace(
            exact, centre=centre, below=width, above=width, inner=inner, outer=outer, nan=None, unjudged=None,
            zeros=zeros, unsure=unsure,
        )  # fmt: skip

    def _free(self, output: str) -> Mask:
        """Where any number is right, as nobody knows how far the errors of what is so large go: kernels in float64 err
        beyond the range of float64, in which half-widths are."""
        assert self.endless is not None
        exact = self.endless.enclosure(output)
        quick = self.endless.quick(output)
        beyond = _is_outside(exact, quick) | ~np.isfinite(quick)
        return beyond if exact.unjudged is None else beyond | exact.unjudged

    def bounds(self, output: str, index: Sequence[int]) -> Bounds:
        """What one element may be, at mpmath's current working precision."""
        found, reached, at = self.own.bounds(output, index), self._reached(output), tuple(index)
        if reached is None or self.endless is None or not reached[at]:
            return found
        if not self._free(output)[at]:
            return replace(self.endless.bounds(output, at), nan=FORBIDDEN, beside=found)
        exact, node = self.endless.exactly(output)
        centre, most = exact.element(node, self.endless.place(output, at)), mpmath.mpf(found.form.max)
        number = Bounds(found.form, centre, -most, most, vanished=exact.vanished, beside=found)
        return number if math.isfinite(number.rounded(centre)) else found

    def of(self, output: str, index: Sequence[int]) -> Conformance:
        """Return what an element's exact value and half-width are of."""
        reached = self._reached(output)
        return self.own if self.endless is None or reached is None or not reached[tuple(index)] else self.endless

    @lazy
    def endless(self) -> Conformance | None:
        """The formula without overflow; None where there is none, or it is not judged."""
        if self.own.contract.nonfinite != "ieee" or not _overflows(self.own.budget):
            return None
        return replace(self.own, endless=True)

    def _reached(self, output: str) -> Mask | None:
        """Where the formula has a number without overflow, and not with it; None: nowhere."""
        if output not in self._found:
            self._found[output] = self._compared(output)
        return self._found[output]

    @lazy
    def _found(self) -> dict[str, Mask | None]:
        return {}

    def _compared(self, output: str) -> Mask | None:
        if self.endless is None or self.own.has_places(output):
            return None
        own, exact = self.own.enclosure(output), self._without(output)
        found = np.isfinite(round_to(exact, own.form)) & _is_outside(own, exact) | self._unknown(output)
        found = found if own.unjudged is None else found & ~own.unjudged
        return found if found.any() else None

    def _without(self, output: str) -> F64:
        """What the formula comes to without overflow, of kernels in float64 in extended double-double."""
        assert self.endless is not None
        return self.endless.extended(output) if self.own.wide else self.endless.quick(output)

    def _unknown(self, output: str) -> Mask:
        """Where mpmath alone has room for what is on the way."""
        assert self.endless is not None
        values = self._without(output)
        return ~np.isfinite(values) & _overflows(self.endless.budget)


def _is_outside(enclosure: Enclosure, values: F64) -> Mask:
    """Where a value is not among those that are right."""
    rounded = round_to(values, enclosure.form)
    return ~((rounded >= enclosure.outer[0]) & (rounded <= enclosure.outer[1]))


def _overflows(budget: Budget) -> bool:
    """Whether an operation has no number as result, of numbers."""
    return any(_is_origin(budget, node) for node in budget.forms)


def _is_origin(budget: Budget, node: Node) -> bool:
    if not node.args or node.is_exact:
        return False
    wild = ~np.isfinite(budget.forms[node].centre)
    if not wild.any():
        return False
    for arg in node.args:
        centre = budget.forms[arg].centre
        before = ~np.isfinite(centre)
        if node.kind in ("divide", "function"):  # a pole is no overflow
            before = before | (centre == 0)
        if node.kind in REDUCED:
            before = np.logical_or.reduce(before, budget.inputs.axes(node), keepdims=True)
        wild = wild & ~before
    return bool(wild.any())
