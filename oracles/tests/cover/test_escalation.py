"""How seldom the fast tier needs the precise one. How fast it is, `python3 -m fuzz.quality oracle` measures."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from oracles import Contract, Lanes, escalation
from oracles.enclosure import OutputComparison, compare
from oracles.formula.exact import deadline
from oracles.ops import OPS
from oracles.precise import Bounds
from oracles.problem import Problem
from oracles.rounding import STORAGE
from oracles.tests.common.formulas import HARD
from oracles.tests.common.judged import problem, simulated
from oracles.tests.common.tiers import disagreements
from oracles.tiers.elements import Elements
from oracles.truth import Truth


@pytest.mark.some(1)
@pytest.mark.parametrize("op", ["rms_norm", "rms_norm_backward"])
def test_hardly_any_element_is_escalated(op: str) -> None:
    rng, elements, escalated = np.random.default_rng(0), 0, 0
    contract = Contract(sums={"n": Lanes(16, 4, "scalar")}, fused=False)
    for dtype in ("f32", "f16", "bf16"):
        for kind in HARD:
            of = problem(OPS[op], kind, dtype, (4, 512), rng)
            got = simulated(of, contract)
            checks = Truth(of).check(contract, got)
            assert {check.result for check in checks} == {"pass"}, (kind, dtype)
            escalated += sum(check.escalated for check in checks)
            elements += sum(each.size for each in got.values())
    assert escalated / elements < 1e-3


def test_what_is_added_in_float64_is_decided_by_the_fast_tier() -> None:
    """A row whose gradient cancels: float64 could not tell what a kernel in it may return from its own error."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((4, 724)).astype(np.float32)
    inputs = {
        "x": x,
        "dy": (x * np.float32(1.5) + rng.standard_normal(x.shape).astype(np.float32) * 1e-6).astype("<f4"),
    }
    of = Problem("rms_norm_backward", {"eps": 0.0}, inputs, {"dx": "f32"}, structured=True)
    values, dy = x.astype(np.float64), inputs["dy"].astype(np.float64)
    r = 1.0 / np.sqrt((values * values).mean(1, keepdims=True))
    dx = r * (dy - values * r * (values * r * dy).mean(1, keepdims=True))
    (check,) = Truth(of).check(Contract("f64"), {"dx": dx.astype(np.float32)})
    assert (check.result, check.escalated) == ("pass", 0)


def test_rows_of_one_element_are_decided_by_the_fast_tier() -> None:
    """Their mean is the element itself, however large: what is left of it is 0, and no bound of an error."""
    x = (2.0 ** np.arange(0, 64, 4, dtype="f4"))[:, None]
    inputs: dict[str, Any] = {"x": x, "weight": np.array([0.7], "f4"), "bias": np.array([-0.3], "f4")}
    of = Problem("layer_norm", {"eps": 1e-8, "axis": 1}, inputs, {"y": "f32"}, structured=True)
    (check,) = Truth(of).check(Contract(), {"y": np.full(x.shape, -0.3, "f4")})
    assert (check.result, check.escalated) == ("pass", 0)


def guessed() -> Iterator[tuple[Problem, Contract]]:
    """Problems of which float64 finds forms by chance: scores far larger than their differences, and rows whose values
    hardly differ."""
    rng = np.random.default_rng(11)
    bias = rng.standard_normal((1, 2, 3, 4)) * 10.0 ** np.array([0, 8, 12, 18])
    shapes = {"q": (1, 1, 2, 3, 3), "k": (1, 1, 4, 3), "v": (1, 1, 4, 2)}
    given = {"bias": bias, **{name: rng.standard_normal(shape) for name, shape in shapes.items()}}
    for dtype, contract in (("f32", Contract()), ("f64", Contract()), ("f32", Contract(points={"p": "bf16"}))):
        of = {name: values.astype(STORAGE[dtype]) for name, values in given.items()}
        yield Problem("attention", {"softmax_scale": 1.0, "axis": 4}, of, {"o": dtype, "lse": dtype}), contract
    x = (1e4 + rng.standard_normal((4, 6)) * np.array([[0.0], [1e-3], [1e-2], [1.0]])).astype("f4")
    rows = {"x": x, "weight": np.ones(6, "f4"), "bias": np.zeros(6, "f4")}
    outputs = {"y": "f32", "mean": "f32", "rstd": "f32"}
    yield Problem("layer_norm", {"eps": 1e-8, "axis": 1}, rows, outputs), Contract()
    halves = (np.array([[127.0, 94.5, -36.5, 2.5, 0.5, -126.5]]) * np.array([[0.75], [1 / 3], [3e-7]])).astype("f4")
    yield Problem("quantize_rows", {"axis": 1}, {"x": halves}, {"q": "int8", "scale": "f32"}), Contract()


