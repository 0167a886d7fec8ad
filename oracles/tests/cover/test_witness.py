"""Independent witnesses: Arb ball arithmetic (python-flint) for exact values, published controls for false alarms."""

from __future__ import annotations

import flint
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import Lanes, Numerics
from oracles.doubledouble import head
from oracles.problem import Problem
from oracles.rounding import STORAGE
from oracles.simulation import rms_norm, rms_norm_backward, rstd
from oracles.tests.common.adversary import store
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
@settings(max_examples=150, deadline=None)
def test_forward_values(values: list[float]) -> None:
    x = np.array([values], dtype=np.float32)
    problem = Problem("rms_norm", {"eps": EPS}, {"x": x}, {"y": "f32", "rstd": "f32"}, structured=True)
    truth = Truth(problem)
    flint.ctx.prec = 300
    root = 1 / (sum((arb(v) ** 2 for v in values), flint.arb(0)) / len(values) + arb(EPS)).sqrt()
    fast = truth.enclosures(Numerics(), True)
    bounds = truth.bounds(Numerics(), "rstd", (0,), True)
    assert bounds is not None
    assert contains(root, bounds.centre, 1e-50)
    assert contains(root, head(fast["rstd"].centre)[0], 1e-14)
    for column, value in enumerate(values):
        element = truth.bounds(Numerics(), "y", (0, column), True)
        assert element is not None
        assert contains(abs(arb(value)) * root, element.centre, 1e-50)
        assert contains(abs(arb(value)) * root, head(fast["y"].centre)[0, column], 1e-14)


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
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
            element = truth.bounds(Numerics(), "dx", (i, j), False)
            assert element is not None
            flint_text = flint.arb(mpmath.nstr(element.centre, 60))
            assert bool(abs(flint_text - expected) <= (abs(b[j] * root) + abs(a[j] * root)) * flint.arb("1e-45"))
            columns[j] += arb(dy[i, j]) * a[j] * root
    for j in range(n):
        element = truth.bounds(Numerics(), "dw", (j,), False)
        assert element is not None
        assert bool(abs(flint.arb(mpmath.nstr(element.centre, 60)) - columns[j]) <= flint.arb("1e-45"))


def results(problem: Problem, numerics: Numerics, **outputs: np.ndarray) -> list[str]:
    return [check.result for check in Truth(problem).check(numerics, outputs)]


def test_control_o1_low_precision_reference() -> None:
    """A right bf16 backward passes, though a reference that forms x*dy in bf16 differs from it."""
    rng = np.random.default_rng(0)
    x, dy = (store(rng.standard_normal((16, 256)), "bf16") for _ in range(2))
    root = rstd(x, Numerics(), EPS)
    dx, dw = rms_norm_backward(x, dy, Numerics(), root)
    problem = Problem("rms_norm_backward", {"eps": EPS}, {"x": x, "dy": dy, "rstd": root}, {"dx": "bf16", "dw": "f32"})
    assert results(problem, Numerics(), dx=dx, dw=dw) == ["pass", "pass"]
    low = np.add.reduce((x * dy).astype(np.float32) * root[:, None], axis=0)
    assert results(problem, Numerics(), dx=dx, dw=low) == ["pass", "numeric"]


def test_control_o2_outputs_near_30_in_bf16() -> None:
    """Half an ulp there is 0.0625; an absolute tolerance of 0.06 would reject right results."""
    x = store(np.random.default_rng(0).standard_normal((64, 512)), "bf16")
    weight = store(np.full(512, 16.0), "bf16")
    y, _ = rms_norm(x, Numerics(), EPS, "bf16", weight)
    assert np.max(np.abs(y.astype(np.float64))) > 30
    problem = Problem("rms_norm", {"eps": EPS}, {"x": x, "weight": weight}, {"y": "bf16"})
    assert results(problem, Numerics(), y=y) == ["pass"]


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_control_o3_double_rounding_on_one_side(dtype: str) -> None:
    """Rounded through f32 or directly: the contract leaves it open, so both pass."""
    x = store(np.random.default_rng(0).standard_normal((64, 512)), dtype)
    y, root = rms_norm(x, Numerics(), EPS, dtype)
    direct = store(x.astype(np.float64) * root.astype(np.float64)[:, None], dtype)
    problem = Problem("rms_norm", {"eps": EPS}, {"x": x}, {"y": dtype})
    assert results(problem, Numerics(), y=y) == results(problem, Numerics(), y=direct) == ["pass"]


def test_control_o4_default_eps() -> None:
    """A default eps of bf16's or of f32's machine epsilon: each is right for its own problem, and only for that."""
    x = store(np.random.default_rng(0).standard_normal((4, 32)) * 0.058, "bf16")
    for own in (2.0**-7, 2.0**-23):
        for eps in (2.0**-7, 2.0**-23):
            y, _ = rms_norm(x, Numerics(), eps, "bf16")
            verdict = results(Problem("rms_norm", {"eps": own}, {"x": x}, {"y": "bf16"}), Numerics(), y=y)
            assert (verdict == ["pass"]) == (own == eps)


def test_control_o5_overflow_is_a_policy() -> None:
    """Above 1.8e19 an unscaled f32 sum overflows: zeros are right under 'ieee', ones under 'exact'."""
    x = np.full((2, 64), 1e20, np.float32) * np.array([[1], [-1]], np.float32)
    problem = Problem("rms_norm", {"eps": EPS}, {"x": x}, {"y": "f32"}, structured=True)
    zeros, ones = x * np.float32(0), np.sign(x)
    ieee, exact = Numerics(summation=Lanes(16, 4, "scalar")), Numerics(sum_range="exact")
    assert results(problem, ieee, y=zeros) == results(problem, exact, y=ones) == ["pass"]
    assert results(problem, ieee, y=ones) == results(problem, exact, y=zeros) == ["numeric"]
    assert results(problem, ieee, y=np.abs(zeros)) == ["numeric"]


def test_all_zero_output_fails_on_every_row_that_is_not_zero() -> None:
    rng = np.random.default_rng(0)
    for dtype in ("f32", "f16", "bf16"):
        for scale in (1e-30, 1e-6, 1.0, 1e4):
            x = store(rng.standard_normal((2, 33)) * scale, dtype)
            if not x.astype(np.float64).all():
                continue
            problem = Problem("rms_norm", {"eps": 0.0}, {"x": x}, {"y": dtype})
            assert results(problem, Numerics(), y=np.zeros(x.shape, STORAGE[dtype])) == ["numeric"]
