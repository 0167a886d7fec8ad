"""Independent witnesses: Arb ball arithmetic (python-flint) for exact values, published controls for false alarms."""

from __future__ import annotations

import flint
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import Contract
from oracles.doubledouble import head
from oracles.problem import Problem
from oracles.rounding import STORAGE
from oracles.tests.common.adversary import store
from oracles.tests.common.judged import results, simulated
from oracles.tests.common.whole import quarter
from oracles.truth import Truth

EPS = 2.0**-17


def arb(value: float) -> flint.arb:
    mantissa, exponent = float(value).as_integer_ratio()
    return flint.arb(mantissa) / flint.arb(exponent)


def contains(ball: flint.arb, value: mpmath.mpf, relative: float) -> bool:
    """Whether an mpmath or float64 number lies within `relative` of the ball."""
    # An mpf made of an mpf is rounded to the working precision, so the value must be printed as it is.
    text = mpmath.nstr(value if isinstance(value, mpmath.mpf) else mpmath.mpf(float(value)), 60)
    return bool(abs(flint.arb(text) - ball) <= abs(ball) * relative)


elements = st.floats(-(2.0**60), 2.0**60, width=32).filter(lambda v: v == 0 or abs(v) > 2.0**-50)


@given(st.lists(elements, min_size=1, max_size=20))
@settings(max_examples=quarter(80), deadline=None)
def test_forward_values(values: list[float]) -> None:
    x = np.array([values], dtype=np.float32)
    problem = Problem("rms_norm", {"eps": EPS}, {"x": x}, {"y": "f32", "rstd": "f32"}, structured=True)
    truth = Truth(problem)
    flint.ctx.prec = 300
    root = 1 / (sum((arb(v) ** 2 for v in values), flint.arb(0)) / len(values) + arb(EPS)).sqrt()
    fast = truth.enclosures(Contract(), True)
    bounds = truth.bounds(Contract(), "rstd", (0,), True)
    assert bounds is not None
    assert contains(root, bounds.centre, 1e-50)
    assert contains(root, head(fast["rstd"].centre)[0], 1e-14)
    for column, value in enumerate(values):
        element = truth.bounds(Contract(), "y", (0, column), True)
        assert element is not None
        assert contains(arb(value) * root, element.centre, 1e-50)
        assert contains(arb(value) * root, head(fast["y"].centre)[0, column], 1e-14)


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_backward_values(seed: int, n: int, rows: int) -> None:
    rng = np.random.default_rng(seed)
    x, dy = (rng.standard_normal((rows, n)).astype(np.float32) for _ in range(2))
    weight = rng.standard_normal(n).astype(np.float32)
    given_inputs = {"x": x, "dy": dy, "weight": weight}
    problem = Problem("rms_norm_backward", {"eps": EPS}, given_inputs, {"dx": "f32", "dw": "f32"})
    truth = Truth(problem)
    flint.ctx.prec = 300
    columns = [flint.arb(0)] * n
    for i in range(rows):
        a, b = [arb(v) for v in x[i]], [arb(u) * arb(w) for u, w in zip(dy[i], weight, strict=True)]
        mean_square = sum((v * v for v in a), flint.arb(0)) / n
        root = 1 / (mean_square + arb(EPS)).sqrt()
        # The derivative as it comes out of the product rule, not in the form that kernels use.
        dot = sum((v * m for v, m in zip(a, b, strict=True)), flint.arb(0))
        for j in range(n):
            expected = b[j] * root - a[j] * dot / n * root**3
            element = truth.bounds(Contract(), "dx", (i, j), False)
            assert element is not None
            flint_text = flint.arb(mpmath.nstr(element.centre, 60))
            assert bool(abs(flint_text - expected) <= (abs(b[j] * root) + abs(a[j] * root)) * flint.arb("1e-45"))
            columns[j] += arb(dy[i, j]) * a[j] * root
    for j in range(n):
        element = truth.bounds(Contract(), "dw", (j,), False)
        assert element is not None
        assert bool(abs(flint.arb(mpmath.nstr(element.centre, 60)) - columns[j]) <= flint.arb("1e-45"))


