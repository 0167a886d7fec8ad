"""Op `paged_attention`: attention of one query of each sequence to keys that are stored in pages."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from oracles.formula.trace import (
    Node,
    Outputs,
    dot,
    exp,
    extent,
    greatest,
    log,
    online_dot,
    point,
    position,
    take,
    total,
    where,
)
from oracles.op import Op
from oracles.operand import LENGTHS, Operand, Parameter

INF = float("inf")
KEYS = ("t", "s")
"""The dimensions of keys: key t s + r of a sequence is in slot r of the page at place t of its table."""
DROPPED = -1


def paged_attention(q: Node, k: Node, v: Node, table: Node, lengths: Node, *, softmax_scale: Node) -> Outputs:
    """o = softmax(scale q k) v over the first lengths[b] keys of sequence b, and lse, the logarithm of the sum. Page
    table[b, t] holds keys t s to t s + s - 1 of sequence b; keys whose page is -1 are left out. Other contents of pages
    do not matter. A sequence without keys has o = 0 and lse = -inf. The shares p may be rounded before they are
    multiplied by v."""
    is_there = (position("t") * extent("s") + position("s") < lengths) & (table >= 0.0)
    s = dot(q, take(k, table, "p", 0.0), "d") * softmax_scale
    seen = where(is_there, s, -INF)
    most = greatest(seen, KEYS)
    m = where(most <= -INF, 0.0, most)
    p = exp(seen - m)
    mass = total(p, KEYS)
    values = where(is_there, take(v, table, "p", 0.0), 0.0)
    acc = dot(point(p), values, KEYS)
    return {"o": where(most <= -INF, 0.0, acc / mass), "lse": m + log(mass)}


def _unwritten(name: str) -> Callable[[Any, Any], Any]:
    """Return the recipe for pages with unwritten keys or values."""

    def unwritten(scene: Any, stream: Any) -> Any:
        """normal numbers where a sequence has a key, and NaN, infinity or a huge number in every other slot"""
        import numpy as np

        pages, slots, *rest = scene.shape(name)
        used = np.zeros((pages, slots), bool)
        if "table" in scene.values:
            table, lengths = (scene.values[each].astype(np.int64) for each in ("table", "lengths"))
            places = np.arange(table.shape[1] * slots)
            of_key = np.repeat(table, slots, -1)  # invalid pages have no slots
            of, key = np.nonzero((places < lengths[:, None]) & (of_key >= 0) & (of_key < pages))
            used[table[of, key // max(slots, 1)], key % max(slots, 1)] = True
        else:
            used[:] = True
        shape = (pages, slots, *rest)
        other = (float("nan"), INF, -1e30)[int(stream.child("other").integers(1, 0, 2)[0])]
        return np.where(used[..., None, None], stream.child("normal").normal(math.prod(shape)).reshape(shape), other)

    return unwritten


def unused_dropped(scene: Any, stream: Any) -> Any:
    """pages, each used once while there are others, and -1 behind the last key"""
    import numpy as np

    sequences, pages = scene.shape("table")
    order = np.argsort(stream.child("order").integers(scene.extents["p"], 0, 2**31), kind="stable")
    places = np.resize(order, (sequences, pages)) if order.size else np.full((sequences, pages), DROPPED)
    first = np.arange(pages) * scene.extents["s"]
    return np.where(first < scene.values["lengths"][:, None], places, DROPPED) * 1.0


PAGED_ATTENTION = Op(
    paged_attention,
    inputs=(
        Operand("q", "b g h d"), Operand("k", "p s g d", values="any unwritten_keys"),
        Operand("v", "p s g e", values="any unwritten_values"),
        Operand("table", "b t", values="any unused_dropped", dtype="int32", index="p", missing=DROPPED),
        Operand("lengths", "b", values=LENGTHS, dtype="int32", index="t s"),
    ),
    outputs=(Operand("o", "b g h e"), Operand("lse", "b g h", optional=True, dtype="f32")),
    parameters=(Parameter("softmax_scale", (1.0, 0.125, 0.0883883461356163), least=0.0),),
    algorithms={
        "mass": {"online": lambda p: online_dot(p, 1.0, KEYS)},
        "acc": {"online": lambda p, values: online_dot(point(p), values, KEYS)},
    },
    shapes=(
        {"d": 64, "e": 64}, {"d": 128, "e": 128}, {"s": 16, "t": 5}, {"s": 16, "t": 2}, {"s": 1, "t": 65},
        {"s": 8, "h": 4}, {"g": 2, "h": 3}, {"g": 1, "h": 8}, {"g": 3, "h": 1},
    ),
    recipes={
        "unused_dropped": unused_dropped, "unwritten_keys": _unwritten("k"), "unwritten_values": _unwritten("v"),
    },
    summary="one query of each sequence on keys that lie in pages, by a table of them",
)  # fmt: skip
