"""The function that makes the form of each kind of reduction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from oracles.formula.affine.forms import Form
from oracles.formula.affine.ranked import placed, ranked, took
from oracles.formula.affine.recurrences import recurrence
from oracles.formula.affine.reductions import dot, greatest, total
from oracles.formula.affine.rescaling import online, online_dot, updated
from oracles.formula.affine.setting import SettledProblem
from oracles.formula.trace import Kind, Node

REDUCED: Mapping[Kind, Callable[[SettledProblem, Node, Sequence[Form]], Form]] = {
    "sum": total, "dot": dot, "max": greatest, "take": took, "welford_mean": updated, "welford_squares": updated,
    "online": online, "online_dot": online_dot, "scan": recurrence, "ranked": ranked, "place": placed,
}  # fmt: skip
