"""Gradients of formulas: what comes out is right, and what is not differentiable is refused."""

from __future__ import annotations

import numpy as np
import pytest

from oracles.formula.affine.budget import Budget
from oracles.formula.contract import Contract
from oracles.formula.exact.arithmetic import Float64
from oracles.formula.exact.centre import Inputs, evaluate
from oracles.formula.trace import (
    FormulaError,
    Node,
    Outputs,
    avg,
    greatest,
    total,
    trace,
    welford_mean,
    welford_squares,
)
from oracles.tests.common.formulas import EPS, traced
from oracles.tests.common.gradients import SLOPES, gradient
from oracles.tests.common.simulated import allowed, of_shape

_BY = {
    "rms_norm": ("x", "weight"), "layer_norm": ("x", "weight", "bias"), "moments": ("x",), "softmax": ("x",),
    "log_softmax": ("x",), "gelu_tanh": ("x",), "gelu_erf": ("x",), "silu_mul": ("x", "dy"), "rotary": ("x", "angle"),
    "embedding": ("table",), "matmul": ("a", "b"), "attention": ("query", "key", "value"),
}  # fmt: skip


@pytest.mark.parametrize("name", _BY)
def test_every_gradient_is_what_differences_say(name: str) -> None:
    """A gradient is checked as it is made: without the check's tolerance none would come through."""
    of = next(iter(traced(name).outputs))
    found = gradient(traced(name), of, _BY[name])
    assert [*found.outputs] == [f"d{each}" for each in _BY[name]]
    for each in _BY[name]:
        assert found.outputs[f"d{each}"].dims <= {*traced(name).tensors[each]}


def test_a_wrong_slope_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SLOPES, "tanh", lambda y, g: g * (1.0 - y * y * (1 + 2.0**-40)))
    with pytest.raises(FormulaError, match="not what differences of it are"):
        gradient(traced("gelu_tanh"), "y", ["x"])


def test_a_maximum_that_does_not_cancel_is_refused() -> None:
    with pytest.raises(FormulaError, match="only where they cancel"):
        gradient(trace(lambda x: {"y": x * greatest(x, "n")}, {"x": ("n",)}), "y", ["x"])


def test_a_value_that_is_broadcast_gets_the_sum_of_what_came_of_it() -> None:
    def spread(x: Node, s: Node) -> Outputs:
        return {"y": total(x + s, "n") * avg(s * x, "...")}

    found = gradient(trace(spread, {"x": ("...", "n"), "s": ()}), "y", ["x", "s"])
    assert found.outputs["ds"].dims == set()


def test_statistics_that_are_kept_up_to_date_have_the_gradients_of_their_values() -> None:
    def product(x: Node) -> Outputs:
        return {"y": welford_squares(x, "n") * welford_mean(x, "n")}

    assert gradient(trace(product, {"x": ("...", "n")}), "y", ["x"]).outputs["dx"].dims == {"...", "n"}


def test_what_an_output_does_not_depend_on_has_no_gradient() -> None:
    with pytest.raises(FormulaError, match="mean does not depend on weight"):
        gradient(traced("layer_norm"), "mean", ["weight"])


@pytest.mark.parametrize(
    ("name", "by_hand", "share"), [("softmax", "softmax_backward", 1.3), ("layer_norm", "layer_norm_backward", 1.6)]
)
def test_it_has_the_value_and_about_the_width_of_what_people_write(name: str, by_hand: str, share: float) -> None:
    random = np.random.default_rng(1)
    rows, n = 4, 16
    tensors = {
        "x": random.normal(size=(rows, n)).astype(np.float32), "dy": random.normal(size=(rows, n)).astype(np.float32),
        "weight": random.normal(size=n).astype(np.float32), "bias": random.normal(size=n).astype(np.float32),
    }  # fmt: skip
    graph = gradient(traced(name), "y", ["x"])
    budgets = [Budget(Inputs(each, tensors, {"eps": EPS}), Contract("f32"), True) for each in (graph, traced(by_hand))]
    derived, written = (each.output("dx", "f32") for each in budgets)
    widths = [
        of_shape(each, "dx", each.half_width(kept)) for each, kept in zip(budgets, (derived, written), strict=True)
    ]
    assert (np.abs(derived.centre - written.centre).reshape(rows, n) <= 1e-6 * widths[1]).all()
    assert np.median(widths[0] / widths[1]) < share
    got = evaluate(budgets[0].inputs, Float64())[graph.outputs["dx"]].astype(np.float32).astype(np.float64)
    assert allowed(budgets[1], "dx", "f32", got).all()
