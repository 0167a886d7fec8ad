"""Near: float64 with a bound of its own error, in which a formula's exact value is known to nearly all of its bits.

A kernel may always return the exact value, rounded once. Where an output is that in every element it conforms, whatever
its contract allows besides, and its err/budget is 0: so it is with most outputs of 16 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import F64
from oracles.dtypes import Format, form
from oracles.elementary import float64
from oracles.formula.arithmetic import Float64, Mask
from oracles.formula.centre import Inputs, evaluate
from oracles.formula.derivatives import STEEPNESS, tangent
from oracles.formula.plan import KEEPING, Plan, Site
from oracles.formula.trace import FormulaError, Kind, Node
from oracles.lazy import lazy
from oracles.rounding import round_to

_U = 2.0**-53 * (1 + 2.0**-20)
"""The relative error of one operation, and of what its bound is calculated with."""
_SMALL = 2.0**-960
"""Errors of what is smaller may be subnormal, and off themselves."""
_LOST = 2.0**-1072
"""What a product or quotient that underflows, and its error, are off by at most."""
_ROOM = 4.0
"""Kernels' values lie so near to exact ones that these overflow first, if they have that much less room."""


class UncertainError(Exception):
    """Float64 cannot tell what a formula chooses."""


@dataclass(frozen=True, eq=False)
class Near:
    """Values, and how far from them exact ones may be."""

    value: F64
    error: F64 | float = 0.0
    largest: float | None = None
    """The largest magnitude, where it is known already; it is finite."""

    def __neg__(self) -> Near:
        return Near(-self.value, self.error)

    def __add__(self, other: Near) -> Near:
        return Rigorous().operate("add", self, other)


class Rigorous:
    """The arithmetic of these, see `oracles.formula.arithmetic`."""

    def __init__(self) -> None:
        self._plain = Float64()

    def lift(self, values: F64) -> Near:
        return Near(values)

    def apply(self, kind: Kind, values: Near) -> Near:
        found = self._plain.apply(kind, values.value)
        if kind == "absolute":
            return Near(found, values.error)
        bound, size = float64.BOUNDS[kind], np.abs(found)
        error = size * (bound.relative + _U * 2.0**-10) + bound.absolute
        if not isinstance(values.error, float):
            slope, remainder = tangent(kind, values.value, found, values.error)
            if kind in STEEPNESS:  # slopes of roots leave float64 long before values do
                scale = 1.0 if kind == "log" else size
                moved = scale * abs(STEEPNESS[kind]) * (values.error / np.abs(values.value))
                moved = np.where(np.equal(values.error, 0), 0.0, moved)
            else:
                moved = np.abs(slope) * values.error
            error = error + moved * (1 + 2.0**-20) + remainder
        return _special(found, size, error, values)

    def operate(self, kind: Kind, a: Near, b: Near) -> Near:
        found = self._plain.operate(kind, a.value, b.value)
        size = np.abs(found)
        error: F64 = size * _U
        if kind in ("add", "subtract"):
            return _special(found, size, error + a.error + b.error, a, b)
        if kind == "multiply":
            if not isinstance(a.error, float):
                error += a.error * (np.abs(b.value) + b.error)
            if not isinstance(b.error, float):
                error += np.abs(a.value) * b.error
        elif not (isinstance(a.error, float) and isinstance(b.error, float)):
            least = np.maximum(np.abs(b.value) - b.error, 0.0)
            error += (a.error + size * b.error) / least * (1 + 2.0**-20)
        if not size.min(initial=1.0) >= _SMALL:  # zeros of which a factor is one are exact
            inexact = (size < _SMALL) & (a.value != 0) & ((b.value != 0) | (kind == "divide"))
            error = np.where(inexact, error + _LOST, error)
        return _special(found, size, error, a, b)

    def total(self, values: Near, axis: int) -> Near:
        found = self._plain.total(values.value, axis)
        error = self._plain.total(np.abs(values.value), axis) * (values.value.shape[axis] * _U)
        if not isinstance(values.error, float):
            error = error + self._plain.total(np.broadcast_to(values.error, values.value.shape), axis)
        if np.isfinite(found).all():
            return Near(found, error)
        return Near(
            found, np.where(np.isfinite(found), error, np.where(np.isnan(error) & ~np.isnan(found), np.nan, 0.0))
        )

    def greatest(self, values: Near, axis: int) -> Near:
        error = values.error
        if not isinstance(error, float):
            error = self._plain.greatest(np.broadcast_to(error, values.value.shape), axis)
        return Near(self._plain.greatest(values.value, axis), error)

    def where(self, mask: Mask, a: Near, b: Near) -> Near:
        exact = isinstance(a.error, float) and isinstance(b.error, float)
        return Near(np.where(mask, a.value, b.value), 0.0 if exact else np.where(mask, a.error, b.error))

    def compare(self, kind: Kind, a: Near, b: Near) -> Mask:
        error = a.error + b.error
        if not isinstance(error, float) and not (np.abs(a.value - b.value) > error).all():
            raise UncertainError
        return self._plain.compare(kind, a.value, b.value)

    def take(self, table: Near, index: Near, axis: int) -> Near:
        value = self._plain.take(table.value, index.value, axis)
        if isinstance(table.error, float):
            return Near(value)
        error = np.broadcast_to(table.error, table.value.shape)
        return Near(value, self._plain.take(np.ascontiguousarray(error), index.value, axis))


