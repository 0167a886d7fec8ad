"""Kernels that are right by their contracts, written out in NumPy: each was accused once. And what they must not do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from oracles.formula.contract import Contract
from oracles.problem import Problem
from oracles.summation import AnyOrder, Pairwise
from oracles.truth import Truth

Array = NDArray[Any]
Made = tuple[Problem, Contract, Mapping[str, Array]]
F32, F16, BF16 = np.float32, np.float16, ml_dtypes.bfloat16
TINY = F32(2.0**-126)
EPS = float(F32(1e-5))


def _fails(made: Made, **changed: Array) -> bool:
    """Whether an output fails, by the formula of the op."""
    of, contract, outputs = made
    return any(check.result != "pass" for check in Truth(of).check(contract, {**outputs, **changed}))


def _scaled(r: np.random.Generator, *powers: int, shape: tuple[int, int] = (4, 9)) -> Array:
    return np.asarray(r.standard_normal(shape) * 2.0 ** float(r.choice(powers)), F32)


def _summed(terms: Array) -> Array:
    return np.asarray(np.add.accumulate(terms, axis=1)[:, -1])


def _flushed(values: Any) -> Array:
    return np.asarray(np.where(np.abs(values) < TINY, np.copysign(F32(0), values), values), F32)


def flush(r: np.random.Generator, number: int) -> Made:
    """DAZ and FTZ, with operands and an eps that are flushed."""
    x, eps = _scaled(r, 0, -60, -64, -70, -126, -128), float(F32(r.choice([0.0, 1e-40, 1e-38, 1e-12, 1e-5])))
    w = np.where(r.random(9) < 0.3, F32(1e-39), F32(1.5))
    total = np.zeros(4, F32)
    for column in _flushed(x).T:
        total = _flushed(total + _flushed(column * column))
    root = _flushed(F32(1) / _flushed(np.sqrt(_flushed(_flushed(total / F32(9)) + _flushed(F32(eps))))))
    y = _flushed(_flushed(_flushed(x) * root[:, None]) * _flushed(w))
    of = Problem("rms_norm", {"eps": eps}, {"x": x, "weight": w}, {"y": "f32"}, bool(number % 2))
    return of, Contract(denormals="flush"), {"y": y}


def narrowed_root(r: np.random.Generator, number: int) -> Made:
    """A root in float64 that overflows in the float32 of the products."""
    x, eps = _scaled(r, 0, -60, -100, -126, -140, -149), float(F32(r.choice([0.0, 1e-40, 1e-5])))
    root = (1 / np.sqrt(_summed(x.astype(float) ** 2) / 9 + eps)).astype(F32)
    contract = Contract("f64", dtypes={"h": "f32", "y": "f32"})
    return Problem("rms_norm", {"eps": eps}, {"x": x}, {"y": "f32"}), contract, {"y": x * root[:, None]}


def cube(name: str) -> Callable[[np.random.Generator, int], Made]:
    """Gradients whose coefficient under- or overflows."""

    def made(r: np.random.Generator, number: int) -> Made:
        x, dy, eps = _scaled(r, 0, -30, -45, 30, 45, 60, -60), _scaled(r, 0, -60, 60), float(F32(r.choice([0, 1e-12])))
        q, d, n = 1 / np.sqrt(_summed(x * x) / F32(9) + F32(eps)), _summed(dy * x), F32(9)
        c = {"rstd3": q * q * q * (d / n), "rstd3 over n": 1 / n * q * q * q * d,
             "sum times rstd3": d * q * q * q / n, "rstd2 over n": 1 / n * q * q * d}[name][:, None]  # fmt: skip
        projected = q[:, None] * (c * x) if name == "rstd2 over n" else c * x
        of = Problem("rms_norm_backward", {"eps": eps}, {"x": x, "dy": dy}, {"dx": "f32"})
        return of, Contract(algorithm={"dx": name}), {"dx": q[:, None] * dy - projected}

    return made


def wide_weight(r: np.random.Generator, number: int) -> Made:
    """Products in float16, of a weight in float32."""
    x, w = r.standard_normal((4, 9)).astype(F16), (r.standard_normal(9) * 3).astype(F32)
    root = (1 / np.sqrt(_summed(x.astype(F32) ** 2) / F32(9) + F32(EPS))).astype(F16)
    of = Problem("rms_norm", {"eps": EPS}, {"x": x, "weight": w}, {"y": "f16"})
    return of, Contract(dtypes=dict.fromkeys("hyw", "input")), {"y": x * root[:, None] * w.astype(F16)}


def reciprocal(dtype: Any, *, host: bool) -> Callable[[np.random.Generator, int], Made]:
    """1/n in 16 bits, of n or of n in 16 bits."""

    def made(r: np.random.Generator, number: int) -> Made:
        n = int(r.integers(255, 300) if dtype is BF16 else r.integers(2047, 2100))
        x = np.zeros((3, n), dtype)
        x[:, :2] = r.standard_normal((3, 2)) * 8
        inverse = dtype(1 / n) if host else dtype(dtype(1) / dtype(n))
        mean = (_summed((x * x).astype(dtype)[:, :2]) * inverse).astype(dtype)
        root = (dtype(1) / np.sqrt(mean + dtype(0)).astype(dtype)).astype(dtype)
        of = Problem("rms_norm", {"eps": 0.0}, {"x": x}, {"y": "bf16" if dtype is BF16 else "f16"})
        return (
            of,
            Contract("input", mean="reciprocal", sums={"n": Pairwise()}),
            {"y": (x * root[:, None]).astype(dtype)},
        )

    return made


def rounded_mean(r: np.random.Generator, number: int) -> Made:
    """The mean in the dtype of x, all else in float32."""
    x = r.standard_normal((4, 9)).astype(BF16)
    mean = (_summed(x.astype(F32) ** 2) / F32(9)).astype(BF16).astype(F32)
    y = x.astype(F32) * (1 / np.sqrt(mean + F32(EPS)))[:, None]
    of = Problem("rms_norm", {"eps": EPS}, {"x": x}, {"y": "f32"})
    return of, Contract(points={"mean_square": "input"}), {"y": y}


def rounded_gradient(r: np.random.Generator, number: int) -> Made:
    """dy * weight, h and dy * h in the dtype of x, as Liger has them."""
    x, dy, w = (r.standard_normal(shape).astype(BF16) for shape in ((4, 9), (4, 9), 9))
    wide, d, v = (each.astype(F32) for each in (x, dy, w))
    q = (1 / np.sqrt((wide.astype(float) ** 2).mean(1))).astype(F32)[:, None]
    m, h = ((each).astype(BF16).astype(F32) for each in (d * v, wide * q))
    dx = q * m - q * (1 / F32(9) * q * q * _summed(m * wide)[:, None] * wide)
    dw = _summed((d * h).astype(BF16).astype(F32).T)
    of = Problem("rms_norm_backward", {"eps": 0.0}, {"x": x, "dy": dy, "weight": w, "rstd": q[:, 0]},
                 {"dx": "f32", "dw": "f32"})  # fmt: skip
    points = dict.fromkeys(("m", "h", "terms"), "input")
    return of, Contract(points=points, algorithm={"dx": "rstd2 over n"}), {"dx": dx, "dw": dw}


def signs(r: np.random.Generator, number: int) -> Made:
    """A weight of -0.0, to which an offset of 0.0 is added or not."""
    x, w = _scaled(r, 0), r.choice([-0.0, 0.0, 1.0, -1.0], 9).astype(F32)
    scale = w + F32(0) if number % 2 else w
    of = Problem("rms_norm", {"eps": 0.0, "weight_offset": 0.0}, {"x": x, "weight": w}, {"y": "f32"})
    return of, Contract(), {"y": x * (1 / np.sqrt(_summed(x * x) / F32(9)))[:, None] * scale}


def overflow(r: np.random.Generator, number: int) -> Made:
    """NaN where something overflows, but infinities and NaN that are given as IEEE has them."""
    x = _scaled(r, 0, 60, 66)
    x[0, 0], x[1, 0] = np.inf, np.nan
    root = 1 / np.sqrt(_summed(x * x) / F32(9))
    root = np.where(np.isinf(_summed(x * x)) & ~np.isinf(x).any(1), F32(np.nan), root)
    of = Problem("rms_norm", {"eps": 0.0}, {"x": x}, {"y": "f32"})
    return of, Contract(nonfinite="overflow"), {"y": x * root[:, None]}


def adversary(r: np.random.Generator, number: int) -> Made:
    """Any order: that which makes each addition's error, of one sign, as large as it can be."""
    x, up = np.exp(_scaled(r, 0, 1, shape=(1, 200))), (-1.0) ** number
    left, total = [*(x[0] * x[0])], F32(0)
    while left:
        errors = [up * (float(total + each) - (float(total) + float(each))) for each in left]
        total = total + left.pop(int(np.argmax(errors)))
    root = 1 / np.sqrt(total / F32(200))
    of = Problem("rms_norm", {"eps": 0.0}, {"x": x}, {"y": "f32", "rstd": "f32"})
    return of, Contract(sums={"n": AnyOrder()}), {"y": x * root, "rstd": np.array([root])}


