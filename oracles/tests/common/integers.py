"""Ops with inputs of integers: places along a dimension, flags, and codes that are numbers in themselves."""

from __future__ import annotations

from oracles.formula.trace import Node, Outputs, dot, exp, extent, greatest, log, position, take, total, where
from oracles.op import Op
from oracles.operand import CODES, ENDS, FLAGS, LENGTHS, Operand


def cross_entropy(x: Node, label: Node) -> Outputs:
    """loss = log(sum e^x) - x[label]."""
    most = greatest(x, "n")
    mass = total(exp(x - most), "n")
    return {"loss": log(mass) + most - take(x, label, "n")}


def gathered(table: Node, place: Node) -> Outputs:
    """y = table[place]."""
    return {"y": take(table, place, "v")}


def padded(table: Node, place: Node) -> Outputs:
    """y = table[place], and 7 where that is -1; count = how many are not."""
    return {"y": take(table, place, "v", 7.0), "count": total(where(place == -1.0, 0.0, 1.0), "t")}


def kept(x: Node, keep: Node) -> Outputs:
    """y = x where keep, else 0; count = how many are kept."""
    return {"y": where(keep, x, 0.0), "count": total(keep, "n")}


def weighed(x: Node, code: Node) -> Outputs:
    """y = x code."""
    return {"y": dot(x, code, "n")}


def cut(x: Node, till: Node) -> Outputs:
    """y = the sum of each piece of x."""
    first = take(till, position("g") - 1.0, "g", 0.0)
    return {"y": total(where((first <= position("n")) & (position("n") < till), x, 0.0), "n")}


def led(x: Node, used: Node) -> Outputs:
    """y = the sum of the first elements of x, of c n."""
    place = position("c") * extent("n") + position("n")
    return {"y": total(where(place < used, x, 0.0), ("c", "n"))}


ENTROPY = Op(
    cross_entropy, (Operand("x", "... n"), Operand("label", "...", dtype="int64", index="n")), (Operand("loss", "..."),)
)
GATHERED = Op(
    gathered, (Operand("table", "v d"), Operand("place", "t", dtype="int32", index="v")), (Operand("y", "t d"),)
)
KEPT = Op(
    kept,
    (Operand("x", "... n"), Operand("keep", "... n", dtype="bool", values=FLAGS)),
    (Operand("y", "... n"), Operand("count", "...")),
)
PADDED = Op(
    padded,
    (Operand("table", "v d"), Operand("place", "t", dtype="int64", index="v", missing=-1)),
    (Operand("y", "t d"), Operand("count", "")),
)
WEIGHED = Op(
    weighed,
    (Operand("x", "... n"), Operand("code", "n", dtype="int8", values=CODES)),
    (Operand("y", "..."),),
)
CUT = Op(
    cut, (Operand("x", "m n"), Operand("till", "g", dtype="int32", index="n", values=ENDS)), (Operand("y", "g m"),)
)
LED = Op(
    led, (Operand("x", "m c n"), Operand("used", "m", dtype="int32", index="c n", values=LENGTHS)), (Operand("y", "m"),)
)
ALL = (ENTROPY, GATHERED, KEPT, PADDED, WEIGHED, CUT, LED)
