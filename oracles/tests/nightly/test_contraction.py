"""Many hostile products of matrices, and large ones: bounded in time and memory."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest

from oracles.formula.contract import Contract
from oracles.problem import Problem
from oracles.rounding import STORAGE
from oracles.summation import AnyOrder
from oracles.tests.common.contractions import OPS, apart, at_once, hostile
from oracles.tests.common.judged import known
from oracles.tests.common.tiers import disagreements
from oracles.truth import Truth


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    with known(*OPS):
        yield


@pytest.mark.parametrize("part", range(8))
def test_no_output_may_be_another_where_few_products_are_formed_at_once(part: int) -> None:
    for seed in range(1000 + 250 * part, 1250 + 250 * part):
        of, contract = hostile(seed)
        assert not apart(of, contract), f"{seed}: {of.op} {of.outputs} {contract}"


@pytest.mark.parametrize("part", range(4))
def test_both_tiers_say_the_same_of_hostile_products(part: int) -> None:
    random = np.random.default_rng(part)
    with at_once(4):
        for seed in range(1000 + 50 * part, 1050 + 50 * part):
            of, contract = hostile(seed, most=9)
            _, _, wrong = disagreements(of, contract, random)
            assert not wrong, wrong[0]


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16", "f64"])
def test_a_large_product_is_judged_in_bounded_time_and_memory(dtype: str, special: bool) -> None:
    """16 million products: 0.2 CPU-seconds in f32, 0.05 in 16 bits, 1 in f64, and more with special values."""
    random = np.random.default_rng(0)
    a, b = (random.normal(size=shape) for shape in ((128, 1024), (1024, 128)))
    if special:
        a[random.random(a.shape) < 1e-3] = np.inf
    compute = "f64" if dtype == "f64" else "f32"
    contract = Contract(compute, sums={"k": AnyOrder()}, zeros="any")
    a, b = (each.astype(STORAGE[dtype]).astype(STORAGE[compute]) for each in (a, b))
    with np.errstate(all="ignore"):
        c = (a @ b).astype(STORAGE[dtype])
    inputs = {"a": a.astype(STORAGE[dtype]), "b": b.astype(STORAGE[dtype])}
    of = Problem("product", {"axis": 1}, inputs, {"c": dtype})
    start = time.process_time()
    assert [check.result for check in Truth(of).check(contract, {"c": c})] == ["pass"]
    assert time.process_time() - start < (8.0 if dtype == "f64" else 2.0)
    tracemalloc.start()
    try:
        Truth(of).check(contract, {"c": c})
        assert tracemalloc.get_traced_memory()[1] < 64e6
    finally:
        tracemalloc.stop()
