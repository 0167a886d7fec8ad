"""Reductions of rows to one number each; and the gradients."""

from __future__ import annotations

from oracles.formula.trace import (
    Node,
    Outputs,
    avg,
    exp,
    extent,
    greatest,
    log,
    position,
    total,
    welford_mean,
    welford_squares,
    where,
)
from oracles.op import Op
from oracles.operand import Flip, Operand, Parameter
from oracles.ops.rms_norm import DX, X
from oracles.ops.softmax import LOGITS, ONLINE

Y = Operand("y", "...")


def row_sum(x: Node) -> Outputs:
    """y = sum(x); 0 for rows without elements."""
    return {"y": total(x, "n")}


ROW_SUM = Op(
    row_sum, inputs=(X,), outputs=(Y,), flips=(Flip(("x",), ("y",), zeros=True),), scaling={"x": 1, "y": 1},
    summary="sums of rows",
)  # fmt: skip


def row_mean(x: Node) -> Outputs:
    """y = mean(x); NaN for rows without elements."""
    return {"y": avg(x, "n")}


ROW_MEAN = Op(
    row_mean, inputs=(X,), outputs=(Y,), flips=(Flip(("x",), ("y",), zeros=True),), scaling={"x": 1, "y": 1},
    summary="means of rows",
)  # fmt: skip


def row_max(x: Node) -> Outputs:
    """y = max(x); NaN if an element is NaN."""
    return {"y": greatest(x, "n")}


ROW_MAX = Op(
    row_max, inputs=(X,), outputs=(Y,), scaling={"x": 1, "y": 1}, least={"n": 1}, summary="greatest elements of rows"
)


CORRECTION = Parameter("correction", (1.0, 0.0), least=0.0)


def row_var(x: Node, *, correction: Node) -> Outputs:
    """y = sum((x - mean)^2) / (n - correction)."""
    mean = avg(x, "n")
    centred = x - mean
    squares = total(centred * centred, "n")
    return {"y": squares / (extent("n") - correction)}


ROW_VAR = Op(
    row_var, inputs=(X,), outputs=(Y,), parameters=(CORRECTION,), least={"n": 2},
    flips=(Flip(("x",), ()),), scaling={"x": 1, "y": 2},
    algorithms={"mean": {"welford": lambda x: welford_mean(x, "n")},
                "squares": {"welford": lambda x: welford_squares(x, "n")}},
    summary="variances of rows",
)  # fmt: skip


def logsumexp(x: Node) -> Outputs:
    """y = log(sum(exp(x - max(x)))) + max(x). If the maximum of a row is infinite, y is that infinity, as
    log(sum(exp(x))) is, with the algorithm "finite" of the maximum, which replaces it by 0; and NaN with the formula's
    own. A contract that names no algorithm of the maximum allows both."""
    most = greatest(x, "n")
    mass = total(exp(x - most), "n")
    return {"y": log(mass) + most}


def finite(x: Node) -> Node:
    """Return the maximum, or 0 where the maximum is infinite."""
    most, inf = greatest(x, "n"), float("inf")
    return where(most >= inf, 0.0, where(most <= -inf, 0.0, most))


OPEN = {"most": ("formula", "finite")}
"""The allowed algorithms: libraries return the infinity; kernels that always subtract the maximum return NaN."""
LOGSUMEXP = Op(
    logsumexp, inputs=(LOGITS,), outputs=(Y,), least={"n": 1},
    algorithms={"mass": ONLINE, "most": {"finite": finite}}, open_ways=OPEN,
    summary="logarithms of sums of exponentials of rows",
)  # fmt: skip


DY = Operand("dy", "...", values="gradient")


def row_sum_backward(x: Node, dy: Node) -> Outputs:
    """dx = dy at each element of a row, whatever x is."""
    return {"dx": spread(dy)}


def spread(value: Node) -> Node:
    """Return the same value at each place of a row."""
    return where(position("n") >= 0.0, value, 0.0)


