"""Op `attention`: what each of its modes means, by kernels written out in float64, and that another one is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from oracles import AnyOrder, Contract
from oracles.algorithm import traced
from oracles.formula.exact.arithmetic import Float64
from oracles.formula.exact.centre import Inputs, evaluate
from oracles.ops import OPS
from oracles.ops.attention import ALGORITHMS
from oracles.problem import Problem
from oracles.tests.common.gradients import gradient
from oracles.tests.common.judged import results, simulated

Array = NDArray[Any]
FREE = Contract(sums={"d": AnyOrder(), "j": AnyOrder()})
MODES = {"softmax_scale": 0.5, "causal": 0.0, "window": -1.0, "cap": 0.0, "blank": 0.0}


def problem(keys: int = 7, *, spiked: bool = False, mask: Array | None = None, **modes: float) -> Problem:
    random = np.random.default_rng(1)
    q, k, v = (
        random.standard_normal(shape).astype(np.float32)
        for shape in ((2, 2, 3, 5, 4), (2, 2, keys, 4), (2, 2, keys, 3))
    )
    if spiked:
        v = np.zeros_like(v)
        v[:, :, -1] = 1
    inputs = {"q": q, "k": k, "v": v, "bias": random.standard_normal((2, 3, 5, keys)).astype(np.float32)}
    inputs |= {} if mask is None else {"mask": mask}
    return Problem("attention", {**MODES, **modes, "axis": 4}, inputs, {"o": "f32", "lse": "f32"})


def attended(of: Problem, keys: int = 0, cap_last: bool = False, **wrong: float) -> dict[str, Array]:
    """The op in float64, with other modes than those of the problem, or only so many of its keys."""
    modes = {**of.params, **wrong}
    q, k, v, bias = (of.inputs[name].astype(np.float64) for name in ("q", "k", "v", "bias"))
    last, (i, j) = keys or k.shape[2], np.ogrid[: q.shape[3], : k.shape[2]]
    ahead = j - i - (k.shape[2] - q.shape[3] if modes["causal"] == 2 else 0)
    seen = (j < last) & ((ahead <= 0) | (modes["causal"] == 0)) & ((ahead >= -modes["window"]) | (modes["window"] < 0))
    seen = seen[None, None, None] & of.inputs.get("mask", np.ones((1, 1, 1), bool))[:, None, None]
    with np.errstate(all="ignore"):
        s, cap = np.einsum("bghid,bgjd->bghij", q, k) * modes["softmax_scale"], modes["cap"]
        s = cap * np.tanh((s + cap_last * bias) / cap) + (not cap_last) * bias if cap else s + bias
        s = np.where(seen, s, -np.inf)
        most = s.max(-1, keepdims=True)
        p = np.exp(s - np.where(np.isinf(most), 0, most))
        mass = p.sum(-1, keepdims=True)
        o = np.einsum("bghij,bgje->bghie", p, v) / mass
        o = np.where(np.isinf(most), np.nan if modes["blank"] else 0.0, o)
        lse = (np.where(np.isinf(most), 0, most) + np.log(mass))[..., 0]
    return {"o": o.astype(np.float32), "lse": lse.astype(np.float32)}


NOTHING = np.arange(70).reshape(2, 5, 7) % 14 < 7
CASES: tuple[dict[str, Any], ...] = (
    {}, {"causal": 1.0}, {"causal": 2.0}, {"causal": 1.0, "keys": 3}, {"causal": 2.0, "keys": 3}, {"window": 2.0},
    {"causal": 2.0, "window": 0.0}, {"cap": 1.0}, {"mask": NOTHING}, {"mask": NOTHING, "blank": 1.0},
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(case) or "plain")
def test_each_mode_means_what_it_says(case: dict[str, Any]) -> None:
    of = problem(**case)
    assert results(of, FREE, attended(of)) == ["pass", "pass"]
    assert results(of, FREE, simulated(of, FREE, 1)) == ["pass", "pass"]


@pytest.mark.some(4)
@pytest.mark.parametrize(
    ("case", "wrong"),
    [
        ({"causal": 1.0}, {"causal": 2.0}), ({"causal": 2.0}, {"causal": 1.0}), ({"causal": 1.0}, {"causal": 0.0}),
        ({"window": 2.0}, {"window": 1.0}), ({"window": 2.0}, {"window": 3.0}), ({}, {"softmax_scale": 0.25}),
        ({"cap": 1.0}, {"cap": 0.0}), ({"cap": 1.0}, {"cap_last": True}), ({"spiked": True}, {"keys": 6}),
    ],
)  # fmt: skip
def test_another_mode_is_told(case: dict[str, Any], wrong: dict[str, Any]) -> None:
    of = problem(**case)
    assert "numeric" in results(of, FREE, attended(of, **wrong))


def test_a_query_without_a_key_has_what_the_caller_wants() -> None:
    for blank in (0.0, 1.0):
        of = problem(mask=NOTHING, blank=blank)
        assert results(of, FREE, attended(of, blank=1.0 - blank)) == ["nonfinite", "pass"]


def test_a_logarithm_to_the_base_2_is_told() -> None:
    of = problem()
    right = attended(of)
    assert results(of, FREE, {**right, "lse": (right["lse"] / np.log(2)).astype(np.float32)}) == ["pass", "numeric"]


@pytest.mark.some(3)
@pytest.mark.parametrize(("local", "name"), [(local, name) for local in ALGORITHMS for name in ALGORITHMS[local]])
def test_correct_kernels_of_each_algorithm_pass(local: str, name: str) -> None:
    contract = Contract(sums=FREE.sums, algorithm={local: name})
    cases: tuple[dict[str, Any], ...] = (
        {"causal": 2.0, "mask": NOTHING, "cap": 1.0}, {"blank": 1.0, "mask": NOTHING}
    )  # fmt: skip
    for case in cases:
        of = problem(**case)
        assert results(of, contract, simulated(of, contract, 2)) == ["pass", "pass"]


@pytest.mark.parametrize("causal", [0.0, 1.0, 2.0])
def test_the_backward_pass_is_the_gradient_of_the_forward_one(causal: float) -> None:
    """By the formula that is derived, which takes the maximum for a constant."""
    forward = traced(OPS["attention"], {"q", "k", "v", "bias", "o", *MODES})
    derived = gradient(forward, "o", ("q", "k", "v"))
    backward = traced(OPS["attention_backward"], {"q", "k", "v", "bias", "dy", "dq", "dk", "dv", *MODES} - {"blank"})
    random, modes = np.random.default_rng(3), {**MODES, "causal": causal, "cap": 1.5, "window": 2.0}
    shapes = {"q": (2, 1, 2, 3, 4), "k": (2, 1, 5, 4), "v": (2, 1, 5, 2), "bias": (1, 2, 3, 5), "dy": (2, 1, 2, 3, 2)}
    tensors = {name: random.standard_normal(shape) for name, shape in shapes.items()}
    one = evaluate(Inputs(derived, {"do" if n == "dy" else n: each for n, each in tensors.items()}, modes), Float64())
    two = evaluate(Inputs(backward, tensors, modes), Float64())
    for name in ("dq", "dk", "dv"):
        a, b = one[derived.outputs[name]], two[backward.outputs[name]]
        assert np.abs(b).max() > 0.01
        kept = [size for size in a.shape if size > 1]
        assert np.allclose(a.reshape(kept), b.reshape(kept), rtol=1e-10, atol=1e-12), name


def test_a_kernel_of_the_backward_pass_that_leaves_a_head_out_is_told() -> None:
    of = replace(problem(), outputs=dict.fromkeys(("dq", "dk", "dv"), "f32"))
    inputs = {**of.inputs, "dy": np.random.default_rng(4).standard_normal((2, 2, 3, 5, 3)).astype(np.float32)}
    params = {name: value for name, value in of.params.items() if name != "blank"}
    of = Problem("attention_backward", params, inputs, of.outputs)
    contract = Contract(sums={**FREE.sums, "e": AnyOrder(), "h i": AnyOrder()})
    right = simulated(of, contract, 1)
    assert results(of, contract, right) == ["pass"] * 3
    less = Problem(
        "attention_backward", params, {**inputs, "dy": inputs["dy"] * (np.arange(3) < 2)[:, None, None]}, of.outputs
    )
    assert results(of, contract, {**right, "dk": simulated(less, contract, 1)["dk"]}) == ["pass", "numeric", "pass"]
