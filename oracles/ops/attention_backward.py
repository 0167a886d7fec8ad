"""Op `attention_backward`: the gradients of `attention` with respect to queries, keys and values."""

from __future__ import annotations

from dataclasses import replace

from oracles.formula.trace import Node, Outputs, dot, exp, greatest, log, point, tanh, total, where
from oracles.op import Op
from oracles.operand import Flip, Operand
from oracles.ops.attention import BIAS, INF, MASK, PARAMETERS, RECIPES, SHAPES, K, Q, V, visible

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


OP = Op(
    attention_backward, inputs=(Q, K, V, DY, MASK, BIAS, OUTPUT, LSE),
    outputs=tuple(replace(each, name=f"d{each.name}", values="any") for each in (Q, K, V)),
    parameters=tuple(each for each in PARAMETERS if each.name != "blank"),
    flips=(Flip(("q", "k"), ("dq", "dk"), zeros=True), Flip(("v", "o"), ("dq", "dk"), zeros=True)),
    shapes=SHAPES, recipes=RECIPES,
    summary="gradients of attention by queries, keys and values",
)  # fmt: skip
