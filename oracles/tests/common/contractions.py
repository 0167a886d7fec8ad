"""Hostile problems of ops with contractions, and what is said of them with and without an array of all products."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import F64, head
from oracles.enclosure import Enclosure
from oracles.formula.contract import Contract
from oracles.formula.exact import contraction
from oracles.formula.trace import Node, Outputs, avg, dot, exp, greatest, rsqrt, total, where
from oracles.op import Op
from oracles.operand import Operand
from oracles.problem import Problem
from oracles.rounding import STORAGE
from oracles.summation import Sequential
from oracles.tests.common import dims
from oracles.truth import Truth

_ALIKE = 2.0**-38
"""Sums in other orders differ by no larger share in these problems."""


def chain(a: Node, b: Node, c: Node) -> Outputs:
    """y = relu(a b) c, and the sums of its rows."""
    t = dot(a, b, "k")
    u = where(t > 0.0, t, 0.0)
    y = dot(u, c, "n")
    return {"y": y, "s": total(y, "l")}


def normed(x: Node, w: Node) -> Outputs:
    """z = rms_norm(x) w and g = e^-x (w w): factors of which errors are shared, and that are never negative."""
    y = x * rsqrt(avg(x * x, "k") + 1e-5)
    return {"z": dot(y, w, "k"), "g": dot(exp(-1.0 * x), w * w, "k")}


def gradient(q: Node, k: Node, v: Node, do: Node) -> Outputs:
    """The gradients of attention: each of two dimensions is reduced for some output."""
    s = dot(q, k, "d") * 0.125
    e = exp(s - greatest(s, "j"))
    p = e / total(e, "j")
    dp = dot(do, v, "e")
    ds = p * (dp - total(p * dp, "j"))
    return {"dq": dot(ds, k, "j") * 0.125, "dk": dot(ds, q, "i") * 0.125, "dv": dot(p, do, "i")}


CHAIN = Op(
    chain,
    inputs=(Operand("a", "... m k"), Operand("b", "k n"), Operand("c", "n l")),
    outputs=(Operand("y", "... m l"), Operand("s", "... m")),
)
NORMED = Op(
    normed,
    inputs=(Operand("x", "... m k"), Operand("w", "k n")),
    outputs=(Operand("z", "... m n"), Operand("g", "... m n")),
)
GRADIENT = Op(
    gradient,
    inputs=(Operand("q", "... i d"), Operand("k", "... j d"), Operand("v", "... j e"), Operand("do", "... i e")),
    outputs=(Operand("dq", "... i d"), Operand("dk", "... j d"), Operand("dv", "... j e")),
)
OPS = (dims.PRODUCT, dims.GEMM, dims.ATTEND, CHAIN, NORMED, GRADIENT)
CONTRACTS: Mapping[str, Contract] = {
    **dims.CONTRACTS,
    "long": Contract("f32", sums={dim: Sequential() for dim in "kdjine"}),
    "unfused": Contract("f32", fused=False),
    "f64": Contract("f64"),
    "f16": Contract("f16"),
    "bf16": Contract("bf16"),
    "points": Contract("f32", points={"c": "bf16", "t": "bf16", "p": "f16", "s": "f16", "u": "e4m3fn"}),
    "overflow": Contract("f32", nonfinite="overflow"),
    "flush results": Contract("f32", denormals="flush results"),
}
_SCALES = {"f64": (1e-160, 1e160), "f32": (1e-20, 1e20), "bf16": (1e-20, 1e19), "f16": (1e-4, 300.0)}
"""Products of numbers of these sizes under- and overflow now and then."""
KINDS = 10


def values(kind: int, shape: tuple[int, ...], dtype: str, random: np.random.Generator) -> NDArray[Any]:
    """Numbers of one of `KINDS` hostile kinds."""
    x = random.normal(size=shape)
    low, high = _SCALES[dtype]
    special = random.choice([0.0, -0.0, np.inf, -np.inf, np.nan], shape)
    with np.errstate(all="ignore"):
        found = (
            x,
            x * 2.0 ** random.integers(-30, 31, shape),
            np.where(random.random(shape) < 0.1, special, x),
            np.rint(3 * x) * 2.0 ** random.integers(-20, 3),
            x * low,
            x * high,
            np.where(random.random(shape) < 0.5, 0.0, x),
            x * 2.0 ** random.integers(-140, 100, shape),
            np.full(shape, x.flat[0]),
            np.abs(x),
        )[kind]
        return np.asarray(found.astype(STORAGE[dtype]))


def hostile(seed: int, most: int = 70) -> tuple[Problem, Contract]:
    """A problem of one of the ops, reduced over up to `most` places, and a contract."""
    random = np.random.default_rng(seed)
    op, dtype = OPS[seed % len(OPS)], str(random.choice(["f32", "f32", "bf16", "f16", "f64"]))
    extents = {dim: int(random.choice([1, 2, 3, 5, *((9, most) if dim in "kj" else ())])) for dim in op.named}
    outer = tuple(map(int, random.choice([1, 2, 3], random.integers(2)))) if "..." in op.inputs[0].axes else ()
    of = dims.problem(op, extents, outer, dtype, seed, out=str(random.choice(["", "f32", "bf16"])))
    kind = int(random.integers(KINDS))
    inputs = {
        name: each if name == "mask" else values(int(random.choice([0, kind])), each.shape, dtype, random)
        for name, each in of.inputs.items()
    }
    of = replace(of, inputs=inputs, structured=bool(random.random() < 0.3))
    return of, CONTRACTS[str(random.choice([*CONTRACTS]))]


@contextmanager
def at_once(products: int) -> Iterator[None]:
    """As if so many products could be formed at once."""
    before = contraction.AT_ONCE
    contraction.AT_ONCE = products
    try:
        yield
    finally:
        contraction.AT_ONCE = before


def apart(of: Problem, contract: Contract) -> list[str]:
    """How the enclosures of a problem's outputs differ where few products are formed at once."""
    with at_once(1 << 60):
        whole = Truth(of).enclosures(contract, of.structured)
    with at_once(4):
        parts = Truth(of).enclosures(contract, of.structured)
    return [f"{name}: {what}" for name in whole for what in _apart(whole[name], parts[name])]


def _apart(whole: Enclosure, parts: Enclosure) -> Iterator[str]:
    none = np.zeros(whole.below.shape)
    for name in ("nan", "zero", "unjudged", "unsure", "zeros"):
        one, other = (none if (flag := getattr(each, name)) is None else flag for each in (whole, parts))
        if not np.array_equal(one, other):
            yield name
    centre, width = head(whole.centre), whole.below
    with np.errstate(all="ignore"):
        if not _is_near(centre, head(parts.centre), width * 2.0**-20):
            yield "centre"
        if not _is_near(width, parts.below, width * _ALIKE):
            yield "width"
    zero = (centre == 0) & (head(parts.centre) == 0)
    if (np.signbit(centre) != np.signbit(head(parts.centre)))[zero].any():
        yield "sign of a zero"
    if whole.form.name != "f64":  # else its ends are as many bits as sums in other orders differ by
        for name in ("inner", "outer"):
            for one, other in zip(getattr(whole, name), getattr(parts, name), strict=True):
                if not np.array_equal(one, other, equal_nan=True):
                    yield name


def _is_near(one: F64, other: F64, room: F64) -> bool:
    same = (one == other) | (np.isnan(one) & np.isnan(other)) | np.isnan(room)
    return bool((same | (np.abs(one - other) <= room)).all())
