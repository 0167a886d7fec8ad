"""What is said of a row does not depend on the rows that stand beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from oracles.formula.contract import Contract
from oracles.formula.exact.rigorous import Near, Rigorous
from oracles.formula.trace import (
    Formula,
    avg,
    greatest,
    point,
    rsqrt,
    total,
    welford_mean,
    welford_squares,
    where,
)
from oracles.ops import OPS
from oracles.summation import Lanes
from oracles.tests.common.rows import any_contract, differences, formula_differences, joined_rows

TINY = float(np.finfo(np.float64).tiny)
NEAR, SMALL, PLAIN = [2.0**64 - 2.0**40, 1.0, 1.0], [2.0**-75, 2.0**-75, 0.0], [1.0, 2.0, 3.0]
FLUSH_OPERANDS, FLUSH_RESULTS = Contract("f64", denormals="flush operands"), Contract("f64", denormals="flush results")
Case = tuple[Formula, Contract, Mapping[str, Sequence[Sequence[float]]]]
CASES: Mapping[str, Case] = {
    "a sum in float64 beside one that may be flushed": (
        lambda x, z: {"y": (x + z) * z}, FLUSH_RESULTS,
        {"x": [[1.5 * TINY, TINY], [0.3, 0.7]], "z": [[-TINY, 1.0], [2.0**-60, 0.1]]},
    ),
    "a sum in float64 beside one of what may be flushed": (
        lambda x, z: {"y": (x + z) * z}, FLUSH_OPERANDS,
        {"x": [[TINY / 2, TINY], [0.3, 0.7]], "z": [[0.0, 1.0], [2.0**-60, 0.1]]},
    ),
    "an output that is such a sum": (
        lambda x, z: {"y": x + z}, FLUSH_OPERANDS,
        {"x": [[TINY / 2, 1.0], [0.3, 0.7]], "z": [[0.1, 1.0], [2.0**-60, 0.1]]},
    ),
    "squares that vanish beside what may be flushed": (
        lambda x: {"y": total(x * x, "n")}, FLUSH_OPERANDS,
        {"x": [[2.0**-540, 2.0**-541], [2.0**-1030, 1.0]]},
    ),
    "a subnormal number of a point beside what may be flushed before": (
        lambda x, z: {"y": point(x) * z}, Contract("f32", points={"x": "f16"}, denormals="flush"),
        {"x": [[2.0**-20, 1.0], [2.0**-140, 1.0]], "z": [PLAIN[:2]] * 2},
    ),
    "what overflows in some kernels beside an infinity": (
        lambda x: {"y": rsqrt(total(x * x, "n"))}, Contract("f32"), {"x": [NEAR, [np.inf, 1.0, 1.0]]},
    ),
    "what overflows in some kernels beside a divisor that may be anything": (
        lambda x, z: {"y": total(x * x, "n") / total(z, "n")}, Contract("f32"),
        {"x": [NEAR, PLAIN], "z": [PLAIN, [3e38, 3e38, -3e38]]},
    ),
    "a root at its pole beside a pole of the other factor": (
        lambda x, z: {"y": rsqrt(total(x * x, "n")) * rsqrt(total(z * z, "n"))}, Contract("f32"),
        {"x": [SMALL, PLAIN, PLAIN, SMALL], "z": [PLAIN, SMALL, PLAIN, SMALL]},
    ),
    "a long sum beside one whose root may be of zero": (
        lambda x: {"y": rsqrt(avg((c := x - welford_mean(x, "n")) * c, "n") + 2.0**-27)},
        Contract("f32", sums={"n": Lanes(16, 4, "predicated")}, denormals="flush operands"),
        {"x": [[100.0] * 89, [1000.0] * 89]},
    ),
    "squares that overflow in some kernels, and their mean nowhere, beside one that does": (
        lambda x: {"y": welford_squares(x, "n") / 4.0}, Contract("f32"), {"x": [[1.5e19, -1.5e19], [1e20, -1e20]]},
    ),
    "a number of largest elements beside one of what may be flushed": (
        lambda x: {"y": x / total(where(x == greatest(x, "n"), 1.0, 0.0), "n")}, Contract("f32", denormals="flush"),
        {"x": [[1.0, 1.5], [2.0**-130, 0.0]]},
    ),
    "one element beside another is no constant": (
        lambda x, z: {"y": where(x <= z, x, point(z)) * point(z) + x},
        Contract("f32", points={"z": "bf16"}, fused=False),
        {"x": [[1.0], [1 + 2.0**-20]], "z": [[3.0], [2.0]]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_row_is_the_same_beside(case: str) -> None:
    formula, contract, tensors = CASES[case]
    dtype = np.float64 if contract.compute == "f64" else np.float32
    found = list(formula_differences(formula, contract, **{k: np.array(rows, dtype) for k, rows in tensors.items()}))
    assert not found, found[0]


@pytest.mark.some(1)
@pytest.mark.parametrize("op", [name for name, op in OPS.items() if op.any_axis and not op.least])
def test_a_row_of_any_problem_is_the_same_by_itself_and_among_others(op: str) -> None:
    rng = np.random.default_rng(6)
    for number in range(8):
        problem, tensors = joined_rows(OPS[op], ("f64", "f32", "f16", "bf16")[number % 4], 1 + number % 7, rng)
        contract = any_contract(problem, rng)
        found = list(differences(problem, contract, number % 2 == 0, tensors))
        assert not found, f"{found[0]}, {problem.problem}, {contract}"


def test_a_difference_that_is_exact_is_so_beside_one_of_infinities() -> None:
    """It may be a tie in fewer bits: what is wrong of it by nothing at all decides that."""
    a, b = np.array([-200.0, np.inf]), np.array([92.375, np.inf])
    with np.errstate(invalid="ignore"):
        found = Rigorous().operate("subtract", Near(a), Near(b))
    assert np.broadcast_to(found.error, a.shape)[0] == 0
