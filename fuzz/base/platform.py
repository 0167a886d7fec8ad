"""Platforms: how accurate the functions of a library are, which a kernel promises where nobody says otherwise."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from oracles import summation
from oracles.dtypes import DOUBLE, SINGLE
from oracles.formula.algorithm import traced
from oracles.formula.contract import WIDE, Contract
from oracles.formula.trace import REDUCTIONS
from oracles.op import Op


@dataclass(frozen=True)
class Platform:
    """What a library's own functions promise in float32, where that is less than a contract promises by itself."""

    accuracy: Mapping[str, float]
    """See `Contract.accuracy`."""
    absolute: Mapping[str, float] = field(default_factory=dict)
    """See `Contract.absolute`."""
    zeros: Literal["ieee", "any"] = "ieee"
    """See `Contract.zeros`."""

    def contract(self, op: Op, dtypes: Collection[str]) -> Contract:
        """Return the contract of a kernel of an op that takes such dtypes: with the library's functions, and sums in
        any order."""
        dims = [dim for operand in op.operands for dim in operand.axes]
        given = [*(each.name for each in op.operands), *(each.name for each in op.parameters)]
        several = [node.label for node in traced(op, given).nodes if node.kind in REDUCTIONS]
        orders = {dim: summation.Any() for dim in (*dims, *several)}
        compute = WIDE if DOUBLE.name in dtypes else SINGLE.name
        return Contract(compute, sums=orders, accuracy=self.accuracy, absolute=self.absolute, zeros=self.zeros)


PLATFORMS: Mapping[str, Platform] = {
    # Measured with torch 2.13 on a processor with AVX2, at two million arguments a function and 33 million of `gelu`:
    # `sqrt` errs by up to 0.75 ulp and `rsqrt` by 1.47; all others stay within what a contract promises. The value of
    # `gelu` (oneDNN's) is as if its error function were off by up to 5.02 ulp of 1, of which the roundings around that
    # have at least 0.5. `sigmoid` is 1 / (1 + exp(-x)), whose exponential overflows: 0 in the place of up to 2^-128.
    # `gelu` of -0 and `logsigmoid` of what is large are +0: they add a zero to what another formula multiplies.
    "torch": Platform({"rsqrt": 2.0, "sqrt": 1.0}, {"erf": 5.0, "sigmoid": 2.0**-104}, "any"),
    # What NumPy's source says of its vectorised float32 functions: exp within 2.52 ulp, log within 3.83; measured with
    # NumPy 2.4 are 2.54 and 3.25. It has no reciprocal root: that is a root and a division, or an estimate with a step.
    "numpy": Platform({"exp": 3.0, "log": 4.0, "rsqrt": 2.0}),
}
"""By the arrays that a plain function takes."""