def _special(found: F64, size: F64, error: F64, *args: Near) -> Near:
    """A result: what is infinite or NaN because an argument is, is so exactly; of the others so nothing is known."""
    largest = float(np.maximum.reduce(size, axis=None, initial=0.0))
    if largest < np.inf:
        return Near(found, error, largest)
    finite = np.isfinite(found)
    became = np.isfinite(args[0].value) & np.isfinite(args[-1].value)
    for each in args:
        became = became | np.isnan(each.error)
    return Near(found, np.where(finite, error, np.where(became, np.nan, 0.0)))


def _largest(values: F64) -> float:
    found = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
    return found if found < np.inf else float(np.abs(values).max(where=np.isfinite(values), initial=0.0))


@dataclass(frozen=True, eq=False)
class Nearest:
    """What the outputs of one problem are, each rounded once from its exact value."""

    inputs: Inputs
    plan: Plan
    shapes: Mapping[str, tuple[int, ...]]
    """Of outputs, with one element in dimensions that they do not have."""
    _rounded: dict[tuple[Node, Format], NDArray[np.float64] | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        with np.errstate(all="ignore"), suppress(UncertainError, FormulaError):
            self._fill()

    def conforms(self, plan: Plan, values: Mapping[str, F64]) -> bool:
        """Whether outputs certainly are these; `plan`: of a contract whose roundings are the same."""
        if not self.values or any(self.largest[node] * _ROOM >= plan.dtype(node).limit for node in self.largest):
            return False
        return all(self._is(self.rounded(plan, name), values[name]) for name in plan.outputs)

    def centre(self, plan: Plan, name: str) -> float:
        """Of the first element of an output."""
        return float(self.values[plan.made(name)].value.flat[0])

    def rounded(self, plan: Plan, name: str) -> F64 | None:
        """An output; None where an element's exact value may round to several numbers, or overflows."""
        right = self._right(plan.made(name), form(plan.outputs[name])) if self.values else None
        return None if right is None else np.broadcast_to(right, self.shapes[name])

    def _is(self, right: F64 | None, got: F64) -> bool:
        if right is None:
            return False
        right = right.reshape(got.shape)
        same = got == right
        if not same.all() and not (same | np.isnan(right) & np.isnan(got)).all():
            return False
        return bool(right.all() or (np.isnan(right) | (np.signbit(got) == np.signbit(right))).all())

    def _right(self, node: Node, dtype: Format) -> F64 | None:
        key = node, dtype
        if key not in self._rounded:
            self._rounded[key] = self._found(node, dtype)
        return self._rounded[key]

    def _found(self, node: Node, dtype: Format) -> F64 | None:
        near = self.values[node]
        if isinstance(near.error, float):
            low = high = round_to(near.value, dtype)
        else:
            away = np.broadcast_to(near.error * (1 + 2.0**-20), near.value.shape)
            low, high = round_to(near.value - away, dtype), round_to(near.value + away, dtype)
            special = ~np.isfinite(near.value)
            if special.any():  # as IEEE arithmetic makes them of what is so
                certain = special & ~np.isnan(away)
                low, high = (np.where(certain, near.value, end) for end in (low, high))
            if not low.all() and (near.error * (low == 0) > 0).any():
                high = np.where((low == 0) & (np.abs(near.value) <= away) & (away > 0), np.nan, high)
        same = (low == high) & (np.isfinite(low) | np.isinf(near.value)) | (np.isnan(near.value) & np.isnan(low))
        return np.copysign(low, near.value) if same.all() else None

    def _fill(self) -> None:
        replaced: dict[Site, F64] = {}

        def operand(node: Node, place: int) -> F64:
            arg = node.args[place]
            while arg.kind == "point" and (arg, None) not in replaced:
                (arg,) = arg.args
            known = replaced.get((node, place), replaced.get((arg, None)))
            if known is None and arg.args:
                raise UncertainError  # only what is rounded of operands is known before
            return self.inputs.leaf(arg) if known is None else known

        for (node, place), dtype in self.plan.rounded.items():
            if place is None and node.kind != "point":
                a, b = operand(node, 0), operand(node, 1)
                replaced[node, place] = round_to(a + b if node.kind == "add" else a - b, dtype)
            else:
                replaced[node, place] = round_to(operand(node, place or 0), dtype)
        found = evaluate(self.inputs, Rigorous(), replaced)
        for node in self.inputs.trace.nodes:
            if node.args and node.kind not in KEEPING:
                largest = found[node].largest
                self.largest[node] = _largest(found[node].value) if largest is None else largest
        self.values.update(found)

    @lazy
    def values(self) -> dict[Node, Near]:
        """Of all nodes; none where one is infinite or NaN."""
        return {}

    @lazy
    def largest(self) -> dict[Node, float]:
        """The largest magnitudes of what is calculated."""
        return {}
