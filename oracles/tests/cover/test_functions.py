"""Every elementary function as formulas have it: kernels that are right pass, and those that are not fail."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from itertools import islice, product
from typing import Any

import flint
import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from oracles.elementary import functions
from oracles.elementary.function import Elementary
from oracles.elementary.functions import function, records
from oracles.formula.contract import Contract
from oracles.formula.trace import FormulaError, Node, elementary, trace
from oracles.op import Op
from oracles.operand import Operand
from oracles.problem import Problem
from oracles.simulated.simulation import simulate
from oracles.summation import NumericsError
from oracles.tests.common.elementary import FUNCTIONS, arguments, every_function
from oracles.tests.common.functions import CONTRACTS, LOOSE, OPS, problems
from oracles.tests.common.gradients import SLOPES, gradient
from oracles.tests.common.judged import known, results
from oracles.tests.common.whole import WHOLE
from oracles.truth import Truth

F32 = NDArray[np.float32]
Kernel = Callable[[F32], NDArray[Any]]
every_name = pytest.mark.parametrize("name", FUNCTIONS)


@pytest.fixture(autouse=True)
def _ops(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("oracles.truth.SAMPLE", 1 - 6)  # the precise tier confirms each pass
    with known(*OPS.values()):
        yield


@pytest.mark.some(1)
@every_name
def test_no_correct_kernel_is_accused(name: str) -> None:
    """Under each contract in two dtypes, of one of the three problems in turn: here a third of these for each function,
    another third for the next one."""
    tried = [*enumerate(product((("f32",), ("bf16", "f64", "f16")), CONTRACTS))]
    for place, (dtypes, contract) in tried if WHOLE else tried[[*FUNCTIONS].index(name) % 3 :: 3]:
        dtype = dtypes[place % len(dtypes)]
        if dtype == "f64" and contract.compute == "f32":
            continue
        of = next(islice(problems(name, dtype, 2, place), place % 3, None))
        got = simulate(of, contract, np.random.default_rng(place))
        assert results(of, contract, got) == ["pass"] * 3, (dtype, contract)


def given(name: str, x: F32) -> Problem:
    """The function of these values alone."""
    return Problem(OPS[name].name, {}, {"x": x, "g": np.ones_like(x)}, {"y": "f32"}, structured=True)


def judged(name: str, x: F32, y: NDArray[Any]) -> str:
    """What is said of a result, of a library's accuracy."""
    (result,) = results(given(name, x), LOOSE, {"y": y})
    return result


def stored(x: NDArray[Any]) -> F32:
    with np.errstate(over="ignore"):
        return x.astype(np.float32)


def hard(name: str) -> F32:
    """Hard arguments, and all limits, in one row."""
    of = FUNCTIONS[name]
    return stored(np.concatenate([arguments(of, 60, 6), [argument for argument, _ in of.limits]]))[None]


def right(name: str, x: F32) -> F32:
    return stored(FUNCTIONS[name].float64.value(x.astype(np.float64)))


@every_name
def test_a_kernel_that_is_a_little_off_anywhere_is_accused(name: str) -> None:
    """By some units more than it may, and of an exact function by 1, at each of 30 arguments."""
    of = FUNCTIONS[name]
    values = hard(name)[0]
    y = right(name, values)
    x = values[np.isfinite(y) & (np.abs(y) > 1e-30) & (np.abs(y) < 1e6)][:30][None]
    y = right(name, x)
    assert judged(name, x, y) == "pass"
    share = np.full(x.shape, (of.loose + 2) * 2.0**-23)
    if of.strays is not None:  # the exponent may be rounded
        share += of.strays(
            x.astype(np.float64), x.astype(np.float64), abs(float(np.float32(of.constant)) - of.constant)
        )
    off = np.float32(1) if of.is_exact else np.abs(y) * share.astype(np.float32)
    (check,) = Truth(given(name, x)).check(LOOSE, {"y": y + off})
    assert check.failing == x.size


