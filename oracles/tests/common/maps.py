"""Formulas whose places along a dimension follow from several others, and their values by loops that know of none."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.formula.trace import Node, Outputs, dot, extent, floor, greatest, position, take, total, where
from oracles.op import Op
from oracles.operand import Operand

Arrays = Mapping[str, NDArray[Any]]


def strided(x: Node, w: Node, bias: Node) -> Outputs:
    """A convolution of steps of 2, with a place more on either side."""
    o = position("o", floor((extent("n") + 2.0 - extent("k")) / 2.0) + 1.0)
    conv = dot(take(x, 2.0 * o + position("k") - 1.0, "n", 0.0), w, ("c", "k"))
    return {"y": conv + bias}


def apart(x: Node, w: Node) -> Outputs:
    """A transposed one of steps of 3: an index that is no whole number is outside."""
    o = position("o", (extent("n") - 1.0) * 3.0 + extent("k"))
    return {"y": dot(take(x, (o - position("k")) / 3.0, "n", 0.0), w, ("c", "k"))}


def same(x: Node, w: Node) -> Outputs:
    """One as long as its input, to which that is added: its index has the dimension that it takes along."""
    near = take(x, position("n") + position("k") - 1.0, "n", 0.0)
    return {"y": x + dot(near, w, ("c", "k"))}


def pooled(x: Node) -> Outputs:
    """Maxima of three, and means of the places of those that there are."""
    o, k = position("o", floor((extent("n") - 1.0) / 2.0) + 1.0), position("k", 3.0)
    first = 2.0 * o - 1.0
    start = where(first < 0.0, 0.0, first)
    end = where(extent("n") < first + 3.0, extent("n"), first + 3.0)
    return {
        "most": greatest(take(x, first + k, "n", -math.inf), "k"),
        "mean": total(take(x, first + k, "n", 0.0), "k") / (end - start),
    }


def moved(x: Node) -> Outputs:
    """Two groups of each row, rolled by one place, the last element first; and each element twice."""
    half, p = position("half", 2.0), position("p", extent("n") / 2.0)
    cut = take(x, half * extent("p") + p, "n")
    at = position("p") - 1.0
    rolled = take(cut, at - extent("p") * floor(at / extent("p")), "p")
    whole = floor(position("n") / extent("p"))
    joined = take(take(rolled, whole, "half"), position("n") - extent("p") * whole, "p")
    twice = take(x, floor(position("m", extent("n") * 2.0) / 2.0), "n")
    return {"y": take(joined, extent("n") - 1.0 - position("n"), "n"), "twice": twice}


_X, _W = Operand("x", "b c n"), Operand("w", "m c k")
STRIDED = Op(strided, (_X, _W, Operand("bias", "m")), (Operand("y", "b m o"),))
APART = Op(apart, (_X, _W), (Operand("y", "b m o"),))
SAME = Op(same, (_X, Operand("w", "c k")), (Operand("y", "b c n"),), fixed={"k": 3, "c": 1})
POOLED = Op(pooled, (_X,), (Operand("most", "b c o"), Operand("mean", "b c o")))
MOVED = Op(moved, (Operand("x", "b n"),), (Operand("y", "b n"), Operand("twice", "b m")))
ALL = (STRIDED, APART, SAME, POOLED, MOVED)


def slid(x: NDArray[Any], w: NDArray[Any], length: int, place: Callable[[int, int], float]) -> NDArray[Any]:
    """Return the sums of products at these places, one after the other."""
    y = np.zeros((len(x), len(w), length))
    for b, m, o in np.ndindex(*y.shape):
        for c, k in np.ndindex(*w.shape[1:]):
            at = place(o, k)
            if 0 <= at < x.shape[2] and at == int(at):
                y[b, m, o] += x[b, c, int(at)] * w[m, c, k]
    return y


def by_loops(name: str, given: Arrays) -> Arrays:
    """Return the outputs of an op."""
    x = given["x"].astype(np.float64)
    w = given["w"].astype(np.float64) if "w" in given else x
    n, k = x.shape[-1], w.shape[-1]
    if name == "strided":
        return {"y": slid(x, w, (n + 2 - k) // 2 + 1, lambda o, j: 2 * o + j - 1) + given["bias"][:, None]}
    if name == "apart":
        return {"y": slid(x, w, 3 * (n - 1) + k, lambda o, j: (o - j) / 3)}
    if name == "same":
        return {"y": x + slid(x, w[None], n, lambda o, j: o + j - 1)}
    if name == "pooled":
        windows = [x[..., max(2 * o - 1, 0) : 2 * o + 2] for o in range((n - 1) // 2 + 1)]
        return {
            "most": np.stack([each.max(-1) for each in windows], -1),
            "mean": np.stack([each.mean(-1) for each in windows], -1),
        }
    rolled = [np.roll(half, 1, -1) for half in np.split(x, 2, -1)]
    return {"y": np.concatenate(rolled, -1)[..., ::-1], "twice": np.repeat(x, 2, -1)}