ROW_SUM_BACKWARD = Op(
    row_sum_backward, inputs=(X, DY), outputs=(DX,), aliases=(("dx", "x"),),
    flips=(Flip(("dy",), ("dx",)),), scaling={"dy": 1, "dx": 1}, summary="gradients of sums of rows",
)  # fmt: skip


def row_mean_backward(x: Node, dy: Node) -> Outputs:
    """dx = dy / n at each of the n elements of a row, whatever x is."""
    share = dy / extent("n")
    return {"dx": spread(share)}


ROW_MEAN_BACKWARD = Op(
    row_mean_backward, inputs=(X, DY), outputs=(DX,), aliases=(("dx", "x"),),
    flips=(Flip(("dy",), ("dx",)),), scaling={"dy": 1, "dx": 1},
    algorithms={"share": {"reciprocal": lambda dy: dy * (1.0 / extent("n"))}}, summary="gradients of means of rows",
)  # fmt: skip


INF = float("inf")
OF_TIES = Parameter("of_ties", (0.0, 1.0, 2.0, 3.0), neutral=0.0, least=0.0)


def row_max_backward(x: Node, dy: Node, *, of_ties: Node | float = 0.0) -> Outputs:
    """dx = dy at the greatest element of a row, and 0 elsewhere. If k elements are greatest, each has dy / k; with
    of_ties = 1 only the first has dy, with 2 only the last, with 3 each. In a row with a NaN all are NaN."""
    most = greatest(x, "n")
    is_most = where(x == most, 1.0, 0.0)
    count = total(is_most, "n")
    place = position("n")
    first = -greatest(where(is_most, -place, -INF), "n")
    last = greatest(where(is_most, place, -INF), "n")
    one = where(of_ties >= 1.5, last, first)
    picked = where(of_ties >= 2.5, is_most, where(of_ties >= 0.5, where(place == one, 1.0, 0.0), is_most))
    share = where(of_ties >= 0.5, dy, dy / count)
    return {"dx": where(most == most, where(picked, share, 0.0), float("nan"))}


ROW_MAX_BACKWARD = Op(
    row_max_backward, inputs=(X, DY), outputs=(DX,), parameters=(OF_TIES,), aliases=(("dx", "x"),), least={"n": 1},
    summary="gradients of greatest elements of rows",
)  # fmt: skip


def row_var_backward(x: Node, dy: Node, *, correction: Node) -> Outputs:
    """dx = 2 dy (x - mean) / (n - correction)."""
    mean = avg(x, "n")
    factor = 2.0 * dy / (extent("n") - correction)
    return {"dx": factor * (x - mean)}


ROW_VAR_BACKWARD = Op(
    row_var_backward, inputs=(X, DY), outputs=(DX,), parameters=(CORRECTION,), aliases=(("dx", "x"),), least={"n": 2},
    flips=(Flip(("dy",), ("dx",), zeros=True), Flip(("x",), ("dx",), zeros=True)), scaling={"dy": 1, "dx": 1},
    algorithms={"mean": {"welford": lambda x: welford_mean(x, "n")}}, summary="gradients of variances of rows",
)  # fmt: skip


GIVEN_Y = Operand("y", "...", optional=True, values="local")


def logsumexp_backward(x: Node, dy: Node, y: Node | None = None) -> Outputs:
    """dx = dy exp(x - y), where y is an input, or log(sum(exp(x - max(x)))) + max(x); if the maximum is infinite, see
    `logsumexp`."""
    if y is None:
        most = greatest(x, "n")
        mass = total(exp(x - most), "n")
        y = log(mass) + most
    return {"dx": dy * exp(x - y)}


LOGSUMEXP_BACKWARD = Op(
    logsumexp_backward, inputs=(LOGITS, DY, GIVEN_Y), outputs=(DX,), aliases=(("dx", "x"),), least={"n": 1},
    flips=(Flip(("dy",), ("dx",)),), scaling={"dy": 1, "dx": 1},
    algorithms={"mass": ONLINE, "most": {"finite": finite}}, open_ways=OPEN,
    summary="gradients of logarithms of sums of exponentials of rows",
)  # fmt: skip