@pytest.mark.some(4)
@every_name
def test_a_kernel_that_has_another_value_at_a_limit_is_accused(name: str) -> None:
    of = FUNCTIONS[name]
    for argument, value in of.limits:
        x = np.full((1, 2), argument, np.float32)
        if value is None:
            assert {judged(name, x, np.full_like(x, each)) for each in (0.0, -1.0, np.nan, np.inf)} == {"pass"}
            continue
        y = np.full_like(x, value)
        assert judged(name, x, y) == "pass", argument
        for wrong in (0.0, 1.0, np.inf, -np.inf, np.nan):
            if not np.array_equal(np.full_like(x, wrong), y, equal_nan=True):
                assert judged(name, x, np.full_like(x, wrong)) != "pass", (argument, wrong)
        free = value == 0 and of.sign == "any" and not of.keeps_zeros
        if value == 0:
            assert (judged(name, x, -y) == "pass") is free, "the sign of a zero"


_NUMPY = {
    "atan": "arctan", "asin": "arcsin", "acos": "arccos", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh",
    "round": "rint", "pow": "power",
}  # fmt: skip
"""What NumPy calls otherwise."""


def library(name: str) -> Iterator[Kernel]:
    """Yield the functions of that name of NumPy; at night those of torch too, which takes seconds to load."""
    of = FUNCTIONS[name]
    constant = [of.constant] if of.constant else []
    if found := getattr(np, _NUMPY.get(of.name, of.name), None):
        yield lambda x: found(x, *map(np.float32, constant))
    if WHOLE:
        import torch

        for each in (getattr(torch, of.name, None), getattr(torch.nn.functional, of.name, None)):
            if each is not None:
                yield lambda x, each=each: each(torch.from_numpy(x), *constant).numpy()  # type: ignore[misc]


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if next(library(name), None)])
def test_the_functions_of_numpy_and_torch_pass(name: str) -> None:
    x = hard(name)
    if name == "pow -2":  # torch's 1 / (x x) is zero where it is a subnormal number
        x = x[~(np.abs(x) > 1e18)][None]
    if name == "lgamma":  # torch's is off absolutely next to its zeros, below -2, and infinite from 4e36 on
        x = x[~((x < -2) | (x > 1e36))][None]
    for kernel in library(name):
        with np.errstate(all="ignore"):
            assert judged(name, x, kernel(x)) == "pass"


ONE = np.float32(1)
WRONG: dict[str, list[Kernel]] = {
    "log1p": [lambda x: np.log(ONE + x)],
    "expm1": [lambda x: np.exp(x) - ONE],
    "softplus": [lambda x: np.log(ONE + np.exp(x)), lambda x: np.log1p(np.exp(x)), lambda x: np.maximum(x, 0)],
    "exp2": [lambda x: np.exp(x * np.float32(math.log(2)))],
    "log2": [lambda x: np.log(x) * np.float32(1.4427), np.log],
    "sigmoid": [lambda x: np.exp(x) / (ONE + np.exp(x))],
    "atan": [lambda x: x / (ONE + np.float32(0.28) * x * x)],
    "tan": [lambda x: x + x * x * x / np.float32(3), lambda x: ONE / np.tan(x)],
    "asin": [lambda x: np.float32(math.pi / 2) - np.arccos(x)],
    "acos": [lambda x: np.float32(math.pi / 2) - np.arcsin(x)],
    "sinh": [lambda x: (np.exp(x) - np.exp(-x)) / np.float32(2), lambda x: np.exp(x) / np.float32(2)],
    "cosh": [lambda x: np.exp(np.abs(x)) / np.float32(2), lambda x: np.exp(x) / np.float32(2)],
    "asinh": [lambda x: np.log(x + np.sqrt(x * x + ONE))],
    "acosh": [lambda x: np.log(x + np.sqrt(x * x - ONE))],
    "atanh": [lambda x: np.log((ONE + x) / (ONE - x)) / np.float32(2)],
    "exp10": [lambda x: np.exp(x * np.float32(math.log(10)))],
    "log10": [lambda x: np.log(x) * np.float32(0.4343), np.log],
    "tgamma": [lambda x: np.exp(right("lgamma", x)), lambda x: right("tgamma", x + ONE) / x * (ONE + np.float32(1e-5))],
    "lgamma": [lambda x: np.log(np.abs(right("tgamma", x)))],
    "erfc": [lambda x: ONE - right("erf", x)],
    "cbrt": [lambda x: np.power(x, np.float32(1 / 3))],
    "round": [lambda x: np.copysign(np.floor(np.abs(x) + np.float32(0.5)), x), np.trunc],
    "floor": [np.trunc, lambda x: np.ceil(x) - ONE],
    "sign": [lambda x: np.copysign(ONE, x), lambda x: np.where(x > 0, ONE, np.float32(0))],
    "binade": [lambda x: np.exp2(np.ceil(np.log2(x))), lambda x: np.exp2(np.floor(np.log2(np.abs(x)))), np.sign],
    "abs": [lambda x: np.maximum(x, 0), lambda x: x],
    "pow 3": [lambda x: np.abs(x) ** 3],
    "pow 2.5": [lambda x: x * x * np.sqrt(x) * np.float32(1.00001)],
    "pow 0.333333": [lambda x: np.exp(np.log(x) * np.float32(0.3333))],
}
"""Kernels as they are written, which are not the function."""


