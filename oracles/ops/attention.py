"""Attention: means of values, weighted by the softmax of scores of queries and keys; keys may be hidden, or stored in
pages; and the gradients with respect to queries, keys and values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
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
    sqrt,
    take,
    tanh,
    total,
    where,
)
from oracles.op import Op
from oracles.operand import LENGTHS, Flip, Operand, Parameter

INF = float("inf")
Q, K, V = (
    Operand("q", "b g h i d"),
    Operand("k", "b g j d", values="any rising"),
    Operand("v", "b g j e", values="any one_key"),
)
"""Inputs of g groups of h heads, which share keys and values in a group. Head number g h + r has the index [g, r]."""
MASK = Operand("mask", "b i j", optional=True, values="flags nothing blocks", dtype="bool")
BIAS = Operand("bias", "g h i j", optional=True, values="addend lowest hidden one_far_above")
PARAMETERS = (
    Parameter("softmax_scale", (1.0, 0.125, 0.0883883461356163), least=0.0),
    Parameter("causal", (0.0, 1.0, 2.0), neutral=0.0, least=0.0),
    Parameter("window", (-1.0, 63.0, 64.0, 0.0, 1.0, 2.0, 7.0), neutral=-1.0, least=-1.0),
    Parameter("cap", (0.0, 30.0, 50.0, 1.0), neutral=0.0, least=0.0),
    Parameter("blank", (0.0, 1.0), neutral=0.0, least=0.0),
)


def attention(
    q: Node, k: Node, v: Node, mask: Node | None = None, bias: Node | None = None, *, softmax_scale: Node,
    causal: Node | float = 0.0, window: Node | float = -1.0, cap: Node | float = 0.0, blank: Node | float = 0.0,
) -> Outputs:  # fmt: skip
    """o = softmax(scale q k + bias) v over the keys that a query sees, and lse, the logarithm of its sum.

    With causal = 1 query i sees keys 0 to i. With causal = 2 it sees keys 0 to i + (keys - queries), so that the last
    query sees all. With a window of 0 or more it sees no key further back than the window. It sees no key where a mask
    is 0. With a cap above 0 a score s becomes cap tanh(s / cap), before the bias. A query that sees no key has o = 0,
    or NaN with blank = 1, and lse = -inf. The shares p may be rounded before they are multiplied by v.
    """
    s = dot(q, k, "d") * softmax_scale
    seen = visible(s, mask, bias, causal, window, cap)
    most = greatest(seen, "j")
    m = where(most <= -INF, 0.0, most)
    p = exp(seen - m)
    mass = total(p, "j")
    acc = dot(point(p), v, "j")
    nothing = where(blank >= 0.5, float("nan"), 0.0)
    return {"o": where(most <= -INF, nothing, acc / mass), "lse": m + log(mass)}


def visible(
    s: Node, mask: Node | None, bias: Node | None, causal: Node | float, window: Node | float, cap: Node | float
) -> Node:
    """Return the scores with cap and bias, or minus infinity where a query does not see a key."""
    is_capped = cap > 0.0
    capped = where(is_capped, cap * tanh(s / where(is_capped, cap, 1.0)), s)
    biased = capped if bias is None else capped + bias
    # Only places, no product with a parameter that may be rounded: all kernels hide the same keys.
    ahead = position("j") - position("i")
    at_end = ahead - (extent("j") - extent("i"))
    place = where(causal >= 1.5, at_end, ahead)
    beyond = where(where(causal > 0.0, place, 0.0) > 0.0, -INF, 0.0)
    away = where(where(window >= 0.0, place, INF) < -window, -INF, beyond)
    near = where(away < 0.0, -INF, biased)
    return near if mask is None else where(mask, near, -INF)


ALGORITHMS: Mapping[str, Mapping[str, Callable[..., Node]]] = {
    "s": {"roots": lambda q, k, softmax_scale: dot(q * sqrt(softmax_scale), k * sqrt(softmax_scale), "d"),
          "query first": lambda q, k, softmax_scale: dot(q * softmax_scale, k, "d")},
    "capped": {"quotient": lambda s, cap, is_capped: where(
        is_capped, cap * (1.0 - 2.0 / (exp(2.0 * (s / where(is_capped, cap, 1.0))) + 1.0)), s)},
    # For a query that sees no key a kernel may also sum zeros, which is no zero if a value is NaN.
    "o": {
        "shares": lambda v, most, p, mass, nothing: dot(point(where(most <= -INF, nothing, p / mass)), v, "j"),
        "sum": lambda most, acc, mass, nothing: (
            (acc + where(most <= -INF, nothing, 0.0)) / where(most <= -INF, 1.0, mass)
        ),
    },
    # The maximum of the keys so far: whenever it grows, both sums are rescaled.
    "mass": {"online": lambda p: online_dot(p, 1.0, "j")},
    "acc": {"online": lambda p, v: online_dot(point(p), v, "j")},
    # A kernel may hide keys by adding minus infinity to their scores, so that a NaN stays.
    "near": {"added": lambda biased, away: biased + away},
    "seen": {"added": lambda near, mask=None: near if mask is None else near + where(mask, 0.0, -INF)},
}  # fmt: skip


def _one_key(scene: Any, stream: Any) -> Any:
    """Ones at one key of each head, zeros elsewhere: the output is the share of that key."""
    import numpy as np

    *heads, keys, width = scene.shape("v")
    chosen = stream.child("key").integers(math.prod(heads), 0, max(keys - 1, 0)).reshape(*heads, 1, 1)
    return np.where(np.arange(keys)[:, None] == chosen, np.ones(width), 0.0)


def _rising(scene: Any, stream: Any) -> Any:
    """Multiples of one query, each key a bit or far more: the maximum grows or falls with every key."""
    import numpy as np

    *heads, keys, width = scene.shape("k")
    step = np.ldexp(1.0, stream.child("step").integers(math.prod(heads), -7, 5)).reshape(*heads, 1, 1)
    query = scene.values["q"][:, :, :1, :1, :].reshape(*heads, 1, width) if scene.values["q"].size else 1.0
    with np.errstate(all="ignore"):
        along = np.where(np.isfinite(query), query, 1.0)
        along = along / max(float(np.abs(along).max(initial=0.0)), 1e-30) / max(width, 1)
    return np.broadcast_to(along * step * np.arange(keys)[:, None], scene.shape("k"))


def _nothing(scene: Any, stream: Any) -> Any:
    """No key for about half of the queries, and every key for the others."""
    import numpy as np

    *queries, keys = scene.shape("mask")
    sees = stream.child("sees").integers(math.prod(queries), 0, 1).reshape(*queries, 1)
    return np.broadcast_to(sees, (*queries, keys)).astype(np.float64)


def _blocks(scene: Any, stream: Any) -> Any:
    """Blocks of 4 to 64 keys, hidden or not, of each query."""
    import numpy as np

    *queries, keys = scene.shape("mask")
    size = 4 << int(stream.child("size").integers(1, 0, 4)[0])
    count = keys // size + 1
    flags = stream.child("flags").integers(math.prod(queries) * count, 0, 1).reshape(*queries, count)
    return np.repeat(flags, size, -1)[..., :keys].astype(np.float64)


def _added(scene: Any, stream: Any, hidden: float, one_in: int) -> Any:
    """Normal numbers, and by chance another one."""
    import numpy as np

    shape = scene.shape("bias")
    normal = stream.child("normal").normal(math.prod(shape)).reshape(shape)
    chosen = stream.child("hidden").integers(math.prod(shape), 0, one_in - 1).reshape(shape) == 0
    return np.where(chosen, hidden, normal)


def _hidden(scene: Any, stream: Any) -> Any:
    """Minus infinity at most keys: at all of some queries."""
    import numpy as np

    shape = scene.shape("bias")
    all_of = stream.child("all").integers(math.prod(shape[:-1]), 0, 3).reshape(*shape[:-1], 1) == 0
    return np.where(all_of, -INF, np.where(_added(scene, stream, 1.0, 2) == 1.0, -INF, 0.0))


def _lowest(scene: Any, stream: Any) -> Any:
    """At half of the keys -10,000 or the smallest number of float32, as masks that are added have it."""
    low = (-1e4, -3.4028234663852886e38)[int(stream.child("low").integers(1, 0, 1)[0])]
    return _added(scene, stream, low, 2)


def _one_far_above(scene: Any, stream: Any) -> Any:
    """A few keys by 1,000 above all others."""
    return _added(scene, stream, 1e3, 8)


RECIPES = {
    "one_key": _one_key, "rising": _rising, "nothing": _nothing, "blocks": _blocks, "hidden": _hidden,
    "lowest": _lowest, "one_far_above": _one_far_above,
}  # fmt: skip
SHAPES = (
    *({"d": head, "e": head} for head in (64, 128, 80, 96, 256)),
    {"i": 64, "j": 65}, {"i": 65, "j": 64}, {"i": 1, "j": 129}, {"i": 33, "j": 17},
    {"g": 2, "h": 3}, {"g": 2, "h": 1}, {"g": 1, "h": 4}, {"g": 3, "h": 2}, {"g": 2, "h": 4},
)  # fmt: skip
"""Usual sizes of heads, numbers of queries and keys that differ by one or more, and groups of heads."""

ATTENTION = Op(
    attention, inputs=(Q, K, V, MASK, BIAS),
    outputs=(Operand("o", "b g h i e"), Operand("lse", "b g h i", optional=True, dtype="f32")),
    parameters=PARAMETERS,
    flips=(Flip(("q", "k"), ()),),
    algorithms=ALGORITHMS, shapes=SHAPES, recipes=RECIPES,
    summary="values weighted by the softmax of scores of queries and keys",
)  # fmt: skip


DY = Operand("dy", "b g h i e", values="gradient")
OUTPUT, LSE = (
    Operand(name, dims, optional=True, values="local", dtype=dtype)
    for name, dims, dtype in (("o", "b g h i e", ""), ("lse", "b g h i", "f32"))
)


def attention_backward(
    q: Node, k: Node, v: Node, dy: Node, mask: Node | None = None, bias: Node | None = None, o: Node | None = None,
    lse: Node | None = None, *, softmax_scale: Node, causal: Node | float = 0.0, window: Node | float = -1.0,
    cap: Node | float = 0.0,
) -> Outputs:  # fmt: skip
    """dv = p dy, dq = scale ds k, dk = scale ds q, where p = exp(score - lse), ds = p (dp - sum(dy o)) and dp = v dy.

    dk and dv are sums over all heads of a group. o and lse are inputs, or calculated if they are not given. With a cap,
    ds is multiplied by 1 - t^2, t = tanh(s / cap). p and ds may be rounded before they are multiplied.
    """
    s = dot(q, k, "d") * softmax_scale
    seen = visible(s, mask, bias, causal, window, cap)
    hidden = seen <= -INF
    if lse is None:
        most = greatest(seen, "j")
        m = where(most <= -INF, 0.0, most)
        lse = m + log(total(exp(seen - m), "j"))
    p = where(hidden, 0.0, exp(seen - lse))
    if o is None:
        o = dot(p, v, "j")
    delta = total(dy * o, "e")
    dp = dot(dy, v, "e")
    dshown = p * (dp - delta)
    t = tanh(s / where(cap > 0.0, cap, 1.0))
    ds = dshown * where(hidden, 1.0, where(cap > 0.0, 1.0 - t * t, 1.0))
    dq = dot(point(ds), k, "j") * softmax_scale
    dk = dot(point(ds), q, ("h", "i")) * softmax_scale
    return {"dq": dq, "dk": dk, "dv": dot(point(p), dy, ("h", "i"))}


ATTENTION_BACKWARD = Op(
    attention_backward, inputs=(Q, K, V, DY, MASK, BIAS, OUTPUT, LSE),
    outputs=tuple(replace(each, name=f"d{each.name}", values="any") for each in (Q, K, V)),
    parameters=tuple(each for each in PARAMETERS if each.name != "blank"),
    flips=(Flip(("q", "k"), ("dq", "dk"), zeros=True), Flip(("v", "o"), ("dq", "dk"), zeros=True)),
    shapes=SHAPES, recipes=RECIPES,
    summary="gradients of attention by queries, keys and values",
)  # fmt: skip


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
