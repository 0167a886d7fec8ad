"""What outputs may be by their formula: both tiers say the same, correct kernels pass, and wrong ones do not."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from oracles.algorithm import traced as op_traced
from oracles.doubledouble import DoubleDouble
from oracles.dtypes import form
from oracles.enclosure import compare, passes
from oracles.formula.contract import Contract
from oracles.formula.exact.centre import Exact, Inputs
from oracles.formula.trace import FormulaError, Node, Outputs, dot, exp, greatest, log, total, trace
from oracles.precise import conforms, stable
from oracles.rounding import round_to
from oracles.simulated.simulation import ORDERS, Simulated
from oracles.summation import Tiles
from oracles.tests.common.formulas import EPS, FORMULAS, problems, traced
from oracles.tests.common.ops import LAYER_NORM, SOFTMAX
from oracles.tiers.conformance import Conformance

ORDERED = Contract("f32", sums={"n": Tiles(8), "k": Tiles(8), "j": Tiles(4), "d": Tiles(4)})


UPDATED = {
    "welford": op_traced(LAYER_NORM, {"x", "y", "mean", "rstd", "eps"}, {"mean": "welford", "var": "welford"}),
    "online": op_traced(SOFTMAX, {"x", "y"}, {"norm": "online"}),
}
"""By algorithms that keep statistics up to date."""


def _conformances(name: str, contract: Contract, n: int = 24, rows: int = 3) -> list[tuple[str, Conformance]]:
    random, graph = np.random.default_rng(11), UPDATED[name] if name in UPDATED else traced(name)
    outputs = dict.fromkeys(graph.outputs, "f32")
    return [(kind, Conformance(each, contract, outputs)) for kind, each in problems(graph, np.float32, n, rows, random)]


@pytest.mark.some(3)
@pytest.mark.parametrize("contract", [Contract("f32"), ORDERED], ids=["sequential", "tiles"])
@pytest.mark.parametrize("name", FORMULAS)
def test_correct_kernels_conform(name: str, contract: Contract) -> None:
    random = np.random.default_rng(12)
    for kind, each in _conformances(name, contract):
        for order in ORDERS:
            kernel = Simulated(each.inputs, contract, random, order, fused=True)
            for output in each.outputs:
                got = kernel.output(output, "f32")
                dims = each.inputs.trace.outputs[output].dims
                full = [each.inputs.extents[dim] if dim in dims else 1 for dim in each.inputs.trace.dims]
                got = np.broadcast_to(got, full).reshape(each.shape(output))
                found = compare(each.enclosure(output), got)
                assert not found.failing.any(), (kind, order, output, np.argwhere(found.failing)[0])


@pytest.mark.some(2)
@pytest.mark.parametrize("name", [*FORMULAS, *UPDATED])
def test_the_tiers_say_the_same_of_values_next_to_the_ends(name: str) -> None:
    random = np.random.default_rng(13)
    asked = 0
    for kind, each in _conformances(name, ORDERED):
        for output in each.outputs:
            enclosure, shape = each.enclosure(output), each.shape(output)
            at = tuple(int(random.integers(extent)) for extent in shape)
            bounds = stable(lambda each=each, output=output, at=at: each.bounds(output, at))  # type: ignore[misc]
            if bounds is None:
                continue
            ends = {float(end[at]) for pair in (enclosure.inner, enclosure.outer) for end in pair}
            with np.errstate(all="ignore"):
                beside = [np.nextafter(np.float32(end), np.float32(side)) for end in ends for side in (-np.inf, np.inf)]
            for value in (*ends, *map(float, beside)):
                said = compare(enclosure, np.full(shape, value))
                if not said.unsure[at]:
                    asked += 1
                    assert conforms(bounds, value) is not bool(said.failing[at]), (kind, output, at, value)
    assert asked > 40


@pytest.mark.some(5)
@pytest.mark.parametrize("name", [*FORMULAS, *UPDATED])
def test_the_centre_in_float64_errs_by_no_more_than_is_taken_off(name: str) -> None:
    largest = 0.0
    for kind, each in _conformances(name, ORDERED, n=40, rows=2):
        for output, node in each.inputs.trace.outputs.items():
            enclosure, shape = each.enclosure(output), each.shape(output)
            at = tuple(extent // 2 for extent in shape)
            width, centre = float(enclosure.above[at]), float(np.asarray(enclosure.centre)[at])
            if not (np.isfinite(width) and np.isfinite(centre) and width):
                continue
            dims = [dim for dim in each.inputs.trace.dims if dim in node.dims]
            with mpmath.workprec(300):
                exact = Exact(each.inputs, each.budget.replaced).element(node, dict(zip(dims, at, strict=True)))
                error = float(abs(exact - mpmath.mpf(centre)))
            assert error <= width * each.budget.own_share(False) + 2.0**-52 * abs(centre), (kind, output)
            if kind == "normal":
                largest = max(largest, error / width)
    assert largest < 1e-6, "it is small beside the budget"


def test_a_wrong_formula_does_not_conform() -> None:
    for kind, each in _conformances("softmax", ORDERED):
        if kind == "normal":
            right = Simulated(each.inputs, ORDERED, np.random.default_rng(1)).output("y", "f32")
            assert passes(each.enclosure("y"), right)
            for wrong in (right * (1 + 2.0**-19), np.roll(right, 1, axis=1), np.where(right < right.max(), right, 0)):
                assert compare(each.enclosure("y"), round_to(wrong, form("f32"))).failing.any()


def test_the_ends_lie_where_the_precise_tier_has_them() -> None:
    [(_, each)] = [pair for pair in _conformances("rms_norm", ORDERED) if pair[0] == "normal"]
    right, at = each.enclosure("y"), (1, 3)
    bounds = stable(lambda: each.bounds("y", at))
    assert bounds is not None
    ends = [float(end[at]) for end in (*right.inner, *right.outer)]
    off = [float(np.nextafter(np.float32(end), np.float32(side))) for end in ends[:2] for side in (-np.inf, np.inf)]
    verdicts = [conforms(bounds, value) for value in off]
    assert {*verdicts} == {True, False}


def test_what_it_cannot_judge_is_refused() -> None:
    given = {"x": np.ones((2, 3), np.float32), "weight": np.ones(3, np.float32)}
    inputs = Inputs(traced("rms_norm"), given, {"eps": EPS})
    with pytest.raises(FormulaError, match="no output z; there are y, rstd"):
        Conformance(inputs, Contract("f32"), {"z": "f32"})


@pytest.mark.some(2)
@pytest.mark.parametrize(
    "name", ["rms_norm", "layer_norm_backward", "softmax_backward", "gelu_erf", "rotary", "matmul"]
)
def test_the_centre_for_kernels_in_float64_errs_by_no_more_than_is_taken_off(name: str) -> None:
    random, reached = np.random.default_rng(15), 0
    for kind, inputs in problems(name, np.float64, 9, 2, random):
        each = Conformance(inputs, Contract("f64", sums={"n": Tiles(4)}), dict.fromkeys(traced(name).outputs, "f64"))
        for output, node in inputs.trace.outputs.items():
            with np.errstate(all="ignore"):
                enclosure, own, at = (
                    each.enclosure(output),
                    each.error(output, each.wide),
                    tuple(1 for _ in each.shape(output)),
                )
            centre = enclosure.centre
            assert isinstance(centre, DoubleDouble)
            if (enclosure.unsure is not None and enclosure.unsure[at]) or not np.isfinite(centre.high[at]):
                continue
            dims = [dim for dim in inputs.trace.dims if dim in node.dims]
            with mpmath.workprec(300):
                # Beside an infinity that all kernels have, what follows from that is the centre.
                exact = Exact(inputs, each.budget.replaced).element(node, dict(zip(dims, at, strict=True)))
                error = abs(exact - mpmath.mpf(centre.high[at]) - mpmath.mpf(centre.low[at]))
            assert error <= own[at], (kind, output)
            assert own[at] <= float(enclosure.above[at]) * 2.0**-30 + 2.0**-1073, "it is small beside the budget"
            reached += 1
    assert reached >= 10


def test_a_sum_that_may_overflow_leaves_zero_or_the_value_and_one_that_must_zero() -> None:
    edge = np.float32(np.sqrt(np.finfo(np.float32).max / 2))
    x = np.array([[edge, edge], [3e38, 3e38]], np.float32)
    inputs = Inputs(traced("rms_norm"), {"x": x, "weight": np.ones(2, np.float32)}, {"eps": EPS})
    # Where products may go into the sum unrounded, not all kernels overflow in the same place.
    each = Conformance(inputs, Contract("f32", fused=False), {"y": "f32", "rstd": "f32"})
    right = x[0] / np.sqrt(np.mean(np.square(x[0].astype(np.float64))))
    for first, wrong in (([0.0, right[1]], [False] * 2), ([123.0, np.nan], [True] * 2), ([-0.0, 0.5], [True] * 2)):
        found = compare(each.enclosure("y"), np.array([first, [0.0, 1.0]]))
        assert found.failing.tolist() == [wrong, [False, True]], first


@pytest.mark.parametrize("factor", [4.0, 16.0])
def test_a_logarithm_of_shares_whose_sum_is_known_badly_but_for_its_least_is_decided(factor: float) -> None:
    """Its own errors are far fewer than those of the sum, of which float64 has a share."""
    signs = np.random.default_rng(1).choice([-1.0, 1.0], 96)
    given = {"q": np.full(96, factor, np.float16), "k": np.tile(signs, (8, 1)).astype(np.float16)}

    def formula(q: Node, k: Node) -> Outputs:
        s = dot(q, k, "d")
        return {"y": log(total(exp(s - greatest(s, "n")), "n"))}

    graph = trace(formula, {"q": ("d",), "k": ("n", "d")})
    found = Conformance(Inputs(graph, given, {}), Contract("f16", dtypes={"s": "bf16"}), {"y": "f16"}, True)
    assert found.enclosure("y").unsure is None
