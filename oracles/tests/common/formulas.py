"""Formulas of known ops, as a kernel author would write them, and data that is hard for them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.dtypes import Format, form
from oracles.formula.exact.centre import Inputs
from oracles.formula.trace import (
    Formula,
    Node,
    Outputs,
    Trace,
    avg,
    cos,
    dot,
    erf,
    exp,
    greatest,
    log,
    point,
    position,
    rsqrt,
    sigmoid,
    sin,
    take,
    tanh,
    total,
    trace,
    where,
)
from oracles.rounding import NAMES

DIMS: Mapping[str, Sequence[str]] = {
    "x": ("...", "n"), "dy": ("...", "n"), "angle": ("...", "n"), "weight": ("n",), "bias": ("n",),
    "table": ("v", "n"), "index": ("...",),
    "a": ("m", "k"), "b": ("k", "n"), "query": ("i", "d"), "key": ("j", "d"), "value": ("j", "e"),
}  # fmt: skip
EPS = 2.0**-17


def rms_norm(x: Node, weight: Node, eps: Node) -> Outputs:
    rstd = rsqrt(avg(x * x, "n") + eps)
    return {"y": x * rstd * weight, "rstd": rstd}


def layer_norm(x: Node, weight: Node, bias: Node, eps: Node) -> Outputs:
    mean = avg(x, "n")
    centred = x - mean
    var = avg(centred * centred, "n")
    rstd = rsqrt(var + eps)
    return {"y": centred * rstd * weight + bias, "mean": mean, "rstd": rstd}


def moments(x: Node, weight: Node, bias: Node, eps: Node) -> Outputs:
    mean = avg(x, "n")
    var = avg(x * x, "n") - mean * mean
    return {"y": (x - mean) * rsqrt(var + eps) * weight + bias}


def layer_norm_backward(x: Node, weight: Node, dy: Node, eps: Node) -> Outputs:
    centred = x - avg(x, "n")
    rstd = rsqrt(avg(centred * centred, "n") + eps)
    h, g = centred * rstd, dy * weight
    return {"dx": (g - avg(g, "n") - h * avg(g * h, "n")) * rstd, "dw": total(dy * h, "..."), "db": total(dy, "...")}


def softmax(x: Node) -> Outputs:
    e = exp(x - greatest(x, "n"))
    return {"y": e / total(e, "n")}


def log_softmax(x: Node) -> Outputs:
    shifted = x - greatest(x, "n")
    return {"y": shifted - log(total(exp(shifted), "n"))}


def softmax_backward(x: Node, dy: Node) -> Outputs:
    e = exp(x - greatest(x, "n"))
    p = e / total(e, "n")
    return {"dx": p * (dy - total(p * dy, "n"))}


def gelu_tanh(x: Node) -> Outputs:
    return {"y": 0.5 * x * (1.0 + tanh(0.7978845608028654 * (x + 0.044715 * (x * x * x))))}


def gelu_erf(x: Node) -> Outputs:
    return {"y": 0.5 * x * (1.0 + erf(x * 0.7071067811865476))}


def silu_mul(x: Node, dy: Node) -> Outputs:
    return {"y": x * sigmoid(x) * dy}


def rotary(x: Node, dy: Node, angle: Node) -> Outputs:
    return {"y": x * cos(angle) - dy * sin(angle)}


def embedding(table: Node, index: Node, eps: Node) -> Outputs:
    row = take(table, index, "v")
    return {"y": row * rsqrt(avg(row * row, "n") + eps)}


def matmul(a: Node, b: Node) -> Outputs:
    return {"c": dot(a, b, "k")}


def attention(query: Node, key: Node, value: Node, scale: Node) -> Outputs:
    scores = where(position("j") <= position("i"), scale * dot(query, key, "d"), -np.inf)
    p = exp(scores - greatest(scores, "j"))
    return {"y": dot(point(p), value, "j") / total(p, "j")}


FORMULAS: Mapping[str, Formula] = {
    each.__name__: each
    for each in (
        rms_norm, layer_norm, moments, layer_norm_backward, softmax, log_softmax, softmax_backward, gelu_tanh, gelu_erf,
        silu_mul, rotary, embedding, matmul, attention,
    )
}  # fmt: skip
_PARAMETERS = {"eps": EPS, "scale": 0.3}


def traced(name: str) -> Trace:
    """The graph of one of these formulas."""
    arguments = list(inspect.signature(FORMULAS[name]).parameters)
    tensors = {each: DIMS[each] for each in arguments if each not in _PARAMETERS}
    return trace(FORMULAS[name], tensors, [each for each in arguments if each in _PARAMETERS])


def _const(z: NDArray[Any], dtype: Format) -> NDArray[Any]:
    return np.broadcast_to(z[..., :1], z.shape).copy()


def _dominant(z: NDArray[Any], dtype: Format) -> NDArray[Any]:
    z[..., 0] = 30
    return z


def _cancelling(z: NDArray[Any], dtype: Format) -> NDArray[Any]:
    pairs = z.shape[-1] // 2 * 2
    z[..., 1:pairs:2] = -z[..., 0:pairs:2]
    return z


def _half_zeros(z: NDArray[Any], dtype: Format) -> NDArray[Any]:
    z[..., ::2] = 0
    return z


HARD: Mapping[str, Callable[[NDArray[Any], Format], NDArray[Any]]] = {
    "normal": lambda z, dtype: z,
    "mean 1e2": lambda z, dtype: z + 1e2,
    "mean 1e4": lambda z, dtype: z + 1e4,
    "constant": _const,
    "dominant": _dominant,
    "wide": lambda z, dtype: np.sign(z) * np.exp(5 * z),
    "tiny": lambda z, dtype: z * dtype.tiny * 3,
    "subnormal": lambda z, dtype: z * dtype.tiny / 100,
    "big": lambda z, dtype: z * dtype.max**0.5,
    "near overflow": lambda z, dtype: np.clip(z, -4, 4) * (dtype.max / 4),
    "cancelling": _cancelling,
    "half zeros": _half_zeros,
    "ties": lambda z, dtype: np.sign(z),
    "logits": lambda z, dtype: z * 30,
}
"""By name: what makes hard values of normal ones."""
_SIZES = {"v": 3, "m": 4, "i": 5, "e": 3, "d": 7}
_OTHER = 4
"""Elements along a dimension of any other name."""


def problems(
    graph: str | Trace, dtype: type[Any], n: int, rows: int, random: np.random.Generator
) -> Iterator[tuple[str, Inputs]]:
    """The formula's problems of all hard kinds: the first tensor is hard, the others are normal."""
    graph = traced(graph) if isinstance(graph, str) else graph
    half = -(-n // 2)
    sizes = {**_SIZES, "...": rows, "n": n, "k": 2 * half, "h": half, "j": n}
    read = [node.label for node in graph.nodes if node.kind == "tensor"]
    tensors = [*read, *(name for name in graph.tensors if name not in read)]  # of some the extents alone matter
    for kind, harden in HARD.items():
        given = {}
        for place, tensor in enumerate(tensors):
            shape = [sizes.get(dim, _OTHER) for dim in graph.tensors[tensor]]
            if tensor == "index":
                given[tensor] = random.integers(0, _SIZES["v"], shape)
                continue
            z = random.normal(size=shape)
            hard = harden(z, form(NAMES[np.dtype(dtype)])) if place == 0 else z
            with np.errstate(over="ignore"):
                given[tensor] = hard.astype(dtype)
        yield kind, Inputs(graph, given, _PARAMETERS)