@pytest.mark.some(2)
@pytest.mark.parametrize(("of", "contract"), [*guessed()])
def test_what_only_beside_other_rows_would_be_in_doubt_is_not_asked_of_mpmath(of: Problem, contract: Contract) -> None:
    truth, rng = Truth(of), np.random.default_rng(0)
    unsure = sum(int(compare(each, each.outer[0]).unsure.sum()) for each in truth.enclosures(contract, False).values())
    assert unsure, "otherwise the problem shows nothing"
    (compared, _, wrong) = disagreements(of, contract, rng)
    assert not wrong, f"{wrong[0]}, of {compared}"
    for check in truth.check(contract, simulated(of, contract)):
        assert (check.result, check.escalated) == ("pass", 0), check.output


def test_an_element_is_asked_about_once_for_all_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    x, asked = np.random.default_rng(6).standard_normal((2, 8)).astype(np.float32), 0
    bounds = Elements.bounds

    def counted(self: Elements, *of: Any, **known: Any) -> Bounds:
        nonlocal asked
        asked += 1
        return bounds(self, *of, **known)

    monkeypatch.setattr(Elements, "bounds", counted)
    truth = Truth(Problem("rms_norm", {"eps": 1e-5}, {"x": x}, {"y": "f32"}))
    one, other = (truth.bounds(each, "y", (0, 1), True) for each in (Contract(), Contract(zeros="ieee")))
    assert one is other
    assert asked == 2  # at two precisions
    assert truth.bounds(Contract(), "y", (0, 2), True) is not one
    assert asked == 4


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("op", "contract"),
    [
        ("rms_norm", Contract("bf16", {"h": "f64", "mean_square": "f64"})),
        ("layer_norm", Contract("bf16", {"centred": "f64", "rstd": "f64", "scaled": "f64"})),
        ("log_softmax", Contract("f64", {"shifted": "bf16", "y": "bf16"})),
        ("log_softmax", Contract("f16", {"mass": "f64"})),
    ],
)
def test_what_sixteen_bits_err_by_is_not_taken_for_errors_of_float64(op: str, contract: Contract) -> None:
    """A local in f64 beside them: float64 is as wrong as that is, not as they are."""
    rng, elements, escalated = np.random.default_rng(0), 0, 0
    for kind in HARD:
        of = problem(OPS[op], kind, "bf16", (2, 96), rng)
        got = simulated(of, contract)
        checks = Truth(of).check(contract, got)
        assert {check.result for check in checks} == {"pass"}, kind
        escalated += sum(check.escalated for check in checks)
        elements += sum(each.size for each in got.values())
    assert escalated / elements < 0.05, "it was two thirds and more"


