"""Simulated kernels of every formula, on millions of elements: none is outside of its budget."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from oracles.formula.contract import Contract
from oracles.summation import Lanes, Pairwise, Summation, Tiles
from oracles.tests.common.formulas import FORMULAS
from oracles.tests.common.simulated import simulated

_ORDERS: Mapping[str, Summation] = {"n": Tiles(32), "k": Lanes(8, 2, "scalar"), "j": Pairwise(4), "...": Pairwise(2)}
CONTRACTS = {
    "plain": Contract(),
    "orders": Contract(sums=_ORDERS),
    "sloppy": Contract(
        accuracy={"rsqrt": 4.0, "exp": 8.0, "divide": 2.5, "tanh": 6.0, "sigmoid": 5.0}, mean="reciprocal"
    ),
    "flush": Contract(denormals="flush"),
    "narrow": Contract(dtypes={"rstd": "f16", "e": "f16", "h": "f16"}, points={"p": "f16"}),
}


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize("name", FORMULAS)
def test_no_correct_kernel_is_outside_of_many(name: str, contract: str) -> None:
    for n, rows in ((3, 40), (64, 20), (1000, 6)):
        found = simulated(name, np.float32, n, rows, CONTRACTS[contract], seed=n)
        assert not found.outside, found


@pytest.mark.parametrize("name", FORMULAS)
def test_no_correct_kernel_in_sixteen_bits_is_outside(name: str) -> None:
    for n, rows in ((2, 60), (48, 20), (300, 4)):
        for contract in (Contract("f16"), Contract()):
            found = simulated(name, np.float16, n, rows, contract, seed=n)
            assert not found.outside, found
