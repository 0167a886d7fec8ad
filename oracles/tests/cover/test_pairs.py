"""Functions of two values: special values, errors of their own, errors that operands pass on, and wrong kernels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mpf
from numpy.typing import NDArray

from oracles import Contract, NumericsError
from oracles.doubledouble import DoubleDouble, ExtendedDouble
from oracles.elementary import FormulaError
from oracles.enclosure import compare
from oracles.formula import trace as f
from oracles.formula.contract import Denormals
from oracles.formula.exact.arithmetic import Double, Float64
from oracles.formula.exact.centre import Inputs, evaluate
from oracles.formula.exact.extended import Extended
from oracles.formula.node import OF_TWO, Node
from oracles.formula.pairs import EXPRESSIONS, own_bound
from oracles.formula.trace import Outputs, elementary
from oracles.op import Op
from oracles.operand import Operand
from oracles.problem import Problem
from oracles.tests.common.judged import known, results, simulated
from oracles.tiers.problem import FormulaProblem

Array = NDArray[Any]
LIBRARY: dict[str, Callable[..., Any]] = {"atan2": np.arctan2, "hypot": np.hypot, "pow": np.power}
PRECISE: dict[str, Callable[[mpf, mpf], mpf]] = {
    "atan2": mpmath.atan2, "hypot": mpmath.hypot, "pow": lambda x, y: mpmath.power(x, y)
}  # fmt: skip
SPECIAL = (
    0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, 3.0, -3.0, 2.5, math.inf, -math.inf, math.nan, 1e-40, -7e-20, 1e30, 3e38,
)  # fmt: skip
ANSWERS = (0.0, -0.0, 1.0, -1.0, 7.5, math.inf, -math.inf, math.nan, *(k * math.pi / 4 for k in (1, 2, 4, -1, -2, -4)))
SHAPES = tuple(Operand(each, "... n") for each in "abcd")


def plain(name: str) -> Op:
    def formula(a: Node, b: Node) -> Outputs:
        return {"y": elementary(name)(a, b)}

    return Op(formula, inputs=SHAPES[:2], outputs=(Operand("y", "... n"),))


def of_products(name: str) -> Op:
    """The function of values that kernels round."""

    def formula(a: Node, b: Node, c: Node, d: Node) -> Outputs:
        return {"y": elementary(name)(a * c, b - d)}

    return Op(formula, inputs=SHAPES, outputs=(Operand("y", "... n"),))


def problem(op: Op, inputs: dict[str, Array], dtype: str = "f32") -> Problem:
    return Problem(op.name, {"axis": 1}, inputs, {"y": dtype}, structured=True)


def same(a: Array, b: Array) -> Array:
    found: Array = ((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))
    return found


def test_expressions_and_names_agree() -> None:
    assert set(OF_TWO) == set(EXPRESSIONS) == set(LIBRARY)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", OF_TWO)
def test_special_values_are_those_of_the_c_library_and_no_others(name: str, dtype: str) -> None:
    kept = np.float32 if dtype == "f32" else np.float64
    pairs = np.array([*itertools.product(SPECIAL, SPECIAL)], kept)
    a, b = (np.ascontiguousarray(each)[:, None] for each in pairs.T)  # a row for each pair
    with np.errstate(all="ignore"):
        right = LIBRARY[name](a.astype(np.float64), b.astype(np.float64)).astype(kept)
    op = plain(name)
    with known(op):
        of = problem(op, {"a": a, "b": b}, dtype)
        enclosed = FormulaProblem(of).enclose(Contract().settled({"a": dtype, "b": dtype}), True)["y"]
        assert results(of, Contract(), {"y": right}) == ["pass"]
        for answer in ANSWERS:
            got = np.full_like(right, answer)
            wrong = ~same(got, right) & ~np.isclose(got, right, rtol=1e-6, atol=0)
            found = compare(enclosed, got.astype(np.float64))
            passes = ~(found.failing | found.unsure)
            assert not (passes & wrong).any(), (answer, pairs[(passes & wrong)[:, 0]])


@pytest.mark.some(1)
@pytest.mark.parametrize("name", OF_TWO)
def test_both_tiers_agree_about_zeros_and_infinities(name: str) -> None:
    """The precise tier, which has no -0, confirms each failure."""
    pairs = np.array([*itertools.product((0.0, -0.0, -1.0, math.inf, -math.inf), repeat=2)], np.float32)
    with known(op := plain(name)), np.errstate(all="ignore"):
        for a, b in pairs:
            of, right = (
                problem(op, {"a": np.array([[a]]), "b": np.array([[b]])}),
                np.asarray(LIBRARY[name](a, b), np.float32),
            )
            for answer in (-0.0, 1.0, -math.pi / 2, math.inf):
                got = np.array([[answer]], np.float32)
                assert (results(of, Contract(), {"y": got}) == ["pass"]) is bool(same(got, right).all()), (a, b, answer)


def arguments(name: str, seed: int, n: int) -> tuple[Array, Array]:
    random = np.random.default_rng(seed)
    a, b = (random.choice([-1.0, 1.0], n) * random.uniform(1, 2, n) * 2.0 ** random.integers(-60, 60, n) for _ in "ab")
    near = random.random(n) < 0.3
    b = np.where(near, a * (1 + 2.0**-30 * random.standard_normal(n)), b)
    if name == "pow":
        a = np.where(random.random(n) < 0.3, 1 + 2.0**-40 * random.standard_normal(n), np.abs(a))
        b = random.uniform(-1, 1, n) * 700 / np.maximum(np.abs(np.log2(a)), 2.0**-20)
    return a, b


@pytest.mark.parametrize("name", OF_TWO)
def test_own_values_are_within_their_bounds(name: str) -> None:
    a, b = arguments(name, 1, 400)
    graph = f.trace(plain(name).formula, {"a": ("n",), "b": ("n",)})
    inputs = Inputs(graph, {"a": a, "b": b}, {})
    for arithmetic in (Float64(), Double(), Extended()):
        found = evaluate(inputs, arithmetic)[graph.outputs["y"]]
        doubled = found.doubled if isinstance(found, ExtendedDouble) else found
        high, low = (doubled.high, doubled.low) if isinstance(doubled, DoubleDouble) else (found, np.zeros_like(a))
        bound = own_bound(not isinstance(arithmetic, Float64))
        with mpmath.workprec(400):
            for x, y, *value in zip(a.tolist(), b.tolist(), high.tolist(), low.tolist(), strict=True):
                exact = PRECISE[name](mpf(x), mpf(y))
                assert abs(mpf(value[0]) + mpf(value[1]) - exact) <= abs(exact) * bound.relative + bound.absolute


@pytest.mark.some(3)
@pytest.mark.parametrize("ulp", [2.0, 16.0])
@pytest.mark.parametrize("name", OF_TWO)
def test_an_error_is_right_up_to_what_the_contract_says(name: str, ulp: float) -> None:
    a, b = (each.astype(np.float32).astype(np.float64) for each in arguments(name, 2, 300))
    exact = LIBRARY[name](a, b)
    usual = (np.abs(exact) > 1e-30) & (np.abs(exact) < 1e30)
    a, b, exact = (each[usual][None] for each in (a, b, exact))
    step, op = np.ldexp(1.0, np.frexp(exact)[1] - 24), plain(name)
    contract = Contract(accuracy={name: ulp})
    of = problem(op, {"a": a.astype(np.float32), "b": b.astype(np.float32)})
    with known(op):
        for off, want in ((ulp - 0.51, True), (-(ulp - 0.51), True)):
            assert (results(of, contract, {"y": (exact + off * step).astype(np.float32)}) == ["pass"]) is want
        for place in range(0, exact.shape[1], 40):
            for off in (-(2 * ulp + 2), 2 * ulp + 2):
                got = exact.astype(np.float32)
                got[0, place] = (exact + off * step)[0, place]
                assert results(of, contract, {"y": got}) != ["pass"]


CONTRACTS: tuple[tuple[str, Denormals], ...] = (("f32", "preserve"), ("f32", "flush"), ("bf16", "preserve"))


@pytest.mark.some(1)
@pytest.mark.parametrize(("compute", "denormals"), CONTRACTS)
@pytest.mark.parametrize("name", OF_TWO)
def test_simulated_kernels_are_right_whatever_their_operands_err_by(
    name: str, compute: str, denormals: Denormals
) -> None:
    """Operands that are rounded, that cancel, that lie at axes and diagonals, overflow and underflow."""
    op, random = of_products(name), np.random.default_rng(5)
    contract = Contract(compute, denormals=denormals)
    with known(op):
        for seed in range(60):
            spread = int(random.choice([0, 3, 40, 70]))
            shape, scale = (2, 9), 2.0 ** random.integers(-spread, spread + 1, (4, 2, 9))
            values = random.standard_normal((4, *shape)) * scale * (random.random((4, *shape)) > 0.1)
            values[3] = np.where(random.random(shape) < 0.4, values[1] * (1 + 2.0**-20), values[3])
            if name == "pow" and seed % 2:
                values[0], values[2] = np.abs(values[0]), np.abs(values[2])
            given = {each: values[place].astype(np.float32) for place, each in enumerate("abcd")}
            of = problem(op, given)
            assert results(of, contract, simulated(of, contract, seed)) == ["pass"]


WRONG: dict[str, tuple[Callable[[Array, Array], Array], dict[str, Array]]] = {
    "atan2": (lambda a, b: np.arctan(a / b), {"a": np.array([[1.0, 2.0]]), "b": np.array([[-1.0, 3.0]])}),
    "hypot": (lambda a, b: np.sqrt(a * a + b * b), {"a": np.array([[3e30, 2.0]]), "b": np.array([[1e30, 3.0]])}),
    "pow": (lambda a, b: np.exp(b * np.log(a)), {"a": np.array([[1e30, 2.0]]), "b": np.array([[1.1, 3.0]])}),
}


@pytest.mark.parametrize("name", OF_TWO)
def test_a_kernel_of_plain_steps_is_wrong_where_they_go_wrong(name: str) -> None:
    kernel, inputs = WRONG[name]
    given, op = {each: values.astype(np.float32) for each, values in inputs.items()}, plain(name)
    with known(op), np.errstate(all="ignore"):
        right = LIBRARY[name](*(each.astype(np.float64) for each in given.values())).astype(np.float32)
        assert results(problem(op, given), Contract(), {"y": right}) == ["pass"]
        assert results(problem(op, given), Contract(), {"y": kernel(*given.values())}) != ["pass"]


def test_an_operand_that_loses_its_errors_is_not_held_to_the_exact_value() -> None:
    """Near an axis an angle is as far off as its operand; a kernel that errs twice as much is wrong."""
    op = of_products("atan2")
    given = {
        each: np.full((1, 1), value, np.float32)
        for each, value in zip("abcd", (0.3, 1.0, 0.7, 1 - 2.0**-20), strict=True)
    }
    with known(op):
        of = problem(op, given)
        exact = np.arctan2(*(given[x].astype(np.float64) * sign for x, sign in (("a", 1), ("b", 1))))
        angle = np.arctan2(given["a"].astype(float) * given["c"], given["b"].astype(float) - given["d"])
        assert results(of, Contract(), {"y": angle.astype(np.float32)}) == ["pass"]
        assert results(of, Contract(), {"y": (angle * (1 + 2.0**-18)).astype(np.float32)}) != ["pass"]
        assert results(of, Contract(), {"y": exact.astype(np.float32)}) != ["pass"]


def test_zeros_of_unknown_sign_leave_an_angle_open_and_no_length() -> None:
    """A sum that cancels is +0 or -0, depending on its order."""

    def formula(a: Node, b: Node, c: Node) -> Outputs:
        s = f.total(a, "n")
        return {"y": f.atan2(s, b), "z": f.hypot(s, c)}

    row = Operand("b", "..."), Operand("c", "...")
    op = Op(formula, inputs=(SHAPES[0], *row), outputs=(Operand("y", "..."), Operand("z", "...")))
    given = {"a": np.array([[-0.0, -0.0]], np.float32), "b": np.array([-1.0], np.float32), "c": np.ones(1, np.float32)}
    of = Problem(op.name, {"axis": 1}, given, {"y": "f32", "z": "f32"}, structured=True)
    with known(op):
        for angle, length, want in ((math.pi, 1.0, ["pass", "pass"]), (-math.pi, 2.0, ["pass", "numeric"])):
            got = {"y": np.array([angle], np.float32), "z": np.array([length], np.float32)}
            assert results(of, Contract(), got) == want


def test_names_of_two_values_are_those_of_contracts_and_formulas() -> None:
    assert Contract(accuracy={"atan2": 6.0, "hypot": 4.0}).ulp("atan2") == 6.0
    with pytest.raises(NumericsError, match="absolute"):
        Contract(absolute={"hypot": 4.0})
    x = Node("tensor", label="x")
    assert f.elementary("pow")(x, 2.5).kind == "function"
    assert f.elementary("pow")(2.0, x).kind == f.elementary("atan2")(x, 1.0).kind == "pair"
    with pytest.raises(FormulaError, match="two values"):
        _ = x.apply("atan2").function
