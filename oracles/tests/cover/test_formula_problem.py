"""Ops without an oracle of their own, judged from their formulas: correct kernels pass, wrong ones do not."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from oracles.breakdown import Breakdown
from oracles.formula.contract import Contract
from oracles.formula.exact import extended
from oracles.op import Op
from oracles.ops import OPS
from oracles.problem import Problem, ProblemError
from oracles.simulated.simulation import ORDERS
from oracles.summation import Lanes, Pairwise, Sequential, Summation, Tiles
from oracles.tests.common.formulas import HARD
from oracles.tests.common.judged import GELU, SOFTMAX, TOYS, judged, kernel, known, problem, returned
from oracles.tests.common.ops import LAYER_NORM, LAYER_NORM_BACKWARD
from oracles.truth import Truth

_EXACT = {"erf": 0.5}
SHORT: Mapping[str, Summation] = {"n": Lanes(8, 2, "predicated"), "...": Tiles(4)}
CONTRACTS: Mapping[str, Contract] = {
    "plain": Contract(),
    "orders": Contract(sums=SHORT, mean="reciprocal", accuracy={"rsqrt": 2.0, "exp": 4.0}),
    "input": Contract("input"),
    "flush": Contract(denormals="flush"),
    "fast math": Contract(nonfinite="unspecified", saturate=True, zeros="any"),
}


@pytest.fixture(autouse=True)
def _toys() -> Iterator[None]:
    with known(*TOYS):
        yield


@pytest.mark.some(3)
@pytest.mark.parametrize("name", CONTRACTS)
@pytest.mark.parametrize("op", TOYS, ids=lambda op: op.name)
def test_correct_kernels_pass(op: Op, name: str) -> None:
    rng, contract = np.random.default_rng(5), CONTRACTS[name]
    for number, kind in list(enumerate(HARD))[[*CONTRACTS].index(name) % 2 :: 2]:
        dtype = ("f32", "f16", "bf16", "f32")[number % 4]
        axis, without = (-1, 1, 0)[number % 3], ("", "weight", "bias")[number % 3]
        of = problem(op, kind, dtype, (2, 3, 9), rng, axis=axis, without=(without,))
        for order in ORDERS[number % 5 :: 3]:
            checks = judged(of, contract, kernel(of, contract, rng, order, fused=number % 2 == 1))
            assert {check.result for check in checks} == {"pass"}, (kind, dtype, order, checks)


def _moved(kind: str, shape: tuple[int, ...], rng: np.random.Generator, times: float) -> Problem:
    """Rows whose mean is so many times their spread."""
    of = problem(LAYER_NORM, kind, "f32", shape, rng, without=("weight", "bias"))
    return replace(of, inputs={**of.inputs, "x": (of.inputs["x"] + np.float32(times)).astype(np.float32)})


def _share(of: Problem, contract: Contract, got: Mapping[str, NDArray[Any]]) -> float:
    """The share of rows in which the first output fails."""
    check = Truth(of).check(contract, got)[0]
    return 0.0 if check.mask is None else float(check.mask.any(-1).mean())


def test_a_wrong_eps_fails() -> None:
    rng = np.random.default_rng(6)
    of = replace(problem(LAYER_NORM, "normal", "f32", (4, 32), rng), params={"eps": 1e-5})
    wrong = replace(of, params={"eps": 1e-4})
    assert _share(of, Contract(), returned(of, kernel(wrong, Contract(), rng))) == 1.0


def test_moments_under_a_contract_of_two_passes_fail() -> None:
    rng = np.random.default_rng(7)
    of, contract = _moved("normal", (200, 1024), rng, 128.0), Contract(sums={"n": Lanes(8, 4, "scalar")})
    moments = kernel(of, replace(contract, algorithm={"var": "moments"}), rng)
    assert _share(of, contract, returned(of, moments)) > 0.9
    either = replace(contract, algorithm={"var": ("formula", "moments")})
    for allowed in (replace(contract, algorithm={"var": "moments"}), either):
        assert _share(of, allowed, returned(of, moments)) == 0.0
    assert _share(of, either, returned(of, kernel(of, contract, rng))) == 0.0


def test_a_rounding_that_is_not_declared_fails() -> None:
    rng, rounds = np.random.default_rng(8), Contract(points={"p": "bf16"})
    for out in ("f32", "f16"):
        of = problem(SOFTMAX, "normal", "f32", (10, 48), rng, out=out)
        got = returned(of, kernel(of, rounds, rng))
        assert _share(of, Contract(), got) == 1.0
        assert _share(of, rounds, got) == 0.0


@pytest.mark.parametrize("op", [LAYER_NORM, SOFTMAX], ids=lambda op: op.name)
def test_a_dropped_tail_fails(op: Op) -> None:
    rng = np.random.default_rng(9)
    of = problem(op, "normal", "f32", (6, 33), rng)
    without = replace(of, inputs={name: array[..., :32] for name, array in of.inputs.items()})
    got = {name: array.copy() for name, array in returned(of, kernel(of, Contract(), rng)).items()}
    got["y"][..., :32] = returned(without, kernel(without, Contract(), rng))["y"]
    assert _share(of, Contract(), got) == 1.0


def test_an_exp_of_six_ulp_fails_where_rows_are_short() -> None:
    rng = np.random.default_rng(10)
    of = problem(SOFTMAX, "normal", "f32", (2000, 2), rng)
    sloppy = Contract(accuracy={"exp": 6.0})
    shares = [_share(of, Contract(), returned(of, kernel(of, sloppy, rng))) for _ in range(6)]
    assert max(shares) > 0.02
    assert _share(of, sloppy, returned(of, kernel(of, sloppy, rng))) == 0.0


def test_a_bias_of_rank_two_and_a_parameter_that_is_absent() -> None:
    rng = np.random.default_rng(11)
    of = problem(GELU, "normal", "f32", (2, 3, 5), rng, without=("scale",))
    bias = rng.normal(size=(3, 5)).astype(np.float32)
    stacked = replace(of, inputs={**of.inputs, "bias": bias})
    got = returned(stacked, kernel(stacked, Contract(accuracy=_EXACT), np.random.default_rng(1)))
    assert [check.result for check in Truth(stacked).check(Contract(), got)] == ["pass"]
    each = [replace(of, inputs={**of.inputs, "bias": bias[row]}) for row in range(3)]
    for row, one in enumerate(each):
        alone = returned(one, kernel(one, Contract(accuracy=_EXACT), np.random.default_rng(1)))["y"]
        assert (alone[:, row] == got["y"][:, row]).all()
    assert _share(stacked, Contract(), returned(each[0], kernel(each[0], Contract(), rng))) > 0.3


@pytest.mark.some(2)
@pytest.mark.parametrize("op", TOYS, ids=lambda op: op.name)
def test_kernels_in_float64_are_judged(op: Op) -> None:
    rng, contract = np.random.default_rng(12), Contract("f64", sums=SHORT)
    for kind in ("normal", "mean 1e4", "dominant", "half zeros", "subnormal", "ties"):
        of = problem(op, kind, "f64", (3, 7), rng)
        right = kernel(of, contract, rng, "tree")
        assert {check.result for check in judged(of, contract, right)} == {"pass"}, kind
        narrow = returned(of, kernel(of, Contract("f32"), rng))
        if kind == "normal":
            assert {check.result for check in Truth(of).check(contract, narrow)} == {"numeric"}


def test_what_does_not_fit_the_op_is_refused() -> None:
    rng = np.random.default_rng(13)
    good = problem(LAYER_NORM, "normal", "f32", (2, 3), rng)
    x = good.inputs["x"]
    wrong: Mapping[str, Problem] = {
        r"outputs.z: layer_norm has no such output": replace(good, outputs={"z": "f32"}),
        r"inputs.weight: shape \(4,\), expected \(3,\)": replace(
            good, inputs={**good.inputs, "weight": np.ones(4, np.float32)}
        ),
        r"inputs.bias: shape \(2, 3\), expected \(3,\)$": replace(good, inputs={**good.inputs, "bias": x}),
        r"params.eps: layer_norm needs it": replace(good, params={}),
        r"inputs.x: layer_norm needs it": replace(good, inputs={"weight": x[0]}),
        r"op: unknown op 'nothing'": replace(good, op="nothing"),
    }
    for words, bad in wrong.items():
        with pytest.raises(ProblemError, match=words):
            Truth(bad)
    with pytest.raises(ProblemError, match=r"params.eps: must be finite and at least 0, not -1"):
        replace(good, params={"eps": -1.0})


def test_a_budget_is_explained_by_the_names_of_the_formula() -> None:
    rng = np.random.default_rng(14)
    of = problem(LAYER_NORM_BACKWARD, "normal", "f32", (3, 40), rng)
    truth = Truth(of)
    found = truth.explain(CONTRACTS["orders"], "dx", (1, 7))
    terms = {term.name: term for term in found.terms}
    assert [*terms] == ["g", "dx", "mean", "centred", "rstd", "h", "rounding"]
    assert re.search(r"sum over n [\d.]+ u \(h = 7, worst case\)", terms["mean"].formula)
    assert "rsqrt" in terms["rstd"].formula
    width = truth.enclosures(CONTRACTS["orders"], False)["dx"].above[1, 7]
    assert 0.9 * width < sum(term.value for name, term in terms.items() if name != "rounding") < 1.5 * width
    assert [name for name, _ in found.facts] == ["n", "rows", "mean, exact", "rstd, exact"]
    assert [name for name, _ in truth.explain(Contract(), "dw", (4,)).facts] == ["n", "rows"]


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("op", "output", "index"), [(LAYER_NORM_BACKWARD, "dx", (1, 7)), (LAYER_NORM_BACKWARD, "dw", (3,))]
)
def test_each_term_can_be_calculated_again_by_hand(op: Op, output: str, index: tuple[int, ...]) -> None:
    """As roundings in units of u, times what is rounded, times how far the output moves with it."""
    truth = Truth(problem(op, "normal", "f32", (3, 40), np.random.default_rng(15)))
    terms = truth.explain(Contract(compute="f64", dtypes={"rstd": "f32", "h": "f32"}), output, index).terms[:-1]
    terms += truth.explain(Contract(), output, index).terms[:-1]
    assert len(terms) > 5
    for term in terms:
        product, _, made = term.formula.partition(": ")
        assert re.fullmatch(r"[\d.e+-]+ u( x (\|\w+\| )?[\d.e+-]+){0,2}", product)
        (unit,) = set(re.findall(r"u = 2\^(-\d+)", made))
        factors = re.sub(r"\|\w+\| ", "", product).replace(" u", "").split(" x ")
        assert math.prod(map(float, factors)) * 2.0 ** int(unit) == pytest.approx(term.value, rel=2e-3)
    [mean_square] = [term for term in explained_row().terms if term.name == "mean_square"]
    assert "multiply 1 u, sum over n 64 u (h = 64, worst case), divide 1 u in f32, u = 2^-24" in mean_square.formula
    assert mean_square.formula.startswith("66 u x |mean_square| 4 x 0.125: ")


def test_what_an_element_was_calculated_from_is_told() -> None:
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    weight = np.array([1.0, np.nan, 0.5, -1.0], np.float32)
    given = {"x": x, "dy": -x, "weight": weight}
    truth = Truth(Problem("rms_norm_backward", {"eps": 0.0}, given, {"dx": "f32", "dw": "f32"}))
    assert truth.explain(Contract(), "dx", (1, 2)).given == (
        ("x", "6.0 (0x40c00000); from 4 to 7 along n"),
        ("dy", "-6.0 (0xc0c00000); from -7 to -4 along n"),
        ("weight", "0.5 (0x3f000000); from -1 to 1, and NaN along n"),
    )
    assert truth.explain(Contract(), "dw", (2,)).given == (
        ("x", "from 0 to 7 along ... and n"),
        ("dy", "from -6 to -2 along ..."),
    )


def explained_row() -> Breakdown:
    """The budget of 2 / 2, which moves by an eighth with a mean square of 4."""
    x = np.full((1, 64), 2.0, np.float32)
    return Truth(Problem("rms_norm", {"eps": 0.0}, {"x": x}, {"y": "f32"}, structured=True)).explain(
        Contract(), "y", (0, 3)
    )


def test_rows_without_elements_are_still_so_many() -> None:
    x, rstd = np.zeros((3, 0), np.float32), np.ones(3, np.float32)
    of = Problem("rms_norm_backward", {"eps": 0.0, "axis": 1}, {"x": x, "dy": x, "rstd": rstd}, {"dx": "f32"})
    assert returned(of, kernel(of, Contract(), np.random.default_rng(0)))["dx"].shape == (3, 0)
    assert [check.result for check in Truth(of).check(Contract(), {"dx": x})] == ["pass"]


@pytest.mark.parametrize(
    ("op", "dim", "shapes"),
    [("softmax", "n", {"x": (3, 50)}), ("matmul", "k", {"a": (300, 2, 128), "b": (300, 128, 2)})],
    ids=["separate rows", "many rows that are not"],
)
def test_contracts_share_the_exact_values_of_a_problem(
    monkeypatch: pytest.MonkeyPatch, op: str, dim: str, shapes: Mapping[str, tuple[int, ...]]
) -> None:
    """They take a third of the time in which a contract is judged."""
    made, random, calculated = list[object](), np.random.default_rng(0), extended.wide_values

    def counted(*given: Any) -> Any:
        made.append(given)
        return calculated(*given)

    monkeypatch.setattr("oracles.tiers.values.wide_values", counted)
    given = {name: random.normal(size=shape) for name, shape in shapes.items()}
    contracts = [Contract(compute="f64", sums={dim: order}) for order in (Pairwise(), Sequential())]

    def above(truth: Truth, contract: Contract) -> NDArray[Any]:
        (found,) = truth.op.enclose(contract, False).values()
        return found.above

    shared, alone = (Truth(Problem(op, {}, given, {OPS[op].outputs[0].name: "f64"})) for _ in range(2))
    first, second = (above(shared, contract) for contract in contracts)
    assert len(made) == 1
    assert (above(alone, contracts[1]) == second).all()
    assert (first != second).any()
