"""Gradients of float64 rows of any size: the fast tier decides most, and none against the precise tier."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from oracles import Numerics
from oracles.doubledouble import F64, DoubleDouble, Real, shifted
from oracles.problem import Problem
from oracles.scaling import LOST, Shift, times
from oracles.tests.common.tiers import disagreements

WIDE = {
    "x_hat": Numerics(accumulate="f64", dw_accumulate="f64"),
    "rstd3": Numerics(accumulate="f64", dw_accumulate="f64", dx="rstd3", sum_range="exact"),
    "llama": Numerics(accumulate="f64", dw_accumulate="f64", cast="llama"),
}
EPS = (0.0, 1e-5, 1e-12, 100.0)


def problems(seed: int, count: int, spread: int) -> Iterator[Problem]:
    """Rows with exponents from end to end of the range; within a row elements differ by up to 2^spread."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        rows, n = int(rng.integers(1, 4)), int(rng.integers(1, 6))
        x, dy = (_grid(rows, n, spread, rng) for _ in range(2))
        inputs = {"x": x, "dy": dy}
        if number % 2:
            inputs["weight"] = _grid(1, n, spread, rng)[0]
        if number % 3 == 2:
            largest = np.frexp(np.abs(x).max(axis=1))[1]
            inputs["rstd"] = np.ldexp(
                rng.uniform(0.5, 1, rows), np.clip(rng.integers(-80, 80, rows) - largest, -1000, 1000)
            )
        outputs = {"dx": "f64", "dw": "f64"}
        yield Problem("rms_norm_backward", {"eps": EPS[number % 4]}, inputs, outputs, structured=bool(number % 5))


def _grid(rows: int, n: int, spread: int, rng: np.random.Generator) -> F64:
    scales = rng.integers(-1060, 1000, (rows, 1)) if rng.uniform() < 0.5 else rng.integers(-540, 500, (rows, 1))
    values: F64 = np.ldexp(
        rng.standard_normal((rows, n)), np.clip(scales - rng.integers(0, spread + 1, (rows, n)), -1074, 1010)
    )
    values[rng.uniform(size=values.shape) < 0.15] = 0.0
    return values


def judged(seed: int, count: int, spread: int, numerics: Numerics) -> tuple[int, int, list[str]]:
    rng = np.random.default_rng(seed)
    found = [disagreements(problem, numerics, rng) for problem in problems(seed, count, spread)]
    return sum(each[0] for each in found), sum(each[1] for each in found), [line for each in found for line in each[2]]


@pytest.mark.parametrize("spread", [0, 40, 1000])
@pytest.mark.parametrize("name", WIDE)
def test_rows_of_any_size_are_enclosed(name: str, spread: int) -> None:
    compared, unsure, wrong = judged(7, 9, spread, WIDE[name])
    assert not wrong, wrong[0]
    if name == "x_hat" and spread < 1000:
        assert unsure < compared / 10, f"{unsure} of {compared}"


STEPS: dict[str, Callable[..., Real]] = {"gradient.times": times, "columns.times": times, "rows.shifted": shifted}


@pytest.mark.parametrize("step", STEPS)
def test_a_planted_loss_of_accuracy_is_contradicted(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is scaled back is a float64 number."""

    def without_low_part(value: Real, by: Shift) -> Real:
        moved = STEPS[step](value, by)
        return DoubleDouble(moved.high) if isinstance(moved, DoubleDouble) else moved

    monkeypatch.setattr(f"oracles.{step}", without_low_part)
    assert judged(7, 12, 40, WIDE["x_hat"])[2]


def test_what_underflows_must_be_allowed_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOST", "LOWEST"):
        monkeypatch.setattr(f"oracles.columns.{name}", 0.0)
    assert judged(7, 30, 1000, WIDE["x_hat"])[2]


def test_what_underflows_in_a_scaled_row_must_be_allowed_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second element lies so far below the first that only a given, large rstd makes it a normal number."""
    x, dy = np.ldexp([[1.3, 1.37]], [[300, -760]]), np.array([[1.1, 0.0]])
    rstd = np.ldexp([1.0], [-150])
    problem = Problem("rms_norm_backward", {"eps": 0.0}, {"x": x, "dy": dy, "rstd": rstd}, {"dx": "f64"})
    for lost, contradicted in ((LOST, False), (0.0, True)):
        monkeypatch.setattr("oracles.gradient.LOST", lost)
        assert bool(disagreements(problem, WIDE["x_hat"], np.random.default_rng(0))[2]) == contradicted