def test_one_element_that_takes_too_long_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays undecided, and is asked in full where there is time."""
    x = np.random.default_rng(7).standard_normal((1, 4000)).astype(np.float32)
    truth = Truth(Problem("softmax", {}, {"x": x}, {"y": "f32"}))
    unsure = np.zeros(x.shape, bool)
    unsure[0, :2] = True
    comparison = OutputComparison(np.zeros(x.shape, bool), unsure, np.zeros(x.shape))

    def bounds(index: tuple[int, ...]) -> Bounds | None:
        return truth.bounds(Contract(), "y", index, False)

    start, ticks = escalation.PreciseProgress("softmax", "y", 0, 2), count()
    clock = SimpleNamespace(process_time=lambda: next(ticks) * 0.01)  # no processor decides how much is done in time
    monkeypatch.setattr(escalation, "time", clock)
    monkeypatch.setattr(deadline, "time", clock)
    monkeypatch.setattr(escalation, "MOST_S", 0.1)
    monkeypatch.setattr(deadline, "_TELL_S", 0.0)
    steps = list[escalation.PreciseProgress]()
    monkeypatch.setattr(escalation, "watch", steps.append)
    assert escalation.settled(comparison, x.astype(np.float64), bounds, start)[2:] == (0, 2)
    assert len(steps) > 2, "told of meanwhile"
    assert bounds((0, 0)) is not None


def test_once_the_time_is_over_no_further_element_is_asked_in_many_digits() -> None:
    unsure, asked = np.ones((1, 5), bool), list[tuple[int, ...]]()
    comparison = OutputComparison(np.zeros(unsure.shape, bool), unsure, np.zeros(unsure.shape))

    def bounds(index: tuple[int, ...]) -> Bounds | None:
        asked.append(index)
        return None

    start = escalation.PreciseProgress("softmax", "y", 0, 5)
    with escalation.until(lambda: len(asked) == 2):
        assert escalation.settled(comparison, np.zeros(unsure.shape), bounds, start)[2:] == (2, 3)
    assert escalation.settled(comparison, np.zeros(unsure.shape), bounds, start)[2:] == (5, 0)


@pytest.mark.parametrize("relu", [0.0, 1.0])
def test_a_product_that_vanishes_is_not_in_doubt_because_of_a_choice_that_changes_nothing(relu: float) -> None:
    """Whether it is negative float64 cannot tell, and zero or it differ by less than anything that is seen."""
    rng = np.random.default_rng(3)
    a, b = (1e-38 * rng.standard_normal(shape).astype(np.float32) for shape in ((16, 8), (8, 16)))
    truth = Truth(Problem("matmul", {"relu": relu}, {"a": a, "b": b}, {"c": "f32"}))
    (check,) = truth.check(Contract(), {"c": np.zeros((16, 16), np.float32)})
    assert (check.result, check.escalated) == ("pass", 0)


def test_a_share_of_which_the_form_knows_as_much_as_an_edge_is_known_to_as_many_bits_as_kernels_in_f64_have() -> None:
    """There is one key: its share is 1, whatever its score, and where scores are huge the form of that has an edge."""
    rng = np.random.default_rng(4)
    q, v = rng.standard_normal((8, 1, 4, 2, 1)) * 1e19, rng.standard_normal((8, 1, 1, 3))
    inputs = {"q": q, "k": rng.standard_normal((8, 1, 1, 1)), "v": v, "bias": rng.standard_normal((1, 4, 2, 1))}
    params = {each.name: each.neutral if each.neutral is not None else 1.0 for each in OPS["attention"].parameters}
    truth = Truth(Problem("attention", params, inputs, {"o": "f64"}))
    got = np.broadcast_to(v[:, :, None], (8, 1, 4, 2, 3)).copy()
    (check,) = truth.check(Contract(), {"o": got})
    assert check.result == "pass"
    assert check.escalated < got.size / 10


def test_what_vanishes_at_few_bits_and_at_twice_as_many_is_no_zero() -> None:
    """1 + tanh of -160 is 2^-457, which neither 160 bits nor 320 show."""
    contract = Contract("f64", algorithm={"y": "quotient"})
    x = np.array([[-16.0, -26.0, -3.0, 0.0]])
    truth = Truth(Problem("gelu_tanh", {}, {"x": x}, {"y": "f64"}))
    for place, value in enumerate((-1.5297633712990907e-137, 0.0, -0.0036373920817730177, 0.0)):
        bounds = truth.bounds(contract, "y", (0, place), False)
        assert bounds is not None
        assert float(bounds.centre) == pytest.approx(value, rel=1e-15, abs=0.0)
