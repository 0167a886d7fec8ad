"""Forms of functions of two values, which pass on errors by exact steps and are rounded once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from oracles.dtypes import DOUBLE
from oracles.formula.affine.errors import Rounding, either, marked, rounded
from oracles.formula.affine.forms import ANY, Form, Mask, replace
from oracles.formula.affine.operations import OPERATIONS
from oracles.formula.affine.read import number
from oracles.formula.affine.setting import SettledProblem
from oracles.formula.contract import Contract
from oracles.formula.exact.arithmetic import Float64
from oracles.formula.exact.centre import step
from oracles.formula.pairs import pair
from oracles.formula.trace import Node

Flags = NDArray[np.int8]
_EXACTLY = Contract(DOUBLE.name, platform="none")


def paired(here: SettledProblem, node: Node, args: Sequence[Form], last: bool) -> Form:
    """Return the form of a function of two values. With `last`, its own rounding is left out."""
    of, exact = pair(node.label), SettledProblem(here.inputs, _EXACTLY)
    forms = {of.first: replace(args[0], edge=None), of.second: replace(args[1], edge=None)}
    for each in of.nodes:
        if each not in forms:
            given = [forms[arg] for arg in each.args]
            forms[each] = OPERATIONS[each.kind](exact, each, given, True) if given else _number(here, each)
    found, dtype = forms[of.value], here.dtype(node)
    centre = step(node, [each.centre for each in args], Float64(), here.inputs)
    may = marked(either(args), either([found]))
    found = replace(
        found, centre=centre, dtype=dtype, bits=ANY if last else dtype.precision, may=may, overflows=None, edge=None
    )
    ulp = here.contract.ulp(node.label)
    rounding = Rounding() if last else Rounding(2 * dtype.u * ulp, max(0.5, ulp))
    return rounded(found, rounding, here.contract.keeping(node.label))


class _Signs(Protocol):
    """The signs of nodes: -1, 1, or 0 where they differ between kernels."""

    def __getitem__(self, node: Node) -> Flags: ...


def depends_on_zeros(node: Node, forms: Mapping[Node, Form], signs: _Signs) -> Mask | None:
    """Return the mask of values that depend on the sign of a zero which differs between kernels; None if there are
    none."""
    found = np.zeros((1,) * forms[node.args[0]].centre.ndim, bool)
    for arg in () if node.label == "hypot" else node.args:
        zero = (forms[arg].centre == 0) & (forms[arg].spread == 0)
        found = found | (zero & (signs[arg] == 0)) if zero.any() else found
    return found if found.any() else None


def sign_of_zero(node: Node, forms: Mapping[Node, Form], signs: Sequence[Flags]) -> Flags:
    """Return the sign of a zero that follows from the signs of the operands, or 0."""
    if node.label != "pow":
        return signs[0] if node.label == "atan2" else np.ones((1,) * signs[0].ndim, np.int8)
    known = (forms[node.args[0]].spread == 0) & (forms[node.args[1]].spread == 0) & (signs[0] != 0)
    return np.where(known, np.where(np.signbit(forms[node].centre), -1, 1), 0).astype(np.int8)


def _number(here: SettledProblem, node: Node) -> Form:
    return number(node.value, node.low, len(here.inputs.trace.dims), math.copysign(1.0, node.value) < 0)
