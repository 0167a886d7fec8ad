"""Contracts that differ only in where they round are told apart, and correct kernels of every contract pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from oracles import AnyOrder, Blocks, Contract, Lanes, Pairwise, Sequential, Steps, Summation, Tiles
from oracles.dtypes import DtypeError, form
from oracles.formula.trace import Node, Outputs
from oracles.op import Op
from oracles.operand import Operand
from oracles.ops import OPS
from oracles.problem import Problem, ProblemError
from oracles.rounding import STORAGE, round_to
from oracles.simulated.simulation import ORDERS
from oracles.summation import NumericsError
from oracles.tests.common.adversary import row, store
from oracles.tests.common.judged import kernel, problem, results, returned, simulated
from oracles.tiers.problem import FormulaProblem
from oracles.truth import Truth

EPS = 2.0**-17
STRUCTURES: tuple[Summation, ...] = (
    Sequential(),
    Lanes(4, 4, "scalar"),
    Lanes(8, 4, "predicated"),
    Lanes(12, 4, "predicated"),
    Tiles(256),
    Pairwise(8),
    Blocks(16),
    AnyOrder(),
    Steps(16),
)
RMS_NORM = ("rms_norm", "fused_add_rms_norm", "rms_norm_backward", "fused_add_rms_norm_backward")
POINTS = {
    "gemma": Contract(fused=False),
    "llama": Contract(points={"h": "input"}, fused=False),
    "none": Contract("input", points={"eps": "input"}, fused=False),
    "wide": Contract("f64", dtypes={"h": "f32", "w": "f32", "y": "f32"}, mean="reciprocal", fused=False),
}
"""Roundings in other places."""


def data(n: int, dtype: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return store(rng.standard_normal((4, n)), dtype), store(rng.standard_normal(n) * 2, dtype)


def passes(of: Problem, contract: Contract, outputs: dict[str, np.ndarray]) -> bool:
    return {*results(of, contract, outputs)} == {"pass"}


@pytest.mark.some(1)
@pytest.mark.parametrize("op", RMS_NORM)
@pytest.mark.parametrize("structure", STRUCTURES)
def test_correct_kernels_pass(structure: Summation, op: str) -> None:
    rng = np.random.default_rng(len(op))
    for number, n in enumerate((1, 2, 7, 65, 257)):
        for place, base in enumerate(POINTS.values()):
            dtype = ("f64", "f32", "f16", "bf16")[(number + place) % 4]
            contract = replace(base, sums={"n": structure, "...": structure})
            if dtype == "f64":
                contract = replace(contract, compute="f64", dtypes={})
            if op.endswith("backward") and number % 2:
                contract = replace(contract, algorithm={"dx": "rstd3"})
            of = problem(OPS[op], "normal", dtype, (3, n), rng)
            order = ORDERS[(number + place) % 5]
            got = returned(of, kernel(of, contract, rng, order, fused=False))
            assert passes(of, contract, dict(got)), (contract, dtype, n, order)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_places_of_roundings_are_told_apart(dtype: str) -> None:
    x, weight = data(512, dtype)
    of = Problem("rms_norm", {"eps": EPS}, {"x": x, "weight": weight}, {"y": dtype})
    for promised in ("gemma", "llama", "none"):
        for done in ("gemma", "llama", "none"):
            # Everything in 16 bit, sums included, promises so little that the others keep it too.
            kept = promised in (done, "none")
            assert passes(of, POINTS[promised], simulated(of, POINTS[done])) == kept, (promised, done)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_rstd_rounded_to_16_bit_is_rejected(dtype: str) -> None:
    x, _ = data(64, dtype)
    of = Problem("rms_norm", {"eps": EPS}, {"x": x}, {"y": dtype, "rstd": "f32"})
    root = simulated(of)["rstd"].astype(STORAGE[dtype])
    y = (x.astype(np.float32) * root.astype(np.float32)[:, None]).astype(STORAGE[dtype])
    assert results(of, Contract(), {"y": y, "rstd": root.astype(np.float32)}) == ["numeric", "numeric"]
    assert passes(replace(of, outputs={"rstd": dtype}), Contract(), {"rstd": root})


def test_one_plus_weight_formed_in_bf16_is_a_contract() -> None:
    x, _ = data(64, "bf16")
    weight = store(np.random.default_rng(1).uniform(2, 16, 64), "bf16")
    of = Problem("rms_norm", {"eps": EPS, "weight_offset": 1.0}, {"x": x, "weight": weight}, {"y": "bf16"})
    early, late = Contract(dtypes={"w": "weight"}, fused=False), Contract(fused=False)
    for promised in (early, late):
        for done in (early, late):
            assert passes(of, promised, simulated(of, done)) == (promised == done)


def test_double_rounding_of_fp8_is_rejected() -> None:
    """Rounding through bf16 on the way to e4m3fn differs where bf16 makes a tie."""
    x, weight = data(4096, "f32")
    of = Problem("rms_norm", {"eps": EPS}, {"x": x, "weight": weight}, {"y": "e4m3fn"})
    exact = simulated(replace(of, outputs={"y": "f32"}))["y"].astype(np.float64)
    assert results(of, Contract(), {"y": store(exact, "e4m3fn")}) == ["pass"]
    assert results(of, Contract(), {"y": store(round_to(exact, form("bf16")), "e4m3fn")}) == ["numeric"]


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_a_rounded_residual_is_told_apart(dtype: str) -> None:
    inputs = {"x": data(256, dtype)[0], "residual": data(256, dtype, 5)[0]}
    of = Problem("fused_add_rms_norm", {"eps": EPS}, inputs, {"y": dtype, "sum": dtype})
    ways = (Contract(fused=False), Contract(points={"added": "sum"}, fused=False))
    for promised in ways:
        for done in ways:
            y, added = results(of, promised, simulated(of, done))
            assert added == "pass"
            assert (y == "pass") == (promised == done)


def test_eps_in_the_input_dtype() -> None:
    """In f16, eps below 2^-25 is 0; a row near it tells."""
    x = store(np.random.default_rng(0).standard_normal((2, 64)) * 2.0**-12, "f16")
    of = Problem("rms_norm", {"eps": 1e-8}, {"x": x}, {"y": "f16"})
    ways = (Contract(fused=False), Contract(points={"eps": "input"}, fused=False))
    for promised in ways:
        for done in ways:
            assert passes(of, promised, simulated(of, done)) == (promised == done)


def test_flushing_is_a_contract() -> None:
    of = Problem("rms_norm", {"eps": 2.0**60}, {"x": np.full((1, 8), 1e-30, "<f4")}, {"y": "f32"}, structured=True)
    y = simulated(of)["y"]
    assert 0 < y[0, 0] < 2.0**-126
    assert results(of, Contract(), {"y": y}) == ["pass"]
    assert results(of, Contract(), {"y": y * 0}) == ["numeric"]
    assert results(of, Contract(denormals="flush"), {"y": y * 0}) == ["pass"]


def test_bad_problems_name_the_field() -> None:
    x, weight = data(8, "f32")
    good = Problem("rms_norm", {"eps": 0.0}, {"x": x}, {"y": "f32"})
    y = np.zeros((4, 8), np.float32)
    bad: dict[str, Callable[[], object]] = {
        "op:": lambda: Truth(replace(good, op="rmsnorm")),
        "params.eps:": lambda: replace(good, params={"eps": -1.0}),
        "params.axis:": lambda: Truth(replace(good, params={"axis": 2})),
        "inputs.x:": lambda: Truth(replace(good, inputs={})),
        "inputs.weight:": lambda: Truth(replace(good, inputs={"x": x, "weight": weight[1:]})),
        "outputs.z:": lambda: Truth(replace(good, outputs={"z": "f32"})),
        "outputs.y: unknown": lambda: replace(good, outputs={"y": "f33"}),
        "outputs.y: shape": lambda: Truth(good).check(Contract(), {"y": y[1:]}),
        "outputs.y: dtype": lambda: Truth(good).check(Contract(), {"y": y.astype(np.float64)}),
        "outputs.y: not": lambda: Truth(good).check(Contract(), {}),
    }
    bad |= {
        "outputs.z: not an": lambda: Truth(good).explain(Contract(), "z", (0, 0)),
        "outputs.y: no element": lambda: Truth(good).explain(Contract(), "y", (0, 8)),
    }
    for message, call in bad.items():
        with pytest.raises((ProblemError, DtypeError), match=f"^{message}"):
            call()
    with pytest.raises(NumericsError, match=r"^summation:"):
        Lanes(0, 4, "scalar")


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_any_axis(axis: int) -> None:
    x = row("normal", 60, "f32", np.random.default_rng(0)).reshape(3, 4, 5)
    of = Problem("rms_norm", {"eps": EPS, "axis": axis}, {"x": x}, {"y": "f32", "rstd": "f32"})
    root = (1 / np.sqrt(np.mean(x.astype(np.float64) ** 2, axis=axis, keepdims=True) + EPS)).astype(np.float32)
    got = {"y": x * root, "rstd": root.squeeze(axis)}
    assert passes(of, Contract(), got)
    got["y"][2, 1, 3] *= np.float32(1.01)
    check = Truth(of).check(Contract(), got)[0]
    assert (check.worst_index, check.failing, check.contradicts) == ((2, 1, 3), 1, True)
    assert check.mask is not None
    assert check.mask[2, 1, 3]
    explanation = Truth(of).explain(Contract(), "y", (2, 1, 3), float(got["y"][2, 1, 3]))
    assert not explanation.passes
    assert explanation.ratio == pytest.approx(check.worst_ratio, rel=1e-6)


@pytest.mark.some(2)
@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16"])
@pytest.mark.parametrize("op", RMS_NORM)
def test_every_output_can_be_explained(op: str, dtype: str) -> None:
    of = problem(OPS[op], "normal", dtype, (4, 8), np.random.default_rng(3))
    truth, contract = Truth(of), Contract("f64" if dtype == "f64" else "f32")
    for output in of.outputs:
        index = {1: (2,), 2: (3, 7)}[len(truth.op.shape(output))]
        probe, expected = truth.explain(contract, output, index, 0.0), truth.explain(contract, output, index)
        assert not probe.passes
        assert probe.ratio > 1
        assert truth.ulps_off(contract, output, index, 0.0) == pytest.approx(probe.ulp, rel=1e-4)
        assert expected.got == probe.expected
        assert expected.passes
        assert expected.ratio <= 1
        assert abs(expected.ulp) <= 0.5 + 2.0**-30
        assert min(expected.low.value, expected.high.value) <= expected.expected.value
        assert float(expected.exact) == pytest.approx(expected.expected.value, rel=2 * form(of.outputs[output]).u)
        assert expected.facts
        assert all(term.formula for term in expected.terms)


def test_budget_terms_add_up_to_the_width() -> None:
    x, weight = data(100, "f32")
    truth = Truth(Problem("rms_norm", {"eps": 0.5}, {"x": x, "weight": weight}, {"y": "f32", "rstd": "f32"}))
    for output, index in (("y", (1, 5)), ("rstd", (2,))):
        explanation = truth.explain(Contract(), output, index, 0.0)
        bounds = truth.bounds(Contract(), output, index, False)
        assert bounds is not None
        width = float(bounds.high - bounds.low) / 2
        assert sum(term.value for term in explanation.terms[:-1]) == pytest.approx(width, rel=1e-2)


@pytest.mark.parametrize("op", ["rms_norm", "fused_add_rms_norm"])
def test_rows_of_weights(op: str) -> None:
    """Row r of x takes row r mod m of the weight: as if each row of x had a problem of its own."""
    rng = np.random.default_rng(3)
    x, weight = store(rng.standard_normal((2, 3, 40)), "f16"), store(rng.standard_normal((3, 40)) * 2, "f32")
    weight[1, 5], weight[2, 7] = np.nan, np.inf
    inputs = {"x": x, "weight": weight} | ({"residual": np.zeros_like(x)} if "add" in op else {})
    of = Problem(op, {"eps": EPS, "weight_offset": 1.0}, inputs, {"y": "f32"})

    def alone(rows: np.ndarray) -> np.ndarray:
        each = [{k: v[k2] if k == "weight" else v[:, k2] for k, v in inputs.items()} for k2 in range(3)]
        each = [{**one, "weight": w} for one, w in zip(each, rows, strict=True)]
        return np.stack([simulated(replace(of, inputs=one))["y"] for one in each], axis=1)

    y, first = alone(weight), alone(weight[[0, 0, 0]])
    assert results(of, Contract(), {"y": y}) == ["pass"]
    assert results(of, Contract(nonfinite="unspecified"), {"y": y}) == ["pass"]
    assert results(of, Contract(), {"y": first}) != ["pass"]
    assert results(replace(of, inputs={**inputs, "weight": weight[:1]}), Contract(), {"y": first}) == ["pass"]
    y[1, 2, 3] *= np.float32(1.01)
    (check,) = Truth(of).check(Contract(), {"y": y})
    assert (check.worst_index, check.failing) == ((1, 2, 3), 1)
    with pytest.raises(ProblemError, match=r"^inputs\.weight: shape \(2, 40\)"):
        Truth(replace(of, inputs={**inputs, "weight": weight[:2]}))
    with pytest.raises(ProblemError, match=r"^inputs\.weight: shape \(3, 40\), expected \(40,\)"):
        Truth(Problem("rms_norm_backward", {"eps": EPS}, {"x": x, "dy": x, "weight": weight}, {"dx": "f16"}))


@pytest.mark.parametrize("op", ["rms_norm", "fused_add_rms_norm"])
@pytest.mark.parametrize("shape", [(2, 0), (0, 3, 0), (0, 4)])
def test_rows_of_weights_of_nothing(op: str, shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, "f4")
    inputs = {"x": x, "weight": np.ones(shape[-2:], "f4")} | ({"residual": x} if "add" in op else {})
    of = Problem(op, {"eps": EPS, "weight_offset": 1.0}, inputs, {"y": "f32"})
    assert results(of, Contract(), {"y": x}) == ["pass"]


@pytest.mark.parametrize("shape", [(2, 0), (0, 4)])
def test_a_given_rstd_of_rows_without_elements_is_nothing_to_judge(shape: tuple[int, int]) -> None:
    x, weight, rstd = np.zeros(shape, "<f4"), np.zeros(shape[1], "<f4"), np.ones(shape[0], "<f4")
    inputs = {"x": x, "dy": x, "weight": weight, "rstd": rstd}
    of = Problem("rms_norm_backward", {"eps": 0.5}, inputs, {"dx": "f32", "dw": "f32"})
    assert results(of, Contract(), {"dx": x, "dw": weight}) == ["pass", "pass"]


def test_a_code_is_off_by_a_number_of_codes() -> None:
    x = np.array([[127.0, -3.0, 64.0, 0.0]], np.float32)
    truth = Truth(Problem("quantize_rows", {}, {"x": x}, {"q": "int8", "scale": "f32"}))
    assert [truth.ulps_off(Contract(), "q", (0, 2), got) for got in (64.0, 66.0, 61.0)] == [0.0, 2.0, -3.0]
    assert isinstance(truth.ulps_off(Contract(), "q", (0, 2), np.float32(66.0)), float), "not rounded to f32, and JSON"


@pytest.mark.some(3)
@pytest.mark.parametrize("op", ["softmax", "layer_norm", "row_sum", "logsumexp", "rms_norm_backward"])
def test_what_takes_f64_is_calculated_in_it_where_nobody_says_otherwise(op: str) -> None:
    of = problem(OPS[op], "normal", "f64", (3, 17), np.random.default_rng(3))
    wide, narrow = simulated(of, Contract("f64")), simulated(of, Contract("f32"))
    assert passes(of, Contract(), wide)
    assert not passes(of, Contract(), narrow)
    assert passes(of, Contract("f32"), narrow)


@pytest.mark.parametrize(
    ("inputs", "outputs", "compute"),
    [
        ({"x": "f32", "weight": "f64"}, {"y": "f32"}, "f64"),
        ({"x": "bf16", "weight": "f32"}, {"y": "f32"}, "f32"),
        ({"x": "f32"}, {"y": "f64"}, "f32"),
    ],
)
def test_any_input_of_f64_is_enough_and_no_output(
    inputs: Mapping[str, str], outputs: Mapping[str, str], compute: str
) -> None:
    rng = np.random.default_rng(4)
    given = {name: store(rng.standard_normal((4, 9)[name == "weight" :]), dtype) for name, dtype in inputs.items()}
    of = Problem("rms_norm", {"eps": EPS, "weight_offset": 0.0}, given, outputs)
    right, wider, other = (
        simulated(of, Contract(each)) for each in (compute, "f64", "f32" if compute == "f64" else "f16")
    )
    assert passes(of, Contract(), right)
    assert passes(of, Contract(), wider)
    assert not passes(of, Contract(), other)


def test_an_absent_input_of_f64_says_nothing() -> None:
    """Nor does what it would be of."""

    def scaled(x: Node, w: Node | None = None) -> Outputs:
        return {"y": x * x if w is None else x * w}

    op = Op(scaled, (Operand("x", "... n"), Operand("w", "n", optional=True, dtype="f64")), (Operand("y", "... n"),))
    x = store(np.random.default_rng(5).standard_normal((2, 9)), "f32")
    alone = Problem("scaled", {}, {"x": x}, {"y": "f64"}, known=op)
    beside = replace(alone, inputs={"x": x, "w": np.ones(9)})
    assert [FormulaProblem(each).settled(Contract()).compute for each in (alone, beside)] == ["f32", "f64"]


def _of_f64(x: np.ndarray, op: str = "row_sum") -> Problem:
    return Problem(op, {}, {"x": x}, {"y": "f64"})


def test_what_may_be_calculated_in_more_bits_is_right_in_both_and_in_none_of_fewer() -> None:
    """One number is its own sum: in f64 what it is, and what it is rounded to in f32."""
    of, wider = _of_f64(np.array([[1.0 + 2.0**-25]])), Contract("f32", wider=True)
    both = ({"y": np.array([1.0 + 2.0**-25])}, {"y": np.array([1.0])})
    assert [passes(of, wider, y) for y in both] == [True, True]
    assert [passes(of, Contract("f32"), y) for y in both] == [False, True]
    assert not passes(of, wider, {"y": np.array([1.0 + 2.0**-22])})
    far = _of_f64(np.array([[99999.9999886, 100000.0011029]]), "softmax")
    assert all(passes(far, wider, simulated(far, Contract(each))) for each in ("f64", "f32"))
    assert not passes(far, Contract("f32"), simulated(far, Contract("f64")))


@pytest.mark.some(3)
@pytest.mark.parametrize("op", ["softmax", "layer_norm", "logsumexp", "silu_mul", "rms_norm_backward", "quantize_rows"])
def test_each_operation_may_be_in_more_bits_or_not(op: str) -> None:
    wider = Contract("f32", wider=True)
    for seed, kind in enumerate(("normal", "mean 1e4", "half zeros")):
        of = problem(OPS[op], kind, "f64", (3, 17), np.random.default_rng(seed))
        for contract in (wider, Contract("f32"), Contract("f64")):
            assert passes(of, wider, simulated(of, contract, seed)), (kind, contract)
    assert not passes(of, wider, simulated(of, Contract("bf16")))
