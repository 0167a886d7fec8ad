"""What is measured of a platform, and whether it is as documented."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fuzz.core.base.platforms import PLATFORMS
from fuzz.core.transport.python import launch
from fuzz.extras.cuda import functions
from fuzz.tests.common.platforms.__main__ import NEEDS, examined
from fuzz.tests.common.platforms.functions import SQUARE_PLUS, SUM, Call, calls_of
from fuzz.tests.common.platforms.measurement import Measurement, arguments, in_bf16, in_halves, measured, of_function

F32 = NDArray[np.float32]
GPU, NUMPY = PLATFORMS["triton@cuda"], PLATFORMS["numpy@cpu"]
LOG2E = np.float32(1.4426950408889634)


def some() -> tuple[F32, F32]:
    x = arguments()[::16]
    return x, np.random.default_rng(0).permutation(x)


def of_gpu(x: F32, y: F32, keep: int = 0xFFFFFFFF) -> F32:
    with np.errstate(all="ignore"):
        product = ((x * LOG2E).view(np.uint32) & np.uint32(keep)).view(np.float32)
        return np.asarray(np.exp2(product.astype(np.float64)).astype(np.float32))


def seen(call: Call, label: str = "exp", platform: Any = GPU) -> Measurement:
    return of_function(platform, label, call, *some())


def test_all_numbers_of_f16_are_tried() -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    assert {*halves[np.isfinite(halves)].astype(np.float32).tolist()} <= {*arguments().tolist()}
    assert len(arguments()) > 1e6


def test_an_exponential_of_a_gpu_is_as_documented_beside_its_growth_and_no_other_is() -> None:
    found = seen(of_gpu)
    assert found.kept
    assert found.documented == "2.5 + 0.62 |x| ulp"
    assert " + 0.62 |x| ulp: " in found.measured
    assert float(found.measured.split(": ")[1].split(" at ")[0]) > 20
    assert not seen(of_gpu, platform=NUMPY).kept, "3 ulp for all arguments"
    assert not seen(lambda x, y: of_gpu(x, y, 0xFFFF0000)).kept, "products in bf16"
    near_zero = seen(lambda x, y: (of_gpu(x, y) * np.where(np.abs(x) < 1, 1 + 2.0**-18, 1)).astype(np.float32))
    assert not near_zero.kept


def test_what_flushes_is_seen_and_held_against_what_is_documented() -> None:
    def flushing(x: F32, y: F32) -> F32:
        with np.errstate(all="ignore"):
            return np.asarray(1 / np.sqrt(np.where(np.abs(x) < 2.0**-126, np.float32(0), x)), np.float32)

    def losing(x: F32, y: F32) -> F32:
        with np.errstate(all="ignore"):
            found = x / y
            return np.where(np.abs(found) < 2.0**-126, np.float32(0), found)

    on_gpu = seen(flushing, "rsqrt as 1 / sqrt")
    assert on_gpu.kept
    assert on_gpu.measured.endswith("subnormal operands flushed")
    assert not seen(flushing, "rsqrt", NUMPY).kept
    lost = seen(losing, "divide")
    assert not lost.kept
    assert lost.measured.endswith("subnormal operands and results flushed"), "a subnormal operand has such a result"


def test_an_overflowing_exponential_of_a_sigmoid_is_as_documented_and_nan_is_not() -> None:
    def sigmoid(x: F32, y: F32) -> F32:
        with np.errstate(all="ignore"):
            return np.asarray(np.float32(1) / (np.float32(1) + np.exp(-x)))

    assert seen(sigmoid, "sigmoid", PLATFORMS["torch@cpu"]).kept
    assert not seen(sigmoid, "sigmoid", NUMPY).kept
    wrong = seen(lambda x, y: np.where(x > 1, np.float32(np.nan), sigmoid(x, y)), "sigmoid", PLATFORMS["torch@cpu"])
    assert not wrong.kept


def test_subnormal_results_and_fused_products_are_told_apart() -> None:
    def fused(x: F32, y: F32) -> F32:
        return np.asarray((x.astype(np.float64) ** 2 + y).astype(np.float32))

    plain = {name: calls_of("numpy@cpu")[name] for name in ("divide", "add", "multiply", SQUARE_PLUS)}

    def zero(x: F32, y: F32) -> F32:
        return np.where(np.abs(x + y) < 2.0**-126, np.float32(0), x + y)

    for calls, subnormal, products in (
        (plain, "kept", "rounded"),
        ({**plain, SQUARE_PLUS: fused, "add": zero}, "flushed by add", "not rounded"),
    ):
        *_, small, sums = measured(NUMPY, calls)
        assert (small.measured, sums.measured) == (subnormal, products)
        assert small.kept == (subnormal == "kept")


def test_what_raises_is_told_and_the_others_are_measured() -> None:
    def broken(x: F32, y: F32) -> F32:
        raise RuntimeError("no such\ninstruction")

    calls = {name: calls_of("numpy@cpu")[name] for name in ("divide", "add", "multiply", SQUARE_PLUS)}
    first, *others = measured(NUMPY, {"exp": broken, **calls})
    assert first == Measurement("exp", "", "RuntimeError: no such instruction", False)
    assert [each.about for each in others] == ["divide", "subnormal results", "products in sums"]
    assert all(each.kept for each in others)


def test_16_bits_that_are_calculated_in_16_bits_are_told() -> None:
    def in_f16(x: F32, y: F32) -> F32:
        total = np.float16(0)
        for value in x.astype(np.float16):
            total = np.float16(total + value)
        return np.array([total], np.float32)

    def of_f16(x: F32, y: F32, by: float = 1.001) -> F32:
        with np.errstate(all="ignore"):
            return np.asarray((np.exp(x).astype(np.float16) * np.float16(by)).astype(np.float32))

    assert [each.measured for each in in_halves({SUM: in_f16, "exp": of_f16})] == ["in 16 bits", "in 16 bits"]

    def whole(x: F32, y: F32) -> F32:
        return np.array([x.sum(dtype=np.float32)], np.float32)

    assert [each.measured for each in in_halves({SUM: whole, "exp": lambda x, y: of_f16(x, y, 1.0)})] == [
        "in f32",
        "in f32",
    ]


def test_what_flushes_numbers_of_bf16_is_told_and_only_some_functions_may() -> None:
    def kept(x: F32, y: F32) -> F32:
        return x * y

    def flushed(x: F32, y: F32) -> F32:
        return np.where(np.abs(x * y) < 2.0**-126, np.float32(0), x * y)

    torch = PLATFORMS["torch@cpu"]
    for platform, erf, tanh, said, is_kept in (
        (torch, kept, kept, "kept", True), (torch, flushed, kept, "flushed by erf", True),
        (torch, kept, flushed, "flushed by tanh", False), (GPU, flushed, kept, "flushed by erf", False),
    ):  # fmt: skip
        found = in_bf16(platform, {"erf": erf, "tanh": tanh})
        assert (found.measured, found.kept) == (said, is_kept)


@pytest.mark.whole
@pytest.mark.parametrize("name", ["c", "numpy@cpu", "torch@cpu", "triton@interpret"])
def test_what_runs_here_is_as_documented(name: str) -> None:
    found = examined(name)
    assert not isinstance(found, str)
    assert [each for each in found if not each.kept] == []
    assert {each.about for each in found} >= {"exp", "log", "divide", "subnormal results"}


def test_what_ends_a_measurement_is_said_and_ends_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NEEDS, "c", ("no_such_package",))
    assert examined("c") == "no_such_package is not installed"
    monkeypatch.setitem(NEEDS, "c", ())
    monkeypatch.setenv("PATH", "/nowhere")
    found = examined("c")
    assert isinstance(found, str)
    assert "no compiler of C is here" in found


def test_where_everything_may_be_flushed_that_is_no_fault() -> None:
    def flushed(x: F32, y: F32) -> F32:
        found = of_gpu(np.where(np.abs(x) < np.finfo(np.float32).tiny, np.float32(0), x), y)
        return np.where(np.abs(found) < np.finfo(np.float32).tiny, np.float32(0), found)

    assert seen(flushed, platform=PLATFORMS["cuda --use_fast_math"]).kept
    assert not seen(flushed).kept


@pytest.mark.whole
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
@pytest.mark.parametrize("platform", ["cuda", "cuda --use_fast_math"])
def test_each_function_of_cuda_that_is_measured_is_compiled(
    platform: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = list[tuple[str, str]]()
    monkeypatch.setenv("KERNELFUZZ_CACHE", str(cache))
    monkeypatch.setattr(launch, "CubinFunction", lambda cubin, symbol, *more: made.append((cubin, symbol)))
    calls = calls_of(platform)
    assert {"exp", "divide", "rsqrt as 1 / sqrt", SQUARE_PLUS} <= {*calls}
    assert {symbol.encode() for _, symbol in made} <= {*functions(Path(made[0][0]))}
