"""What overflows on the way, and what is rounded on it: a correct kernel is not blamed, a wrong one still is."""

from __future__ import annotations

import numpy as np
import pytest

from oracles import Numerics
from oracles.problem import Problem
from oracles.rounding import STORAGE
from oracles.simulation import rms_norm, rms_norm_backward, rstd
from oracles.truth import OutputCheck, Truth

WIDE = pytest.mark.parametrize("dtype", ["f64", "f32"])


def checks(problem: Problem, numerics: Numerics, **outputs: np.ndarray) -> list[OutputCheck]:
    return list(Truth(problem).check(numerics, outputs))


@WIDE
def test_rows_whose_sum_of_squares_overflows_are_not_judged(dtype: str) -> None:
    """rstd, which the kernel forms, is 0 there, and so is dx; it is not NaN, as a careless reference has it."""
    rng = np.random.default_rng(0)
    largest = {"f64": 1e200, "f32": 1e30}[dtype]
    x, dy = (rng.standard_normal((3, 20)).astype(STORAGE[dtype]) for _ in range(2))
    x[1] *= STORAGE[dtype].type(largest)
    numerics = Numerics(accumulate=dtype, dw_accumulate=dtype)
    with np.errstate(over="ignore"):
        root = rstd(x, numerics, 1e-5)
    dx, dw = rms_norm_backward(x, dy, numerics, root)
    assert root[1] == 0
    assert (dx[1] == 0).all()
    problem = Problem("rms_norm_backward", {"eps": 1e-5}, {"x": x, "dy": dy}, {"dx": dtype, "dw": dtype})
    assert [check.result for check in checks(problem, numerics, dx=dx, dw=dw)] == ["pass", "pass"]
    # The other rows are judged, and so are the columns: the row adds nothing to them.
    dx[2, 3] *= STORAGE[dtype].type(1.01)
    wrong, _ = checks(problem, numerics, dx=dx, dw=dw)
    assert (wrong.result, wrong.worst_index, wrong.failing) == ("numeric", (2, 3), 1)


def test_a_nan_that_must_be_is_no_error() -> None:
    """Where the precise tier has to decide, too."""
    x = np.full((2, 4), 1.0, np.float32)
    x[1, 2] = np.inf
    weight = np.array([1.0, np.inf, 2.0, 3.0], np.float32)
    with np.errstate(invalid="ignore"):
        y, _ = rms_norm(x, Numerics(), 1e-5, "f32", weight)
    assert np.isnan(y).any()
    problem = Problem("rms_norm", {"eps": 1e-5}, {"x": x, "weight": weight}, {"y": "f32"}, structured=True)
    (check,) = checks(problem, Numerics(), y=y)
    assert (check.result, check.escalated > 0) == ("pass", True)
    assert check.worst_ratio < 1


def test_dw_is_not_judged_where_x_times_rstd_may_overflow() -> None:
    """x r is formed first: infinite for a given rstd, though its product with dy would be a number."""
    x = np.array([[1e30, 1.0], [2.0, 1.0]], np.float32)
    dy = np.array([[1e-30, 1.0], [1.0, 1.0]], np.float32)
    root = np.array([1e20, 0.5], np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        _, dw = rms_norm_backward(x, dy, Numerics(), root)
    assert np.isinf(dw[0])
    problem = Problem("rms_norm_backward", {"eps": 0.0}, {"x": x, "dy": dy, "rstd": root}, {"dw": "f32"})
    assert checks(problem, Numerics(), dw=dw)[0].result == "pass"
    dw[1] *= np.float32(1.01)
    (wrong,) = checks(problem, Numerics(), dw=dw)
    assert (wrong.result, wrong.worst_index, wrong.failing) == ("numeric", (1,), 1)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_llama_without_a_weight_still_rounds_x_hat(dtype: str) -> None:
    """y is wider than x, so that the rounding shows: it is promised, and not to round is another contract."""
    x = np.random.default_rng(1).standard_normal((4, 200)).astype(STORAGE[dtype])
    problem = Problem("rms_norm", {"eps": 1e-5}, {"x": x}, {"y": "f32"})
    for promised in ("llama", "gemma"):
        for done in ("llama", "gemma"):
            y, _ = rms_norm(x, Numerics(cast=done), 1e-5, "f32")
            (check,) = checks(problem, Numerics(cast=promised), y=y)
            assert (check.result == "pass") == (promised == done), (promised, done)


def test_dw_of_f16_is_judged_beyond_the_range_of_f16() -> None:
    """Summed in f32 and stored in f32, it is an ordinary number; rounded to f16 on the way, it may be infinite."""
    x = np.full((64, 4), 100.0, np.float16)
    root = np.full(64, 1.0, np.float32)
    given: dict[str, np.ndarray] = {"x": x, "dy": x, "rstd": root}
    problem = Problem("rms_norm_backward", {"eps": 0.0}, given, {"dw": "f32"}, structured=True)
    dw = np.full(4, 640000.0, np.float32)
    assert checks(problem, Numerics(), dw=dw)[0].result == "pass"
    assert checks(problem, Numerics(), dw=dw * np.float32(1.01))[0].result == "numeric"
    assert checks(problem, Numerics(cast="llama"), dw=dw * np.float32(np.inf))[0].result == "pass"
