"""Correct kernels of every op pass at the ends of dtypes: one element, zeros of both signs, the smallest and largest
numbers. `fuzz/tests/nightly/quality/test_extremes.py` has them under all contracts, in C too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fuzz.core.adapters.pack import load
from fuzz.quality.calibrate.contracts import accused, case_of, ends_of, problems
from fuzz.tests.common.other_ops import write_other_ops
from fuzz.tests.common.own_dims import write_dims_pack
from fuzz.tests.common.own_pack import unknown_afterwards
from oracles.formula.contract import Contract
from oracles.formula.trace import Node, Outputs, dot, rsqrt, total
from oracles.op import Op
from oracles.operand import Operand
from oracles.ops import OPS, register
from oracles.problem import Problem
from oracles.simulated.simulation import simulate
from oracles.summation import Sequential
from oracles.truth import Truth

CONTRACTS = (
    (Contract(), ("f32", "f16")),
    (Contract(compute="f64", fused=False), ("f64",)),
    (Contract("input", denormals="flush", zeros="any", saturate=True), ("bf16",)),
)


def inverse_sum(x: Node) -> Outputs:
    """y = 1 / sum x, r = rsqrt(sum x)."""
    whole = total(x, "n")
    return {"y": 1.0 / whole, "r": rsqrt(whole)}


def inner(a: Node, b: Node) -> Outputs:
    """y = sum of a b along each row."""
    return {"y": dot(a, b, "n")}


X, Y = Operand("x", "... n"), Operand("y", "...")
TOYS = (
    Op(inverse_sum, (X,), (Y, Operand("r", "..."))),
    Op(inner, (Operand("a", "... n"), Operand("b", "... n")), (Y,)),
)


@pytest.fixture(autouse=True)
def _known(tmp_path: Path) -> Iterator[None]:
    with unknown_afterwards():
        for name, write in (("other", write_other_ops), ("dims", write_dims_pack)):
            (tmp_path / name).mkdir()
            write(tmp_path / name)
            load(tmp_path / name)
        for op in TOYS:
            register(op)
        yield


@pytest.mark.whole
def test_correct_kernels_of_every_op_pass() -> None:
    for op in OPS.values():
        for seed, (contract, dtypes) in enumerate(CONTRACTS):
            for number, problem in enumerate(problems(op, dtypes, 1, seed)):
                assert [*accused(problem, contract, number)] == [], op.name


def test_the_ends_are_numbers_of_their_dtype_and_a_case_has_them() -> None:
    for dtype, least, most in (("f32", 2.0**-149, 2.0**128 - 2.0**104), ("f64", 2.0**-1074, np.finfo(float).max)):
        assert (ends_of(dtype)[2], ends_of(dtype)[-1]) == (least, most)
    (problem,) = problems(OPS["inner"], ["f32"], 1, 0)
    case = case_of(problem)
    assert np.signbit(problem.inputs["a"]).any()
    assert case.inputs["a"].bits == problem.inputs["a"].tobytes()
    assert case.outputs["y"].layout.shape == (24,)


def _results(op: str, contract: Contract, inputs: dict[str, list[list[float]]], dtype: str, **got: float) -> list[str]:
    stored = np.float32 if dtype == "f32" else np.float64
    problem = Problem(
        op, {}, {name: np.array(each, stored) for name, each in inputs.items()}, dict.fromkeys(got, dtype)
    )
    checks = Truth(problem).check(contract, {name: np.array([each], stored) for name, each in got.items()})
    return [check.result for check in checks]


@pytest.mark.parametrize("zeros", ["ieee", "any"])
def test_a_sum_of_negative_zeros_may_have_either_sign(zeros: str) -> None:
    """It is -0 of a kernel that begins with its first term, and +0 of one that begins with 0.0."""
    contract = Contract(zeros=zeros)  # type: ignore[arg-type]
    for row in ([[-0.0]], [[-0.0, -0.0]]):
        for infinity in (np.inf, -np.inf):
            assert _results("inverse_sum", contract, {"x": row}, "f32", y=infinity, r=infinity) == ["pass", "pass"]
        for wrong in (0.0, 1.0, np.nan, -3e38):
            assert "pass" not in _results("inverse_sum", contract, {"x": row}, "f32", y=wrong, r=wrong), wrong


def test_a_sum_that_is_positive_in_every_kernel_has_one_sign() -> None:
    assert _results("inverse_sum", Contract(), {"x": [[0.0, 0.0]]}, "f32", y=np.inf, r=np.inf) == ["pass", "pass"]
    assert "pass" not in _results("inverse_sum", Contract(), {"x": [[0.0, 0.0]]}, "f32", y=-np.inf, r=-np.inf)


def test_each_product_that_underflows_in_f64_may_be_half_a_smallest_number_off() -> None:
    contract = Contract(compute="f64", sums={"n": Sequential()})
    row = {"a": [[2.0**-1000] * 8], "b": [[2.0**-76] * 8]}  # each product is a quarter of the smallest number
    for passes, value in ((True, 0.0), (True, 2.0**-1073), (False, 2.0**-1060), (False, -(2.0**-1069))):
        assert (_results("inner", contract, row, "f64", y=value) == ["pass"]) is passes, value


@pytest.mark.parametrize(("dtype", "least"), [("f64", 2.0**-1074), ("f32", 2.0**-149)])
def test_a_cast_to_the_dtype_that_a_number_has_flushes_nothing(dtype: str, least: float) -> None:
    """It is no operation: neither do simulated kernels have a zero there, nor may others."""
    contract = Contract(compute="f64", points={"a": "input", "b": "input"}, denormals="flush results")
    stored = np.float32 if dtype == "f32" else np.float64
    inputs = {"a": np.array([[[least]]], stored), "b": np.array([[[2.0**100]]], stored)}
    of = Problem("matmul", {}, inputs, {"c": dtype}, structured=True)
    for seed in range(8):
        assert simulate(of, contract, np.random.default_rng(seed))["c"].item() == least * 2.0**100
    (check,) = Truth(of).check(contract, {"c": np.array([[[0.0]]], stored)})
    assert check.result == "numeric"
