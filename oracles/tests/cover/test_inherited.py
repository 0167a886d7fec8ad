"""Functions that are made of others, errors on a part of a domain, and arguments at which nothing is judged."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import mpmath
import numpy as np
import pytest

from oracles import Besides, Contract, NumericsError, Within
from oracles.algorithm import traced
from oracles.formula.contract import INHERITED, INHERITING, wider
from oracles.formula.exact.arithmetic import Precise
from oracles.formula.exact.centre import Inputs, evaluate
from oracles.formula.expansion import EXPRESSIONS, inherited
from oracles.problem import Problem
from oracles.simulated.simulation import simulate
from oracles.tests.common.elementary import FUNCTIONS
from oracles.tests.common.functions import OPS, problems
from oracles.tests.common.judged import known, results
from oracles.truth import Truth

ULP = 2.0**-23
SHADED = Contract(
    accuracy={"sin": Within(0.5, low=-math.pi, high=math.pi), "cos": Within(0.5, low=-math.pi, high=math.pi),
              "log": 3.0, "atan": 4096.0, "rsqrt": 2.0, "divide": 2.5},
    absolute={"sin": 4096.0, "cos": 4096.0, "log": Besides(4.0, 0.5, 2.0)},
)  # fmt: skip
NAMES = [name for name, of in FUNCTIONS.items() if of.name in INHERITING]


@pytest.fixture(autouse=True)
def _ops() -> Iterator[None]:
    with known(*OPS.values()):
        yield


def given(name: str, values: list[float]) -> Problem:
    x = np.array([values], np.float32)
    return Problem(OPS[name].name, {}, {"x": x, "g": np.ones_like(x)}, {"y": "f32"}, structured=True)


def failing(name: str, values: list[float], y: list[float], contract: Contract) -> int:
    (check,) = Truth(given(name, values)).check(contract, {"y": np.array([y], np.float32)})
    return check.failing


@pytest.mark.parametrize("name", NAMES)
def test_an_expression_has_the_value_of_its_function(name: str) -> None:
    of = FUNCTIONS[name]
    graph = traced(OPS[name], ["x", "g", "y"])
    other = inherited(graph, [of.name])
    values = np.array([[-0.75, -0.25, 0.25, 0.5, 0.75, 0.875, 1.5, 2.0, 3.0]])
    values = values[(values > of.domain) & (values < of.top)][None]
    values = np.abs(values) if of.name == "pow" else values
    with mpmath.workprec(300):
        both = [Inputs(each, {"x": values, "g": np.ones_like(values)}, {}) for each in (graph, other)]
        right, found = (evaluate(each, Precise())[each.trace.outputs["y"]] for each in both)
        for a, b in zip(right.flat, found.flat, strict=True):
            assert abs(a - b) <= abs(a) * mpmath.ldexp(1, -250)


def test_expressions_are_those_that_contracts_may_name_and_reach_into_each_other() -> None:
    assert {*EXPRESSIONS, "pow"} == {*INHERITING}
    graph = inherited(traced(OPS["tanh"], ["x", "g", "y"]), ["tanh", "sinh", "cosh"])
    used = {node.label for node in graph.nodes if node.kind == "function"}
    assert used == {"exp"}
    plain = traced(OPS["tanh"], ["x", "g", "y"])
    assert inherited(plain, ["tan"]) is plain
    assert traced(OPS["tanh"], ["x", "g", "y"], {"*": f"{INHERITED}tanh"}).digest != plain.digest


def test_a_tangent_may_err_as_a_sine_over_a_cosine_where_that_is_said_and_by_no_more() -> None:
    values = [0.5, 1.0, 1.5, 3.0]
    exact = np.tan(np.array(values, np.float32).astype(np.float64))
    sines, cosines = (each(np.array(values, np.float32).astype(np.float64)) for each in (np.sin, np.cos))
    made = list((sines + 2.0**-12) / (cosines - 2.0**-12))
    far = list((sines + 2.0**-9) / (cosines - 2.0**-9))
    inherits = replace(SHADED, inherited=("tan",))
    assert failing("tan", values, list(exact), SHADED) == failing("tan", values, list(exact), inherits) == 0
    assert failing("tan", values, made, SHADED) == failing("tan", values, far, inherits) == 4
    assert failing("tan", values, made, inherits) == 0


def test_an_arccosine_next_to_one_may_err_as_its_square_root_does() -> None:
    x = float(np.float32(1 - 2.0**-23))
    exact = math.acos(x)
    for off, contract, fails in (
        (0.1, SHADED, 1), (0.1, replace(SHADED, inherited=("acos",)), 0), (2.0, replace(SHADED, inherited=("acos",)), 1)
    ):  # fmt: skip
        assert failing("acos", [x], [exact * (1 + off)], contract) == fails, off


def test_a_logarithm_next_to_one_may_err_absolutely_and_elsewhere_may_not() -> None:
    values = [1.0009765625, 0.75, 1.9921875, 4.0, 0.25, 1024.0]
    exact = np.log(values)
    for units, fails in ((3.5, 0), (9.0, 3)):
        y = exact + units * ULP * np.array([1, 1, 1, 0, 0, 0])
        assert failing("log", values, list(y), SHADED) == fails
    beyond = exact * (1 + 6 * ULP)
    assert failing("log", values[3:], list(beyond[3:]), SHADED) == 3


def test_beyond_a_half_turn_any_sine_is_right_and_before_it_only_one_that_is_near() -> None:
    for y in (-7.0, 0.0, math.inf, math.nan):
        assert failing("sin", [3.25, -100.0, 1e30], [y] * 3, SHADED) == 0
        assert failing("sin", [3.0, -1.0], [y] * 2, SHADED) == 2
    near = np.sin([3.0, -1.0]) + 2.0**-11
    assert failing("sin", [3.0, -1.0], list(near), SHADED) == 0
    assert failing("sin", [3.0, -1.0], list(near + 2.0**-11), SHADED) == 2


@pytest.mark.some(3)
@pytest.mark.parametrize("name", ["sin", "log", "tan", "sqrt", "tanh", "pow 2.5"])
def test_no_correct_kernel_is_accused(name: str) -> None:
    for contract in (replace(SHADED, inherited=INHERITING), replace(SHADED, compute="input", denormals="flush")):
        for place, of in enumerate(problems(name, "f32", 2, 3)):
            got = simulate(of, contract, np.random.default_rng(place))
            assert results(of, contract, got) == ["pass"] * 3, (contract, place)


def test_what_makes_no_sense_is_refused_and_what_does_is_said_in_a_few_words() -> None:
    for absolute, words in (
        ({"log": 4.0}, r"absolute: 'log' is no bounded function; .* others take Besides\(ulp, low, high\)"),
        ({"log": Besides(4.0, 0.5)}, "absolute: 'log' is no bounded function"),
        ({"log": Besides(4.0, 2.0, 0.5)}, r"'log' is no bounded function|absolute: log from 2\.0 to 0\.5"),
        ({"exp": Besides(4.0, 0.0, 1.0)}, "absolute: exp: it has no part of a domain"),
    ):
        with pytest.raises(NumericsError, match=words):
            Contract(absolute=absolute)
    with pytest.raises(NumericsError, match="accuracy: divide: it has no part of a domain"):
        Contract(accuracy={"divide": Within(2.5, high=4.0)})
    with pytest.raises(NumericsError, match=r"inherited: 'exp' is made of no others; there are acos, .*, tanh"):
        Contract(inherited=("exp",))
    assert str(Besides(4.0, 0.5, 2.0)) == "4 ulp of 1 besides from 0.5 to 2"
    assert str(Within(4.0, high=4e36)) == "4 ulp, judged up to 4e+36 alone"
    assert str(Within(4.0, low=0.5)) == "4 ulp, judged from 0.5 on alone"
    assert str(Within(0.5, low=-3.0, high=3.0)) == "0.5 ulp, judged from -3 to 3 alone"
    for bound in (Besides(4.0, 0.5, 2.0), Besides(4.0), Within(0.5, low=-3.0), Within(2.0, 1.0, True, -1.0, 1.0)):
        assert eval(repr(bound), {"Within": Within, "Besides": Besides}) == bound
    assert wider(Besides(4.0, 0.5, 2.0), Besides(2.0, 0.25, 1.0)) == Besides(4.0, 0.25, 2.0)
    assert wider(Besides(4.0, 0.5, 2.0), 2.0) == 4.0
    assert Within(0.5, low=-3.0, high=3.0).wider(Within(2.0)) == Within(2.0, low=-3.0, high=3.0)
