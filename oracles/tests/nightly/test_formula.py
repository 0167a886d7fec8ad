"""Simulated kernels of every formula, on millions of elements: none is outside of its budget."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from oracles.algorithm import traced
from oracles.formula.contract import Contract
from oracles.op import Op
from oracles.ops import OPS
from oracles.summation import Lanes, Pairwise, Summation, Tiles
from oracles.tests.common.formulas import FORMULAS
from oracles.tests.common.ops import LAYER_NORM_BACKWARD
from oracles.tests.common.simulated import simulated

_ORDERS: Mapping[str, Summation] = {"n": Tiles(32), "k": Lanes(8, 2, "scalar"), "j": Pairwise(4), "...": Pairwise(2)}
CONTRACTS = {
    "plain": Contract("f32"),
    "orders": Contract("f32", sums=_ORDERS),
    "sloppy": Contract(
        "f32", accuracy={"rsqrt": 4.0, "exp": 8.0, "divide": 2.5, "tanh": 6.0, "sigmoid": 5.0}, mean="reciprocal"
    ),
    "flush": Contract("f32", denormals="flush"),
    "flush operands": Contract("f32", denormals="flush operands", sums=_ORDERS),
    "flush results": Contract("f32", denormals="flush results"),
    "wild": Contract("f32", nonfinite="unspecified", saturate=True, zeros="any"),
    "narrow": Contract("f32", dtypes={"rstd": "f16", "e": "f16", "h": "f16"}, points={"p": "f16"}),
}


WAYS = [
    (op, local, algorithm)
    for op in (LAYER_NORM_BACKWARD, *OPS.values())
    if {*op.params} <= {"eps", "weight_offset", "axis"}
    for local, known in op.algorithms.items()
    for algorithm in known
]


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize("name", FORMULAS)
def test_no_correct_kernel_is_outside_of_many(name: str, contract: str) -> None:
    for n, rows in ((3, 40), (64, 20), (1000, 6)):
        found = simulated(name, np.float32, n, rows, CONTRACTS[contract], seed=n)
        assert not found.outside, found


@pytest.mark.parametrize("name", FORMULAS)
def test_no_correct_kernel_in_sixteen_bits_is_outside(name: str) -> None:
    for n, rows in ((2, 60), (48, 20), (300, 4)):
        for contract in (Contract("f16"), Contract("f32"), Contract("f16", denormals="flush")):
            found = simulated(name, np.float16, n, rows, contract, seed=n)
            assert not found.outside, found


@pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join((way[0].name, *way[1:])))
def test_nor_is_one_of_another_algorithm(way: tuple[Op, str, str]) -> None:
    op, local, algorithm = way
    needed = {each.name for each in op.parameters if each.neutral is None}
    graph = traced(op, {each.name for each in op.operands} | needed, {local: algorithm})
    for n, rows in ((3, 40), (64, 10)):
        for contract in (Contract("f32"), CONTRACTS["orders"], CONTRACTS["flush"]):
            found = simulated(graph, np.float32, n, rows, contract, seed=n)
            assert not found.outside, found
        found = simulated(graph, np.float16, n, rows, Contract("f16"), seed=n)
        assert not found.outside, found
