"""Toy ops that are judged from their formulas, their problems, and simulated kernels of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.dtypes import form
from oracles.formula.contract import Contract
from oracles.formula.exact.centre import Inputs
from oracles.formula.trace import Node, Outputs, erf, exp, greatest, point, total
from oracles.op import Op
from oracles.operand import Operand, Parameter
from oracles.ops import OPS, register
from oracles.problem import Problem
from oracles.rounding import stored_as
from oracles.simulated.simulation import Order, Simulated
from oracles.tests.common.formulas import HARD
from oracles.tests.common.ops import LAYER_NORM, LAYER_NORM_BACKWARD
from oracles.tiers.problem import FormulaProblem
from oracles.truth import OutputCheck, Truth

X = Operand("x", "... n")
PLAIN = Contract("f32")


def toy_gelu(x: Node, residual: Node, bias: Node | None = None, *, scale: Node) -> Outputs:
    """y = gelu(x + bias) scale residual."""
    shifted = x if bias is None else x + bias
    half = 0.5 * shifted
    return {"y": half * (1.0 + erf(shifted * 0.7071067811865476)) * scale * residual}


def toy_softmax(x: Node) -> Outputs:
    """y = e^(x - max) / sum of those."""
    e = exp(x - greatest(x, "n"))
    p = e / total(e, "n")
    return {"y": point(p)}


GELU = Op(
    toy_gelu,
    inputs=(X, Operand("residual", "... n"), Operand("bias", "n", optional=True, stackable=True)),
    outputs=(Operand("y", "... n"),),
    parameters=(Parameter("scale", (1.0, 0.5, -3.0), neutral=1.0),),
)
SOFTMAX = Op(toy_softmax, inputs=(X,), outputs=(Operand("y", "... n"),))
TOYS = (GELU, SOFTMAX, LAYER_NORM, LAYER_NORM_BACKWARD)


@contextmanager
def known(*ops: Op) -> Iterator[None]:
    """Ops that are known inside, in the place of others of their names, and forgotten afterwards."""
    before = dict(OPS)
    for op in ops:
        OPS.pop(op.name, None)
        register(op)
    try:
        yield
    finally:
        OPS.clear()
        for name, op in before.items():
            OPS[name] = op


def problem(
    op: Op, kind: str, dtype: str, shape: Sequence[int], rng: np.random.Generator, *, axis: int = -1,
    without: Sequence[str] = (), out: str = "",
) -> Problem:  # fmt: skip
    """A problem of an op: the first input is hard, the others are normal; statistics are in f32 or wider."""
    inputs = dict[str, NDArray[Any]]()
    for operand in op.inputs:
        if operand.name not in without:
            z = rng.normal(size=op.shape(operand.name, tuple(shape), axis % len(shape)))
            if operand.name == op.main:
                z = np.moveaxis(HARD[kind](np.moveaxis(z, axis, -1), form(dtype)), -1, axis)
            with np.errstate(over="ignore"):
                inputs[operand.name] = z.astype(stored_as(dtype))
    outputs = {
        each.name: (out or dtype) if each.name in op.alike else "f64" if dtype == "f64" else "f32"
        for each in op.outputs
        if each.name not in without
    }
    params = {each.name: each.values[5 % len(each.values)] for each in op.parameters if each.name not in without}
    return Problem(op.name, {**params, "axis": axis}, inputs, outputs)


def kernel(
    of: Problem, contract: Contract, rng: np.random.Generator, order: Order = "declared", fused: bool = False
) -> Simulated:
    """A simulated kernel on a problem."""
    op = FormulaProblem(of)
    settled = op.settled(contract)
    inputs = Inputs(op.formulas(settled)[0].trace, op.tensors, op.parameters)
    return Simulated(inputs, settled, rng, order, fused)


def returned(of: Problem, simulated: Simulated) -> Mapping[str, NDArray[Any]]:
    """The outputs of a simulated kernel, as a kernel returns them."""
    op, found = FormulaProblem(of), dict[str, NDArray[Any]]()
    for name, dtype in of.outputs.items():
        values = op.returned(name, simulated.output(name, dtype))
        with np.errstate(over="ignore"):
            found[name] = np.ascontiguousarray(values).astype(stored_as(dtype))
    return found


def simulated(of: Problem, contract: Contract = PLAIN, seed: int = 0) -> dict[str, NDArray[Any]]:
    """The outputs of a simulated kernel, which forms its sums in the order declared."""
    return dict(returned(of, kernel(of, contract, np.random.default_rng(seed))))


def results(of: Problem, contract: Contract, outputs: Mapping[str, NDArray[Any]]) -> list[str]:
    """What is said of each output under a contract."""
    return [check.result for check in Truth(of).check(contract, outputs)]


def judged(of: Problem, contract: Contract, simulated: Simulated) -> tuple[OutputCheck, ...]:
    """What is said of a simulated kernel under a contract."""
    return Truth(of).check(contract, returned(of, simulated))
