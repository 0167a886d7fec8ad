"""The nearest outputs: float64, with a bound of its own error, mostly shows to which number of the dtype an exact value
rounds.

A kernel may always return that number. If an output does so in every element, it conforms under every contract, and its
err/budget is 0. This is true of most correct outputs of 16 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import F64
from oracles.dtypes import Format, judged
from oracles.formula.exact.centre import Inputs, evaluate
from oracles.formula.exact.rigorous import Near, Rigorous, UncertainError
from oracles.formula.trace import FormulaError, Node
from oracles.lazy import lazy
from oracles.rounding import round_to
from oracles.tiers.plan import FormulaPlan, Site

_ROOM = 4.0
"""The factor by which values must stay below the largest number for this shortcut to be used. The values of kernels are
so close to the exact ones that they do not overflow then."""


def _largest(values: F64) -> float:
    found = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
    return found if found < np.inf else float(np.abs(values).max(where=np.isfinite(values), initial=0.0))


@dataclass(frozen=True, eq=False)
class Nearest:
    """The outputs of one problem, each element of which is its exact value, rounded once."""

    inputs: Inputs
    plan: FormulaPlan
    shapes: Mapping[str, tuple[int, ...]]
    """The shapes of outputs, with an axis of one element for each dimension that they lack."""
    _rounded: dict[tuple[Node, Format], NDArray[np.float64] | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        with np.errstate(all="ignore"), suppress(UncertainError, FormulaError):
            self._fill()

    def conforms(self, plan: FormulaPlan, values: Mapping[str, F64]) -> bool:
        """Whether `values` certainly are the nearest outputs. The `plan` must have the same roundings."""
        if not self.values or any(self.largest[node] * _ROOM >= plan.dtype(node).limit for node in self.largest):
            return False
        return all(self._is(self.rounded(plan, name), values[name]) for name in plan.outputs)

    def centre(self, plan: FormulaPlan, name: str) -> float:
        """Return the centre of the first element of an output."""
        return float(self.values[plan.made(name)].value.flat[0])

    def rounded(self, plan: FormulaPlan, name: str) -> F64 | None:
        """Return the nearest output; None if an element's exact value may round to several numbers, or overflows."""
        right = self._right(plan.made(name), judged(plan.outputs[name])) if self.values else None
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
            if special.any():  # the results of IEEE arithmetic
                certain = special & ~np.isnan(away)
                low, high = (np.where(certain, near.value, end) for end in (low, high))
            if not low.all() and (near.error * (low == 0) > 0).any():
                high = np.where((low == 0) & (np.abs(near.value) <= away) & (away > 0), np.nan, high)
        same = (low == high) & (np.isfinite(low) | np.isinf(near.value)) | (np.isnan(near.value) & np.isnan(low))
        return np.copysign(low, near.value) if same.all() else None

    def _fill(self) -> None:
        replaced: dict[Site, F64] = {}
        flushes = self.plan.contract.denormals != "preserve"

        def operand(node: Node, place: int) -> F64:
            arg = node.args[place]
            while arg.kind == "point" and (arg, None) not in replaced:
                (arg,) = arg.args
            known = replaced.get((node, place), replaced.get((arg, None)))
            if known is None and arg.args:
                raise UncertainError  # only rounded operands are known
            found = self.inputs.leaf(arg) if known is None else known
            if flushes and ((found != 0) & (np.abs(found) < self.plan.values[arg].dtype.tiny)).any():
                raise UncertainError  # kernels round it or zero
            return found

        for (node, place), dtype in self.plan.rounded.items():
            if place is None and node.kind != "point":
                a, b = operand(node, 0), operand(node, 1)
                replaced[node, place] = round_to(a + b if node.kind == "add" else a - b, dtype)
            else:
                replaced[node, place] = round_to(operand(node, place or 0), dtype)
        found = evaluate(self.inputs, Rigorous(), replaced)
        for node in self.inputs.trace.nodes:
            if node.args and (not node.is_exact or node.kind == "point"):
                largest = found[node].largest
                self.largest[node] = _largest(found[node].value) if largest is None else largest
        self.values.update(found)

    @lazy
    def values(self) -> dict[Node, Near]:
        """Return the values of all nodes; empty if they could not be calculated."""
        return {}

    @lazy
    def largest(self) -> dict[Node, float]:
        """Return the largest magnitudes of the calculated values."""
        return {}