KERNELS: Mapping[str, Callable[[np.random.Generator, int], Made]] = {
    "flush": flush, "narrowed root": narrowed_root, "wide weight": wide_weight, "rounded mean": rounded_mean,
    "rounded gradient": rounded_gradient, "signs": signs, "overflow": overflow, "adversary": adversary,
    **{name: cube(name) for name in ("rstd3", "rstd3 over n", "sum times rstd3", "rstd2 over n")},
    **{f"1/n {each.__name__}, {host}": reciprocal(each, host=host) for each in (F16, BF16) for host in (True, False)},
}  # fmt: skip


@pytest.mark.some(1)
@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_that_keeps_its_contract_passes_and_a_wrong_one_does_not(name: str) -> None:
    caught, rows, cases = 0, 0, 4 if name == "adversary" else 16
    with np.errstate(all="ignore"):
        for number in range(cases):
            made = KERNELS[name](np.random.default_rng(number), number)
            assert not _fails(made), number
            output, right = next(iter(made[2].items()))
            if (np.isfinite(right) | (name == "overflow")).all() and right.any():
                rows += 1
                caught += _fails(made, **{output: (right * np.asarray(1.25, right.dtype)).astype(right.dtype)})
    assert caught > 0.5 * rows > 0


def test_a_given_infinity_is_judged_where_overflow_is_not() -> None:
    with np.errstate(all="ignore"):
        made = overflow(np.random.default_rng(0), 0)
    wrong = np.nan_to_num(made[2]["y"], nan=1.0)
    assert _fails(made, y=wrong)
