"""Wrong kernels, simulated in NumPy at the named dtype, are rejected; the smallest row length for that is stated.

The wrong kernels are those that published test suites let through. Each is a correct kernel with one step changed, and
the correct kernel passes on the same data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from oracles import Contract, Lanes
from oracles.problem import Problem
from oracles.rounding import STORAGE
from oracles.simulated.roundings import total
from oracles.tests.common.adversary import store
from oracles.tests.common.judged import simulated
from oracles.truth import Truth

Array = NDArray[Any]
EPS = 2.0**-17
"""near 1e-5, and exact in every dtype."""

ORDER = Lanes(16, 4, "scalar")
SIMD = Contract(sums={"n": ORDER}, fused=False)
DTYPES = ("f32", "f16", "bf16")


def rows(n: int, dtype: str, scale: float, seed: int = 0) -> Array:
    """Four rows of mean square near scale^2, each of another scale, so that rows cannot stand in for each other."""
    rng = np.random.default_rng(seed)
    return store(rng.standard_normal((4, n)) * scale * np.array([[1.0], [1.3], [0.7], [2.1]]), dtype)


def finish(x: Array, root: Array, dtype: str) -> dict[str, Array]:
    y = (x.astype(np.float32) * root[:, None]).astype(STORAGE[dtype])
    return {"y": y, "rstd": root}


def root_of(square: Array, n: float, eps: float = EPS) -> Array:
    one = np.float32(1)
    return np.asarray(one / np.sqrt(square / np.float32(n) + np.float32(eps)), dtype=np.float32)


def sum_of(x: Array) -> Array:
    wide = x.astype(np.float32)
    return total(wide * wide, ORDER)


def bf16_partials(x: Array) -> Array:
    """Sums of 8 squares each kept in bf16, added in f32."""
    wide = x.astype(np.float32)
    squares = (wide * wide).astype(STORAGE["bf16"])
    padded = np.concatenate([squares, np.zeros((len(x), -x.shape[1] % 8), squares.dtype)], axis=1)
    partial = np.add.accumulate(padded.reshape(len(x), -1, 8), axis=2)[..., -1]
    return total(partial.astype(np.float32), ORDER)


FORWARD: dict[str, Callable[[Array], Array]] = {
    "eps dropped": lambda x: root_of(sum_of(x), x.shape[1], 0.0),
    "eps outside the root": lambda x: np.asarray(
        np.float32(1) / (np.sqrt(sum_of(x) / np.float32(x.shape[1])) + np.float32(EPS))
    ),
    "eps x100": lambda x: root_of(sum_of(x), x.shape[1], 100 * EPS),
    "divide by n+1": lambda x: root_of(sum_of(x), x.shape[1] + 1),
    "last column not summed": lambda x: root_of(sum_of(x[:, :-1]), x.shape[1]),
    "mean of half the row": lambda x: root_of(sum_of(x[:, : (x.shape[1] + 1) // 2]), (x.shape[1] + 1) // 2),
    "neighbour row's rstd": lambda x: np.roll(root_of(sum_of(x), x.shape[1]), 1),
    "bf16 partial sums": lambda x: root_of(bf16_partials(x), x.shape[1]),
}

LENGTHS = (1, 2, 3, 5, 8, 9, 17, 33, 65, 127, 512)


def judged(wrong: Callable[[Array], Array], n: int, dtype: str, scale: float) -> tuple[str, str]:
    """Results for y and for rstd."""
    x = rows(n, dtype, scale)
    problem = Problem("rms_norm", {"eps": EPS}, {"x": x}, {"y": dtype, "rstd": "f32"})
    truth = Truth(problem)
    right = finish(x, root_of(sum_of(x), n), dtype)
    assert [check.result for check in truth.check(SIMD, right)] == ["pass", "pass"]
    first, second = truth.check(SIMD, finish(x, wrong(x), dtype))
    return first.result, second.result


# Smallest row length from which on every one of LENGTHS is told apart: by y alone, and by the stored f32 rstd.
SMALLEST = {("mean of half the row", dtype): (2, 2) for dtype in DTYPES} | {("bf16 partial sums", "bf16"): (3, 1)}


@pytest.mark.some(1)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FORWARD)
def test_wrong_forward_is_rejected(name: str, dtype: str) -> None:
    scale = 2.0**-8 if name.startswith("eps") else 1.0
    by_y, by_rstd = SMALLEST.get((name, dtype), (1, 1))
    for n in LENGTHS:
        y, root = judged(FORWARD[name], n, dtype, scale)
        assert y != "pass" or n < by_y, n
        assert root != "pass" or n < by_rstd, n


@pytest.mark.whole
def test_limit_of_divide_by_n_plus_1_in_long_sequential_sums() -> None:
    """A sequential f32 sum of 32768 terms may itself stray by more than 1/n: there nothing can tell the two apart."""
    sequential = Contract()
    for n, seen in ((16384, True), (32768, False)):
        x = rows(n, "f32", 1.0)
        problem = Problem("rms_norm", {"eps": EPS}, {"x": x}, {"y": "f32", "rstd": "f32"})
        root = root_of(sum_of(x), n + 1)
        assert any(check.result != "pass" for check in Truth(problem).check(sequential, finish(x, root, "f32"))) == seen
        assert any(check.result != "pass" for check in Truth(problem).check(SIMD, finish(x, root, "f32")))


@pytest.mark.some(1)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mutant", ["w[0] everywhere", "w shifted", "offset left out", "offset twice"])
def test_wrong_weight_is_rejected(mutant: str, dtype: str) -> None:
    for n in LENGTHS[1:]:
        x, weight = rows(n, dtype, 1.0), store(np.random.default_rng(n).standard_normal(n) * 2, dtype)
        problem = Problem("rms_norm", {"eps": EPS, "weight_offset": 1.0}, {"x": x, "weight": weight}, {"y": dtype})
        truth = Truth(problem)
        assert truth.check(SIMD, simulated(problem, SIMD))[0].result == "pass"
        values, offset = {
            "w[0] everywhere": (np.full_like(weight, weight[0]), 1.0),
            "w shifted": (np.roll(weight, 1), 1.0),
            "offset left out": (weight, 0.0),
            "offset twice": (weight, 2.0),
        }[mutant]
        other = replace(problem, params={"eps": EPS, "weight_offset": offset}, inputs={"x": x, "weight": values})
        assert truth.check(SIMD, simulated(other, SIMD))[0].result != "pass"


def gradients(n: int, dtype: str, **inputs: Array) -> tuple[Problem, Array, Array, Array]:
    """A backward problem of eight rows, and x, dy and rstd."""
    rng = np.random.default_rng(n)
    x, dy = (store(rng.standard_normal((8, n)), dtype) for _ in range(2))
    root = root_of(sum_of(x), n)
    given = {"x": x, "dy": dy, "rstd": root, **inputs}
    return Problem("fused_add_rms_norm_backward", {"eps": EPS}, given, {"dx": dtype, "dw": "f32"}), x, dy, root


PROJECTION = {"dropped": 0.0, "halved": 0.5, "sign flipped": -1.0, "1/n as 1/(n+1)": None, "times w once more": None}


@pytest.mark.some(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mutant", PROJECTION)
def test_wrong_projection_is_rejected(mutant: str, dtype: str) -> None:
    # Told apart from n = 2 on: at n = 1 and tiny eps dx is nearly zero, whatever the projection is multiplied by.
    for n in LENGTHS[1:]:
        weight = store(np.random.default_rng(n + 1).uniform(0.5, 4, n), dtype)
        problem, x, dy, root = gradients(n, dtype, weight=weight)
        truth = Truth(problem)
        right = simulated(problem, SIMD)
        assert [check.result for check in truth.check(SIMD, right)] == ["pass", "pass"]
        h, m = x.astype(np.float64) * root[:, None], dy.astype(np.float64) * weight.astype(np.float64)
        projection = h * np.mean(h * m, axis=1, keepdims=True)
        factor = PROJECTION[mutant]
        if mutant == "times w once more":
            projection = projection * weight.astype(np.float64)
        changed = n / (n + 1) if factor is None else factor
        wrong = store((m - projection * (changed if mutant != "times w once more" else 1.0)) * root[:, None], dtype)
        assert truth.check(SIMD, {**right, "dx": wrong})[0].result != "pass", n


@pytest.mark.parametrize("dtype", DTYPES)
def test_wrong_gradient_sums_are_rejected(dtype: str) -> None:
    """dw without its last row, in 16 bit; dsum left out, added twice, or before the projection."""
    n = 65
    dsum = store(np.random.default_rng(9).standard_normal((8, n)), dtype)
    problem, x, dy, root = gradients(n, dtype, dsum=dsum)
    truth = Truth(problem)
    right = simulated(problem, SIMD)
    assert [check.result for check in truth.check(SIMD, right)] == ["pass", "pass"]

    def of(contract: Contract = SIMD, **inputs: Array) -> dict[str, Array]:
        known = {**problem.inputs, **inputs}
        return simulated(replace(problem, inputs=known), contract)

    short = of(x=x[:-1], dy=dy[:-1], rstd=root[:-1], dsum=dsum[:-1])["dw"]
    half = of(replace(SIMD, dtypes={"dw": "bf16"}))["dw"]
    zero = np.zeros_like(dsum)
    twice = of(dsum=store(2 * dsum.astype(np.float64), dtype))["dx"]
    before = of(dy=store(dy.astype(np.float64) + dsum.astype(np.float64), dtype), dsum=zero)["dx"]
    for wrong in (short, half):
        assert truth.check(SIMD, {**right, "dw": wrong})[1].result != "pass"
    for wrong in (of(dsum=zero)["dx"], twice, before):
        assert truth.check(SIMD, {**right, "dx": wrong})[0].result != "pass"