@pytest.mark.parametrize("name", WRONG)
def test_known_mistakes_are_accused(name: str) -> None:
    for kernel in WRONG[name]:
        with np.errstate(all="ignore"):
            y = stored(kernel(hard(name)))
        assert judged(name, hard(name), y) != "pass"


def test_either_side_of_a_jump_is_right_where_kernels_may_be_on_either_and_nothing_else() -> None:
    """A sum of a third three times is 1 or just below it, in float32 as kernels order it."""
    third = np.float32(1 / 3)
    x = np.array([[third, third, third, 0, 0, 0], [1, 1, 1, 0, 0, 0.5], [2, 1, 0.25, 0, 0, 0]], np.float32)
    for name, rows in {
        "floor": ([[0, 1]], [[3]], [[3]]),
        "round": ([[1]], [[3, 4]], [[3]]),
        "sign": ([[1]], [[1]], [[1]]),
        "binade": ([[1]], [[2]], [[2]]),
    }.items():
        of = Problem(OPS[name].name, {}, {"x": x, "g": np.ones_like(x)}, {"s": "f32"}, structured=True)
        for place, (values,) in enumerate(rows):
            for value in range(-2, 8):
                s = np.array([each[0][0] for each in rows], np.float32)
                s[place] = value
                assert (results(of, Contract(), {"s": s}) == ["pass"]) == (value in values), (name, place, value)


def test_the_sign_of_what_cancels_may_be_any() -> None:
    x = np.array([[1e8, 1.0, -1e8, 0, 0, 0], [1e8, 1.0, 1e8, 0, 0, 0]], np.float32)
    of = Problem(OPS["sign"].name, {}, {"x": x, "g": np.ones_like(x)}, {"s": "f32"}, structured=True)
    for value, result in ((-1, "pass"), (0, "pass"), (1, "pass"), (2, "numeric"), (-2, "numeric")):
        assert results(of, Contract(), {"s": np.array([value, 1], np.float32)}) == [result]
    assert results(of, Contract(), {"s": np.array([1, 0], np.float32)}) == ["numeric"]