def test_control_o1_low_precision_reference() -> None:
    """A right bf16 backward passes, though a reference that forms x*dy in bf16 differs from it."""
    rng = np.random.default_rng(0)
    x, dy = (store(rng.standard_normal((16, 256)), "bf16") for _ in range(2))
    root = (1 / np.sqrt(np.mean(x.astype(np.float64) ** 2, axis=1) + EPS)).astype(np.float32)
    of = Problem("rms_norm_backward", {"eps": EPS}, {"x": x, "dy": dy, "rstd": root}, {"dx": "bf16", "dw": "f32"})
    right = simulated(of)
    assert results(of, Contract(), right) == ["pass", "pass"]
    low = np.add.reduce((x * dy).astype(np.float32) * root[:, None], axis=0)
    assert results(of, Contract(), {**right, "dw": low}) == ["pass", "numeric"]


def test_control_o2_outputs_near_30_in_bf16() -> None:
    """Half an ulp there is 0.0625; an absolute tolerance of 0.06 would reject right results."""
    x = store(np.random.default_rng(0).standard_normal((64, 512)), "bf16")
    of = Problem("rms_norm", {"eps": EPS}, {"x": x, "weight": store(np.full(512, 16.0), "bf16")}, {"y": "bf16"})
    right = simulated(of)
    assert np.max(np.abs(right["y"].astype(np.float64))) > 30
    assert results(of, Contract(), right) == ["pass"]


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_control_o3_double_rounding_on_one_side(dtype: str) -> None:
    """Rounded through f32 or directly: the contract leaves it open, so both pass."""
    x = store(np.random.default_rng(0).standard_normal((64, 512)), dtype)
    of = Problem("rms_norm", {"eps": EPS}, {"x": x}, {"y": dtype, "rstd": "f32"})
    right = simulated(of)
    direct = store(x.astype(np.float64) * right["rstd"].astype(np.float64)[:, None], dtype)
    assert results(of, Contract(), right) == results(of, Contract(), {**right, "y": direct}) == ["pass", "pass"]


def test_control_o4_default_eps() -> None:
    """A default eps of bf16's or of f32's machine epsilon: each is right for its own problem, and only for that."""
    x = store(np.random.default_rng(0).standard_normal((4, 32)) * 0.058, "bf16")
    each = {eps: Problem("rms_norm", {"eps": eps}, {"x": x}, {"y": "bf16"}) for eps in (2.0**-7, 2.0**-23)}
    for own, of in each.items():
        for eps, other in each.items():
            assert (results(of, Contract(), simulated(other)) == ["pass"]) == (own == eps)


def test_control_o5_what_overflows_is_zero() -> None:
    """Above 1.8e19 an unscaled f32 sum overflows: then zeros are right as well as ones, which are exact; where it is
    formed in f64 ones alone are."""
    x = np.full((2, 64), 1e20, np.float32) * np.array([[1], [-1]], np.float32)
    weight = np.ones(64, np.float32)  # without one a kernel may add a zero, and zeros have any sign
    of = Problem("rms_norm", {"eps": EPS}, {"x": x, "weight": weight}, {"y": "f32"}, structured=True)
    zeros, ones, wide = x * np.float32(0), np.sign(x), Contract("f64", dtypes={"y": "f32"})
    assert results(of, Contract(), {"y": zeros}) == results(of, wide, {"y": ones}) == ["pass"]
    assert results(of, Contract(), {"y": ones}) == ["pass"]
    assert results(of, Contract(), {"y": ones / 2}) == results(of, wide, {"y": zeros}) == ["numeric"]
    assert results(of, Contract(), {"y": np.abs(zeros)}) == ["numeric"]


@pytest.mark.parametrize("scale", [1e-30, 1e-18, 1e-6, 1.0, 1e4])
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_all_zero_output_fails_on_every_row_that_is_not_zero(dtype: str, scale: float) -> None:
    x = store(np.random.default_rng(0).standard_normal((2, 33)) * scale, dtype)
    of = Problem("rms_norm", {"eps": 0.0}, {"x": x}, {"y": dtype})
    if x.astype(np.float64).all():
        assert results(of, Contract(), {"y": np.zeros(x.shape, STORAGE[dtype])}) == ["numeric"]
