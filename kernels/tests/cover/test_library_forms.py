"""What kernels of torch's own functions promise is what their library does on any processor: what NumPy calculates as
it does is right, and what it does in other dtypes or at other numbers is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fuzz.core.adapters.pack import load
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.toolchain import Host
from oracles.elementary.functions import function
from oracles.formula.contract import Contract
from oracles.problem import Problem
from oracles.rounding import STORAGE
from oracles.truth import Truth

Numbers = NDArray[Any]
PACK = load(Path(__file__).resolve().parents[2])
BF16, TINY = STORAGE["bf16"], 2.0**-126


def contract_of(name: str) -> Contract:
    kernel = next(each for each in PACK.kernels if each.name == name)
    return next(each.contract for each in expand([kernel], Host("x86_64", frozenset())) if each.name.site == "cpu")


def numbers(dtype: str) -> Numbers:
    """Return each fourth number of bf16, in that or another dtype."""
    found = np.arange(0, 1 << 16, 4, dtype=np.uint16).view(BF16)
    return np.asarray(found[np.isfinite(found.astype(np.float32))].astype(STORAGE[dtype])[None])


def gelu(x: Numbers, *, half_last: bool) -> Numbers:
    wide = x.astype(np.float32)
    scaled = (wide * np.float32(0.5**0.5)).astype(np.float64)
    twice = np.float32(1) + function("erf").float64.value(scaled).astype(np.float32)
    with np.errstate(over="ignore"):
        return np.asarray(wide * twice * np.float32(0.5) if half_last else np.float32(0.5) * wide * twice)


def flushed(y: Numbers) -> Numbers:
    """As vcvtneps2bf16 takes numbers of f32."""
    return np.where(np.abs(y) < TINY, np.copysign(np.float32(0), y), y)


def failing(contract: Contract, x: Numbers, y: Numbers) -> int:
    of = Problem("gelu", {"axis": 1}, {"x": x}, {"y": str(x.dtype).replace("bfloat16", "bf16").replace("float", "f")})
    (check,) = Truth(of).check(contract, {"y": y.astype(x.dtype)})
    return check.failing


@pytest.mark.some(1)
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_a_gelu_may_multiply_by_the_half_last_and_overflow_then(dtype: str) -> None:
    contract, x = contract_of("gelu-native"), numbers(dtype)
    y = gelu(x, half_last=True)
    assert np.isinf(y).any()
    assert failing(contract, x, y) == 0
    assert failing(contract, x, gelu(x, half_last=False)) == 0
    assert failing(contract_of("gelu-eager"), x, y) == np.isinf(y).sum()
    wide = x.astype(np.float32)
    earlier = np.where((wide > 2.0**125) & (wide < 2.0**126), np.float32(np.inf), y)
    assert failing(contract, x, earlier) == ((wide > 2.0**125) & (wide < 2.0**126)).sum()


def test_a_gelu_of_bf16_may_flush_subnormal_numbers_and_one_of_f32_may_not() -> None:
    contract = contract_of("gelu-native")
    for dtype, is_wrong in (("bf16", False), ("f32", True)):
        x = numbers(dtype)
        y = gelu(x, half_last=True)
        subnormal = (np.abs(y) < TINY) & (y != 0)
        assert failing(contract, x, flushed(y)) == (subnormal.sum() if is_wrong else 0)
        normal = (np.abs(y) > 1.01 * TINY) & (np.abs(y) < 2 * TINY)
        assert failing(contract, x, np.where(normal, 0, y)) == normal.sum() > 0


def test_fused_attention_may_lose_nan_and_nothing_else() -> None:
    random = np.random.default_rng(0)
    q, k, v = (random.normal(size=shape).astype(np.float32) for shape in ((1, 1, 1, 3, 4), (1, 1, 5, 4), (1, 1, 5, 4)))
    q[..., 1, :] = np.nan
    s = np.einsum("bghid,bgjd->bghij", q, k) * 0.5
    p = np.exp(s - s.max(-1, keepdims=True))
    o = (np.einsum("bghij,bgje->bghie", p, v) / p.sum(-1, keepdims=True)).astype(np.float32)
    of = Problem("attention", {"softmax_scale": 0.5}, {"q": q, "k": k, "v": v}, {"o": "f32"})
    for name, wrong in (("attention-fused", 0), ("attention-math", 4), ("attention-composed", 4)):
        contract = contract_of(name)
        (check,) = Truth(of).check(contract, {"o": np.nan_to_num(o)})
        assert check.failing == wrong, name
        (check,) = Truth(of).check(contract, {"o": np.where(np.isnan(o), o, 0)})
        assert check.failing == 8, name


@pytest.mark.some(1)
@pytest.mark.parametrize("smoothing", [0.0, 0.5])
def test_a_mean_loss_may_overflow_where_its_even_part_is_added_up_first(smoothing: float) -> None:
    """Losses of 1e36 are 1e38 together, and sums over 64 classes are beyond what f32 has once 8 rows are added."""
    x, label = np.zeros((8, 64), np.float32), np.ones(8, np.int32)
    for large, overflows in ((1e36, True), (1e34, False)):
        x[:, 0] = large
        inputs, parameters = {"x": x, "label": label}, {"smoothing": smoothing, "axis": 1}
        of = Problem("cross_entropy", parameters, inputs, {"loss": "f32", "mean": "f32"})
        loss = np.full(8, (1 - smoothing) * large + smoothing * large * 63 / 64, np.float32)
        for name, is_wrong in (("native", not (overflows and smoothing)), ("eager", True)):
            contract = contract_of(f"cross-entropy-{name}")
            for mean, failing in ((np.float32(np.inf), is_wrong), (loss[0], False)):
                got = {"loss": loss, "mean": np.asarray(mean, np.float32)}
                assert [each.failing for each in Truth(of).check(contract, got)] == [0, failing], (name, large, mean)