@pytest.mark.some(14)
@every_function
@pytest.mark.parametrize("far", [2.0**-20, 2.0**-3, 4.0])
def test_tangents_and_hulls_hold_all_values_between(of: Elementary, far: float) -> None:
    x = arguments(of, 20 if WHOLE else 8, 8)
    x = x[(np.abs(x) < 600) & (np.abs(x) > 1e-6)]
    radius = np.abs(x) * far
    with np.errstate(all="ignore"):
        value = of.float64.value(x)
        hull = of.hull(x - radius, x + radius, value)
        hull = np.where(of.meets(x - radius, x + radius), np.inf, hull)
        ends = of.hull(x * (1 - 2.0**-50), x * (1 + 2.0**-50), value)  # what the rounding of arguments weighs
        bend = None if of.tangent is None else of.bend(x, value, radius)
    with mpmath.workprec(200), np.errstate(over="ignore"):
        for share in (-1.0, -0.6, 0.3, 1.0):
            for place in np.flatnonzero(np.isfinite(value)):
                at = mpmath.mpf(x[place]) + mpmath.mpf(radius[place]) * share
                moved = of.exactly(at) - of.exactly(mpmath.mpf(x[place]))
                slack = abs(value[place]) * 2.0**-50 + ends[place] + hull[place] * 2.0**-40 + 1e-300
                if mpmath.isfinite(moved):
                    assert abs(moved) <= hull[place] + slack, (x[place], share)
                if bend is not None and mpmath.isfinite(moved) and np.isfinite(bend.remainder[place]):
                    linear = mpmath.mpf(bend.slope[place]) * (at - mpmath.mpf(x[place]))
                    known = bend.remainder[place] * (1 + 2.0**-40) + abs(linear) * 2.0**-40 + slack
                    assert abs(moved - linear) <= known, (x[place], share)


_ARB: dict[str, Callable[[Any], Any]] = {
    "abs": abs,
    "exp2": lambda x: flint.arb(2) ** x,
    "log2": lambda x: x.log() / flint.arb(2).log(),
    "sigmoid": lambda x: 1 / (1 + (-x).exp()),
    "tgamma": lambda x: x.gamma(),
    "lgamma": lambda x: x.lgamma() if x > 0 else abs(x.gamma()).log(),
    "softplus": lambda x: x.exp().log1p(),
    "sign": lambda x: x.sgn(),
    "exp10": lambda x: flint.arb(10) ** x,
    "log10": lambda x: x.log() / flint.arb(10).log(),
    "cbrt": lambda x: x.sgn() * abs(x).root(3),
}
"""What Arb has under no such name."""


@pytest.mark.some(14)
@pytest.mark.parametrize(
    "name", [name for name, of in FUNCTIONS.items() if of.constant or name in _ARB or hasattr(flint.arb, name)]
)
def test_exact_values_are_those_of_arb(name: str) -> None:
    of = FUNCTIONS[name]
    x = arguments(of, 30, 9)
    flint.ctx.prec = 400
    with mpmath.workprec(200):
        for each in x[np.abs(x) < 700].tolist():
            ball = flint.arb(each)
            if of.constant:
                found = ball ** flint.arb(of.constant)
            else:
                found = _ARB[name](ball) if name in _ARB else getattr(ball, name)()
            if not mpmath.isfinite(of.exactly(mpmath.mpf(each))):  # a pole
                continue
            exact = flint.arb(mpmath.nstr(of.exactly(mpmath.mpf(each)), 70, strip_zeros=False))
            assert abs(found - exact) <= abs(exact) * flint.arb(10) ** -45, each


@pytest.mark.parametrize(
    "of", {of.name: of for of in FUNCTIONS.values() if of.name in SLOPES}.values(), ids=lambda of: of.name
)
def test_gradients_are_what_differences_say_or_are_refused(of: Elementary) -> None:
    def formula(x: Node) -> dict[str, Node]:
        return {"y": elementary(of.name)(x, of.constant)}

    graph = trace(formula, {"x": ("n",)})
    if SLOPES[of.name] is not None:
        assert [*gradient(graph, "y", ["x"]).outputs] == ["dx"]
        return
    with pytest.raises(FormulaError, match=f"y does not depend on x but by {of.name}, whose slope is zero"):
        gradient(graph, "y", ["x"])
    beside = trace(lambda x: {"y": x - elementary(of.name)(x)}, {"x": ("n",)})
    assert [*gradient(beside, "y", ["x"]).outputs] == ["dx"]


def test_a_gradient_of_a_power_is_right_where_the_exponent_less_one_is_no_number() -> None:
    for exponent in (1 / 3, 0.3, -7 / 3, 1.0, 2.0, 1e-3):
        graph = trace(lambda x, exponent=exponent: {"y": elementary("pow")(x, exponent)}, {"x": ("n",)})
        assert [*gradient(graph, "y", ["x"]).outputs] == ["dx"]


