"""Contracts that differ only in where they round are told apart, and correct kernels of every contract pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from oracles import Any, Lanes, Numerics, NumericsError, Pairwise, Sequential, Summation, Tiles
from oracles.dtypes import DtypeError, form
from oracles.problem import Problem, ProblemError
from oracles.rounding import STORAGE, round_to
from oracles.simulation import rms_norm, rms_norm_backward, rstd
from oracles.tests.common.adversary import row, store
from oracles.truth import Truth

EPS = 2.0**-17
STRUCTURES: tuple[Summation, ...] = (
    Sequential(),
    Lanes(4, 4, "scalar"),
    Lanes(16, 4, "scalar"),
    Lanes(8, 4, "predicated"),
    Lanes(12, 4, "predicated"),
    Tiles(256),
    Pairwise(8),
    Any(),
)
CASTS = (
    Numerics(),
    Numerics(cast="llama"),
    Numerics(cast="none", accumulate="input"),
    Numerics(accumulate="f64", multiply="f32", mean="reciprocal"),
)


def data(n: int, dtype: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return store(rng.standard_normal((4, n)), dtype), store(rng.standard_normal(n) * 2, dtype)


def result(problem: Problem, numerics: Numerics, **outputs: np.ndarray) -> set[str]:
    return {check.result for check in Truth(problem).check(numerics, outputs)}


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16"])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_correct_kernels_pass(structure: Summation, dtype: str) -> None:
    wide = "f64" if dtype == "f64" else "f32"
    for base in (*CASTS, replace(CASTS[0], dx="rstd3")):
        accumulate = wide if base.accumulate == "f32" else base.accumulate
        numerics = replace(base, accumulate=accumulate, multiply=wide if base.multiply else None, summation=structure)
        for n in (1, 2, 7, 65, 257):
            x, weight = data(n, dtype, n)
            inputs = {"x": x, "weight": weight}
            y, _ = rms_norm(x, numerics, EPS, dtype, weight, 1.0)
            problem = Problem("rms_norm", {"eps": EPS, "weight_offset": 1.0}, inputs, {"y": dtype})
            assert result(problem, numerics, y=y) == {"pass"}, (numerics, n)
            dy, root = data(n, dtype, n + 1)[0], rstd(x, numerics.settled(dtype), EPS)
            given = {"x": x, "dy": dy, "weight": weight, "rstd": root}
            dx, dw = rms_norm_backward(x, dy, numerics, root, weight, 1.0)
            problem = Problem(
                "rms_norm_backward", {"eps": EPS, "weight_offset": 1.0}, given, {"dx": dtype, "dw": "f32"}
            )
            assert result(problem, numerics, dx=dx, dw=dw.astype(np.float32)) == {"pass"}, (numerics, n)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_cast_modes_are_told_apart(dtype: str) -> None:
    x, weight = data(512, dtype)
    problem = Problem("rms_norm", {"eps": EPS}, {"x": x, "weight": weight}, {"y": dtype})
    for promised in CASTS[:3]:
        for done in CASTS[:3]:
            y, _ = rms_norm(x, done, EPS, dtype, weight)
            # Everything in 16 bit, sums included, promises so little that the others keep it too.
            kept = promised == done or promised.cast == "none"
            assert (result(problem, promised, y=y) == {"pass"}) == kept, (promised.cast, done.cast)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_rstd_rounded_to_16_bit_is_rejected(dtype: str) -> None:
    x, _ = data(64, dtype)
    root = rstd(x, Numerics(), EPS).astype(STORAGE[dtype]).astype(np.float32)
    y = (x.astype(np.float32) * root[:, None]).astype(STORAGE[dtype])
    problem = Problem("rms_norm", {"eps": EPS}, {"x": x}, {"y": dtype, "rstd": "f32"})
    assert [c.result for c in Truth(problem).check(Numerics(), {"y": y, "rstd": root})] == ["numeric", "numeric"]
    stored = Problem("rms_norm", {"eps": EPS}, {"x": x}, {"rstd": dtype})
    assert result(stored, Numerics(), rstd=root.astype(STORAGE[dtype])) == {"pass"}


def test_one_plus_weight_formed_in_bf16_is_a_contract() -> None:
    x, _ = data(64, "bf16")
    weight = store(np.random.default_rng(1).uniform(2, 16, 64), "bf16")
    problem = Problem("rms_norm", {"eps": EPS, "weight_offset": 1.0}, {"x": x, "weight": weight}, {"y": "bf16"})
    early, late = Numerics(offset="weight"), Numerics()
    for promised in (early, late):
        for done in (early, late):
            y, _ = rms_norm(x, done, EPS, "bf16", weight, 1.0)
            assert (result(problem, promised, y=y) == {"pass"}) == (promised == done)


def test_double_rounding_of_fp8_is_rejected() -> None:
    """Rounding through bf16 on the way to e4m3 differs where bf16 makes a tie."""
    x, weight = data(4096, "f32")
    problem = Problem("rms_norm", {"eps": EPS}, {"x": x, "weight": weight}, {"y": "e4m3"})
    exact, _ = rms_norm(x, Numerics(), EPS, "f32", weight)
    once = store(exact.astype(np.float64), "e4m3")
    twice = store(round_to(exact.astype(np.float64), form("bf16")), "e4m3")
    assert result(problem, Numerics(), y=once) == {"pass"}
    assert result(problem, Numerics(), y=twice) == {"numeric"}


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_residual_contracts_are_told_apart(dtype: str) -> None:
    x, _ = data(256, dtype)
    residual = data(256, dtype, 5)[0]
    problem = Problem("fused_add_rms_norm", {"eps": EPS}, {"x": x, "residual": residual}, {"y": dtype, "sum": dtype})
    sums = x.astype(np.float32) + residual.astype(np.float32)
    rounded = sums.astype(STORAGE[dtype])
    y = {
        "rounded": rms_norm(rounded, Numerics(), EPS, dtype)[0],
        "unrounded": rms_norm(sums, Numerics(), EPS, dtype)[0],
    }
    for promised in (Numerics(), Numerics(residual="unrounded")):
        for done, got in y.items():
            checks = Truth(problem).check(promised, {"y": got, "sum": rounded})
            assert checks[1].result == "pass"
            assert (checks[0].result == "pass") == (promised.residual == done)


def test_eps_in_the_input_dtype() -> None:
    """In f16, eps below 2^-25 is 0; a row near it tells."""
    x = store(np.random.default_rng(0).standard_normal((2, 64)) * 2.0**-12, "f16")
    problem = Problem("rms_norm", {"eps": 1e-8}, {"x": x}, {"y": "f16"})
    y = {eps: rms_norm(x, Numerics(eps=eps), 1e-8, "f16")[0] for eps in ("accumulate", "input")}
    for promised in ("accumulate", "input"):
        for done, got in y.items():
            assert (result(problem, Numerics(eps=promised), y=got) == {"pass"}) == (promised == done)


def test_flushing_is_a_contract() -> None:
    x = store(np.full((1, 8), 1e-30), "f32")
    problem = Problem("rms_norm", {"eps": 2.0**60}, {"x": x}, {"y": "f32"}, structured=True)
    y, _ = rms_norm(x, Numerics(), 2.0**60, "f32")
    assert 0 < y[0, 0] < 2.0**-126
    assert result(problem, Numerics(), y=y) == {"pass"}
    assert result(problem, Numerics(), y=y * 0) == {"numeric"}
    assert result(problem, Numerics(denormals="flush"), y=y * 0) == {"pass"}


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"accumulate": "f31"}, "accumulate"),
        ({"accumulate": "e4m3"}, "accumulate"),
        ({"multiply": "x"}, "multiply"),
        ({"cast": "lama"}, "cast"),
        ({"cast": "none"}, "cast"),
        ({"mean": "multiply"}, "mean"),
        ({"rsqrt_ulp": -1.0}, "rsqrt_ulp"),
        ({"denormals": "maybe"}, "denormals"),
    ],
)
def test_contradictory_contracts_name_the_field(fields: dict[str, object], named: str) -> None:
    with pytest.raises((NumericsError, DtypeError), match=f"^{named}:"):
        Numerics(**fields)  # type: ignore[arg-type]


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
        "outputs.y: shape": lambda: Truth(good).check(Numerics(), {"y": y[1:]}),
        "outputs.y: dtype": lambda: Truth(good).check(Numerics(), {"y": y.astype(np.float64)}),
        "outputs.y: not": lambda: Truth(good).check(Numerics(), {}),
    }
    bad |= {
        "outputs.z: not an": lambda: Truth(good).explain(Numerics(), "z", (0, 0)),
        "outputs.y: no element": lambda: Truth(good).explain(Numerics(), "y", (0, 8)),
    }
    for message, call in bad.items():
        with pytest.raises((ProblemError, DtypeError), match=f"^{message}"):
            call()
    with pytest.raises(NumericsError, match=r"^summation:"):
        Lanes(0, 4, "scalar")
    with pytest.raises(NumericsError, match=r"^accumulate:"):
        Truth(Problem("rms_norm", {}, {"x": np.zeros((1, 70000), np.float16)}, {"y": "f16"})).check(
            Numerics(accumulate="f16"), {"y": np.zeros((1, 70000), np.float16)}
        )


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_any_axis(axis: int) -> None:
    x = row("normal", 60, "f32", np.random.default_rng(0)).reshape(3, 4, 5)
    problem = Problem("rms_norm", {"eps": EPS, "axis": axis}, {"x": x}, {"y": "f32", "rstd": "f32"})
    moved = np.moveaxis(x, axis, -1)
    y, root = rms_norm(moved.reshape(-1, moved.shape[-1]), Numerics(), EPS, "f32")
    y = np.ascontiguousarray(np.moveaxis(y.reshape(moved.shape), -1, axis))
    assert result(problem, Numerics(), y=y, rstd=root.reshape(moved.shape[:-1])) == {"pass"}
    y[2, 1, 3] *= np.float32(1.01)
    check = Truth(problem).check(Numerics(), {"y": y, "rstd": root.reshape(moved.shape[:-1])})[0]
    assert (check.worst_index, check.failing, check.proven) == ((2, 1, 3), 1, True)
    assert check.mask is not None
    assert check.mask[2, 1, 3]
    explanation = Truth(problem).explain(Numerics(), "y", (2, 1, 3), float(y[2, 1, 3]))
    assert not explanation.passes
    assert explanation.ratio == pytest.approx(check.worst_ratio, rel=1e-6)


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16"])
def test_every_output_can_be_explained(dtype: str) -> None:
    x, weight = data(8, dtype)
    dy = data(8, dtype, 1)[0]
    forward = {"x": x, "weight": weight}
    problems = [
        Problem("rms_norm", {"eps": EPS}, forward, {"y": dtype, "rstd": dtype}),
        Problem("fused_add_rms_norm", {"eps": EPS}, {**forward, "residual": dy}, {"y": dtype, "sum": dtype}),
        Problem("rms_norm_backward", {"eps": EPS}, {**forward, "dy": dy}, {"dx": dtype, "dw": dtype}),
        Problem("fused_add_rms_norm_backward", {"eps": EPS}, {**forward, "dy": dy, "dsum": x}, {"dresidual": dtype}),
    ]
    for problem in problems:
        truth = Truth(problem)
        for output in problem.outputs:
            index = (3, 7)[-len(truth.op.shape(output)) :] if len(truth.op.shape(output)) == 2 else (2,)
            probe = truth.explain(Numerics(), output, index, 0.0)
            expected = truth.explain(Numerics(), output, index)
            assert not probe.passes
            assert expected.got == probe.expected
            assert probe.ratio > 1
            assert expected.passes
            assert expected.ratio <= 1
            assert abs(expected.ulp) <= 0.5 + 2.0**-30
            assert min(expected.low.value, expected.high.value) <= expected.expected.value
            assert float(expected.exact) == pytest.approx(expected.expected.value, rel=2 * form(dtype).u)
            assert expected.facts or output == "sum"
            assert expected.terms
            assert all(term.formula for term in expected.terms)


def test_budget_terms_add_up_to_the_width() -> None:
    x, weight = data(100, "f32")
    problem = Problem("rms_norm", {"eps": 0.5}, {"x": x, "weight": weight}, {"y": "f32", "rstd": "f32"})
    truth = Truth(problem)
    for output, index in (("y", (1, 5)), ("rstd", (2,))):
        explanation = truth.explain(Numerics(), output, index, 0.0)
        bounds = truth.bounds(Numerics(), output, index, False)
        assert bounds is not None
        width = float(bounds.high - bounds.low) / 2
        assert sum(term.value for term in explanation.terms[:-1]) == pytest.approx(width, rel=1e-3)


def test_infinities_in_their_right_place_pass() -> None:
    """An overflow of the last cast, and an infinite sum, are values like any other; no warning escapes."""
    x = np.array([[1.0, 2.0, -3.0]], np.float16)
    weight = np.array([60000.0, 60000.0, 60000.0], np.float16)
    y, _ = rms_norm(x, Numerics(), EPS, "f32", weight)
    with np.errstate(over="ignore"):
        y = y.astype(np.float16)
    assert np.isinf(y).any()
    problem = Problem("rms_norm", {"eps": EPS}, {"x": x, "weight": weight}, {"y": "f16"})
    assert result(problem, Numerics(), y=y) == {"pass"}
    assert result(problem, Numerics(), y=-y) == {"nonfinite"}
    big = np.full((1, 2), 60000.0, np.float16)
    sums = Problem("fused_add_rms_norm", {"eps": EPS}, {"x": big, "residual": big}, {"y": "f16", "sum": "f16"})
    infinite, nan = np.full((1, 2), np.inf, np.float16), np.full((1, 2), np.nan, np.float16)
    assert result(sums, Numerics(), y=nan, sum=infinite) == {"pass"}
    ones = np.ones((1, 2), np.float16)
    assert result(sums, Numerics(), y=ones, sum=infinite) == {"pass", "nonfinite"}
    # Unrounded, the sum is finite where it is normalised.
    assert result(sums, Numerics(residual="unrounded"), y=ones, sum=infinite) == {"pass"}


@pytest.mark.parametrize("op", ["rms_norm", "fused_add_rms_norm"])
def test_rows_of_weights(op: str) -> None:
    """Row r of x takes row r mod m of the weight: as if each row of x had a problem of its own."""
    rng = np.random.default_rng(3)
    x, weight = store(rng.standard_normal((2, 3, 40)), "f16"), store(rng.standard_normal((3, 40)) * 2, "f32")
    weight[1, 5], weight[2, 7] = np.nan, np.inf
    inputs = {"x": x, "weight": weight} | ({"residual": np.zeros_like(x)} if "add" in op else {})
    problem = Problem(op, {"eps": EPS, "weight_offset": 1.0}, inputs, {"y": "f32"})
    with np.errstate(invalid="ignore"):
        alone = [rms_norm(x[:, k], Numerics(), EPS, "f32", weight[k], 1.0)[0] for k in range(3)]
    y = np.stack(alone, axis=1)
    assert result(problem, Numerics(), y=y) == {"pass"}
    assert result(problem, Numerics(nonfinite="unspecified"), y=y) == {"pass"}
    first = np.stack([rms_norm(x[:, k], Numerics(), EPS, "f32", weight[0], 1.0)[0] for k in range(3)], axis=1)
    assert result(problem, Numerics(), y=first) != {"pass"}
    one = replace(problem, inputs={**inputs, "weight": weight[:1]})
    assert result(one, Numerics(), y=first) == {"pass"}
    y[1, 2, 3] *= np.float32(1.01)
    check = Truth(problem).check(Numerics(), {"y": y})[0]
    assert (check.worst_index, check.failing) == ((1, 2, 3), 1)
    with pytest.raises(ProblemError, match=r"^inputs\.weight: shape \(2, 40\)"):
        Truth(replace(problem, inputs={**inputs, "weight": weight[:2]}))
    gradient = {"x": x, "dy": x, "weight": weight}
    with pytest.raises(ProblemError, match=r"^inputs\.weight: gradients"):
        Truth(Problem("rms_norm_backward", {"eps": EPS}, gradient, {"dx": "f16"}))


@pytest.mark.parametrize("op", ["rms_norm", "fused_add_rms_norm"])
@pytest.mark.parametrize("shape", [(2, 0), (0, 3, 0), (0, 4)])
def test_rows_of_weights_of_nothing(op: str, shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, "f4")
    inputs = {"x": x, "weight": np.ones(shape[-2:], "f4")} | ({"residual": x} if "add" in op else {})
    problem = Problem(op, {"eps": EPS, "weight_offset": 1.0}, inputs, {"y": "f32"})
    assert result(problem, Numerics(), y=x) == {"pass"}


@pytest.mark.parametrize("shape", [(2, 0), (0, 4)])
def test_a_given_rstd_of_rows_without_elements_is_nothing_to_judge(shape: tuple[int, int]) -> None:
    x, weight, rstd = np.zeros(shape, "<f4"), np.zeros(shape[1], "<f4"), np.ones(shape[0], "<f4")
    inputs = {"x": x, "dy": x, "weight": weight, "rstd": rstd}
    problem = Problem("rms_norm_backward", {"eps": 0.5}, inputs, {"dx": "f32", "dw": "f32"})
    checks = Truth(problem).check(Numerics(), {"dx": x, "dw": weight})
    assert [check.result for check in checks] == ["pass", "pass"]
