"""Ops with several named dimensions, some of which the first input does not have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from oracles.formula.contract import Contract
from oracles.formula.made import grown
from oracles.formula.trace import Node, Outputs, dot, exp, greatest, point, position, take, total, where
from oracles.op import Op
from oracles.operand import OUTER, Operand, Parameter
from oracles.problem import Problem
from oracles.rounding import STORAGE
from oracles.simulated.simulation import simulate
from oracles.summation import AnyOrder, Lanes, Tiles
from oracles.truth import Truth


def product(a: Node, b: Node) -> Outputs:
    """c = a b."""
    return {"c": dot(a, b, "k")}


PRODUCT = Op(product, (Operand("a", "... m k"), Operand("b", "... k n")), (Operand("c", "... m n"),))


def gemm(a: Node, b: Node, bias: Node | None = None, *, alpha: Node) -> Outputs:
    """The transpose of alpha a b + bias, and the sums of its columns."""
    scaled = alpha * dot(a, b, "k")
    c = scaled if bias is None else scaled + bias
    return {"c": c, "sums": total(c, "m")}


GEMM = Op(
    gemm,
    inputs=(Operand("a", "m k"), Operand("b", "k n"), Operand("bias", "n", optional=True)),
    outputs=(Operand("c", "n m"), Operand("sums", "n", optional=True)),
    parameters=(Parameter("alpha", (1.0, 0.5)),),
)


def attend(q: Node, k: Node, v: Node, mask: Node | None = None, *, scale: Node, causal: Node | float = 0.0) -> Outputs:
    """o = softmax(scale q k^T) v along j, over what position and mask leave; 0 where it leaves nothing."""
    seen = position("j") * causal <= position("i")
    scores = where(seen, scale * dot(q, k, "d"), -np.inf)
    scores = scores if mask is None else scores + mask
    most = greatest(scores, "j")
    p = exp(scores - where(-np.inf < most, most, 0.0))
    mass = total(p, "j")
    return {"o": where(mass > 0.0, dot(point(p), v, "j") / mass, 0.0)}


ATTEND = Op(
    attend,
    inputs=(
        Operand("q", "... i d"), Operand("k", "... j d"), Operand("v", "... j e"),
        Operand("mask", "i j", optional=True),
    ),
    outputs=(Operand("o", "... i e"),),
    parameters=(Parameter("scale", (1.0, 0.125)), Parameter("causal", (0.0, 1.0), neutral=0.0)),
)  # fmt: skip


def turn(x: Node, cos: Node, sin: Node) -> Outputs:
    """The halves of x as coordinates, turned."""
    first, second = take(x, 0, "half"), take(x, 1, "half")
    return {"y": where(position("half") <= 0.0, first * cos - second * sin, second * cos + first * sin)}


TURN = Op(
    turn,
    inputs=(Operand("x", "... t half p"), Operand("cos", "t p"), Operand("sin", "t p")),
    outputs=(Operand("y", "... t half p"),),
    fixed={"half": 2},
)
ALL = (PRODUCT, GEMM, ATTEND, TURN)


def problem(
    op: Op, extents: Mapping[str, int], outer: tuple[int, ...], dtype: str, seed: int, *, out: str = "", spread: int = 0
) -> Problem:
    """Normal values, times powers of two up to 2^spread; half of the problems have what is optional."""
    random = np.random.default_rng(seed)
    inputs, there = {}, bool(random.integers(2))
    for each in op.inputs:
        if each.optional and not there:
            continue
        shape = [size for dim in each.axes for size in (outer if dim == OUTER else (extents[dim],))]
        values = random.normal(size=shape) * 2.0 ** random.integers(-spread, spread + 1, shape)
        with np.errstate(over="ignore"):
            values = np.where(values < -0.5, -np.inf, 0.0) if each.name == "mask" else values
            inputs[each.name] = values.astype(STORAGE[dtype])
    outputs = {
        each.name: each.dtype if each.integers else out or dtype for each in op.outputs if there or not each.optional
    }
    params = {each.name: float(random.choice(each.values)) for each in op.parameters}
    return Problem(op.name, {**params, "axis": inputs[op.main].ndim - 1}, inputs, outputs, structured=spread > 3)


CONTRACTS: Mapping[str, Contract] = {
    "plain": Contract("f32"),
    "lanes": Contract("f32", sums={dim: Lanes(4, 2, "scalar") for dim in "kdj"}),
    "any": Contract("f32", sums={dim: AnyOrder() for dim in "kdj"}, accuracy={"exp": 4.0, "divide": 2.0}),
    "flush": Contract("f32", denormals="flush"),
    "input": Contract("input", sums={dim: Tiles(4) for dim in "kdj"}),
    "wild": Contract("f32", nonfinite="unspecified", saturate=True, zeros="any"),
    "narrow": Contract("f32", points={"p": "bf16"}),
}


def unsound(op: Op, seeds: Iterable[int]) -> list[str]:
    """Simulated kernels that keep their contract and do not pass, under all of these, on problems of any extents."""
    found = []
    for seed in seeds:
        random = np.random.default_rng(seed)
        extents = {dim: int(random.choice([0, 1, 2, 3, 5, 8, 17])) for dim in op.named} | {**op.fixed}
        extents = grown(op.made, extents, op.fixed)
        outer = tuple(map(int, random.choice([0, 1, 2, 3], random.integers(3)))) if OUTER in op.inputs[0].axes else ()
        for number, (name, contract) in enumerate(CONTRACTS.items()):
            dtype, out = (("f32", ""), ("bf16", "f32"), ("f16", ""), ("f64", ""))[(seed + number) % 4]
            of = problem(op, extents, outer, dtype, seed, out=out, spread=3 * (seed % 5))
            outputs = simulate(of, contract, random)
            found += [
                f"{name} {dtype} {extents} {outer}: {check}"
                for check in Truth(of).check(contract, outputs)
                if check.result != "pass"
            ]
    return found