def test_a_record_that_lacks_a_field_or_contradicts_itself_is_none() -> None:
    with pytest.raises(ValueError, match=r"elementary function log: apart: "):
        replace(function("log"), apart=np.abs)
    needed = {each.name: getattr(function("tanh"), each.name) for each in fields(Elementary)}
    Elementary(**needed)
    for name in ("tangent", "sign", "parity", "limits", "extended", "reach", "usual", "loose"):
        with pytest.raises(TypeError, match=f"missing 1 required keyword-only argument: '{name}'"):
            Elementary(**{each: value for each, value in needed.items() if each != name})
    wrong: dict[str, object] = {
        "tangent": None, "sign": "positive", "parity": "even", "usual": 9.0, "loose": 0.0,
        "limits": function("tanh").limits[::-1], "strays": abs, "singular": 0.0,
    }  # fmt: skip
    for name, value in wrong.items():
        told = {"singular": "elasticity"}.get(name, name)
        with pytest.raises(ValueError, match=rf"elementary function tanh: .*{told}"):
            replace(function("tanh"), **{name: value})  # type: ignore[arg-type]


def test_a_file_without_a_record_is_no_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oracles.elementary.functions.tanh.FUNCTION", function("erf"))
    with pytest.raises(ImportError, match=r"functions\.tanh: its FUNCTION must be the record of .* called tanh"):
        functions._record("tanh")
    monkeypatch.delattr("oracles.elementary.functions.tanh.FUNCTION")
    with pytest.raises(ImportError, match=r"functions\.tanh"):
        functions._record("tanh")


def test_names_and_constants_that_no_record_has_are_refused_in_one_line() -> None:
    with pytest.raises(NumericsError, match=r"accuracy: 'foo' is no function; there are acos, acosh, .*, divide$"):
        Contract(accuracy={"foo": 1.0})
    with pytest.raises(NumericsError, match="accuracy: floor needs none: its results are exact"):
        Contract(accuracy={"floor": 1.0})
    for name, constant, words in (("exp", 2.0, r"exp has no constant"), ("pow", 0.0, r"pow: write f\.pow\(value")):
        with pytest.raises(FormulaError, match=words):
            assert elementary(name)(1.0, constant).function
    assert {*records()} == {*functions.NAMES}


def test_an_exponent_may_be_rounded_to_the_dtype_or_not() -> None:
    """x^(1/3) of large x with the exponent in float32 is 15 ulp off; and no kernel has x^0.3333."""

    def cube_root(x: Node) -> dict[str, Node]:
        return {"y": elementary("pow")(x, 1 / 3)}

    op = Op(cube_root, (Operand("x", "... n"),), (Operand("y", "... n"),))
    x = np.array([[1e38, 3e30, 8.0, 1e-38]], np.float32)
    with known(op):
        of = Problem("cube_root", {}, {"x": x}, {"y": "f32"}, structured=True)
        for exponent, result in ((1 / 3, "pass"), (float(np.float32(1 / 3)), "pass"), (0.3333, "numeric")):
            y = (x.astype(np.float64) ** exponent).astype(np.float32)
            assert results(of, Contract(), {"y": y}) == [result]


@pytest.mark.parametrize("name", ["log", "sqrt", "rsqrt"])
def test_a_number_below_the_domain_in_every_kernel_has_no_value(name: str) -> None:
    def of_negative(x: Node) -> dict[str, Node]:
        return {"y": elementary(name)(-1.0 - x * x)}

    x = np.array([[0.3, -1.7, 1e10]], np.float32)
    with known(Op(of_negative, (Operand("x", "... n"),), (Operand("y", "... n"),))):
        of = Problem("of_negative", {}, {"x": x}, {"y": "f32"})
        assert results(of, Contract(), {"y": np.full_like(x, np.nan)}) == ["pass"]
        assert results(of, Contract(), {"y": np.full_like(x, 7)}) == ["nonfinite"]
