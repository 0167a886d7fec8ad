"""The function that makes the form of each kind of reduction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

from oracles.formula.affine.forms import Form
from oracles.formula.affine.setting import SettledProblem
from oracles.formula.trace import Node
from oracles.lazy import ReadWhenAsked

Reduction = Callable[[SettledProblem, Node, Sequence[Form]], Form]
_HOME: Mapping[str, tuple[str, str]] = {
    **{kind: ("reductions", name) for kind, name in (("sum", "total"), ("dot", "dot"), ("max", "greatest"))},
    **{kind: ("ranked", name) for kind, name in (("take", "took"), ("ranked", "ranked"), ("place", "placed"))},
    **dict.fromkeys(("welford_mean", "welford_squares"), ("recurrences", "updated")),
    "online": ("recurrences", "online"), "online_dot": ("recurrences", "online_dot"),
    "scan": ("recurrences", "recurrence"),
}  # fmt: skip
"""The module and the name of each function; a module is imported when its first is needed."""


def _reduction(kind: str) -> Reduction:
    module, name = _HOME[kind]
    found: Reduction = getattr(import_module(f"oracles.formula.affine.{module}"), name)
    return found


REDUCED: Mapping[str, Reduction] = ReadWhenAsked(_HOME, _reduction)
