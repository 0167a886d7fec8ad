"""Conversions between formats: every input of 8 and 16 bits, and half-way cases of longer ones."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import fuzz
from oracles.dtypes import FORMATS

Kernel = Callable[..., Any]
_KINDS = ("f32", "f16", "bf16", "e5m2")
_STORED = {
    name: getattr(np, each.spelling, None) or getattr(ml_dtypes, each.spelling) for name, each in FORMATS.items()
}


def _by_torch(target: str) -> Kernel:
    return lambda x: x.to(getattr(torch, FORMATS[target].spelling))


def _bf16_by_bits(x: Any) -> Any:
    bits = x.view(np.uint32)
    even = bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))
    return np.where(np.isnan(x), np.uint32(0x7FC0), even >> np.uint32(16)).astype(np.uint16)


def _f32_by_shift(x: Any) -> Any:
    return (x.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)


def _e5m2_by_bits(x: Any) -> Any:
    bits = x.view(torch.int16).int() & 0xFFFF
    even = (bits + 0x7F + (bits >> 8 & 1)) >> 8
    return torch.where(x.isnan(), 0x7F, even).to(torch.uint8)


@pytest.mark.parametrize(("source", "target"), [*permutations(_KINDS, 2)])
def test_what_torch_returns_is_right(source: str, target: str) -> None:
    checked = fuzz.check_conversion(_by_torch(target), source, target)
    if FORMATS[source].itemsize <= 2:
        assert sum(checked.tried.values()) == 1 << 8 * FORMATS[source].itemsize


@pytest.mark.parametrize("source", ["f32", "f16", "bf16"])
def test_a_format_without_infinities_has_nan_or_saturates(source: str) -> None:
    def saturated(x: Any) -> Any:
        kept = x.float().clamp(-448.0, 448.0)
        return kept.to(torch.float8_e4m3fn)

    def not_a_number(x: Any) -> Any:
        wide = x.astype(np.float32)
        return np.where(np.abs(wide) > 464.0, np.float32(np.nan), wide).astype(ml_dtypes.float8_e4m3fn)

    fuzz.check_conversion(saturated, source, "float8_e4m3fn", overflow="saturate")
    fuzz.check_conversion(not_a_number, source, "e4m3fn")
    for kernel, overflow in ((saturated, "infinite"), (not_a_number, "saturate")):
        with pytest.raises(fuzz.CheckFailed, match="too large: "):
            fuzz.check_conversion(kernel, source, "e4m3fn", overflow=overflow)  # type: ignore[arg-type]


def test_kernels_by_hand_and_of_numpy_are_right() -> None:
    fuzz.check_conversion(_bf16_by_bits, "f32", "bf16")
    fuzz.check_conversion(_f32_by_shift, "bf16", "f32")
    fuzz.check_conversion(_e5m2_by_bits, "f16", "e5m2")
    fuzz.check_conversion(lambda x: x.astype(np.float16), "f64", "f16")
    fuzz.check_conversion(lambda x: x.astype(_STORED["bf16"]), "f16", "bf16", arrays="numpy")


def test_other_ties_are_told_apart() -> None:
    def cut(x: Any) -> Any:
        bits = x.view(torch.int32) >> 16
        return torch.where(x.isnan(), 0x7FC0, bits).to(torch.int16).view(torch.bfloat16)

    fuzz.check_conversion(cut, "f32", "bf16", ties="towards zero")
    with pytest.raises(fuzz.CheckFailed, match="that are rounded: "):
        fuzz.check_conversion(cut, "f32", "bf16")


def _biased(x: Any) -> Any:
    return ((x.view(torch.int32).long() + 0x7FFF + (x.view(torch.int32).long() >> 16 & 1)) >> 16).to(torch.int16).view(
        torch.bfloat16)  # fmt: skip


def _tail(x: Any) -> Any:
    found = x.half()
    if len(x) % 8 == 1 and len(x) < 64:
        found[-1] = torch.nextafter(found[-1].float(), torch.tensor(torch.inf)).half() * 1.001
    return found


WRONG: dict[str, tuple[Kernel, str, str, str]] = {
    "a NaN that becomes an infinity": (_biased, "f32", "bf16", "NaN: "),
    "twice rounded": (lambda x: x.bfloat16().to(torch.float8_e5m2), "f32", "e5m2", "rounded: "),
    "by way of f32": (lambda x: x.float().half(), "f64", "f16", "that are rounded: "),
    "ties away": (lambda x: ((x.view(torch.int32) + 0x8000 & ~0xFFFF).view(torch.float32)).bfloat16(), "f32", "bf16",
                  "half-way: "),
    "flushes": (lambda x: torch.where(x.abs() < 2**-14, x * 0, x).half(), "f32", "f16", "subnormal or 0: "),
    "loses the sign of zero": (lambda x: (x + 0.0).half(), "f32", "f16", "zeros: "),
    "too early an infinity": (lambda x: torch.where(x.abs() > 65504.0, x * torch.inf, x).half(), "f32", "f16",
                              "too large: "),
    "saturates": (lambda x: x.clamp(-65504.0, 65504.0).half(), "f32", "f16", "infinities: "),
    "a NaN that becomes 0": (lambda x: x.nan_to_num(0.0, torch.inf, -torch.inf).half(), "bf16", "f16", "NaN: "),
    "flushes what it reads": (lambda x: torch.where(x.abs() < 2**-14, x * 0, x).float(), "f16", "f32", "exact: "),
    "a wrong tail": (_tail, "f32", "f16", "alone"),
    "another dtype": (lambda x: x.float(), "f16", "bf16", "returned"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_conversions_are_found_with_the_kind_of_input(name: str) -> None:
    kernel, source, target, words = WRONG[name]
    with pytest.raises(fuzz.CheckFailed, match=words):
        fuzz.check_conversion(kernel, source, target)


def test_functions_are_judged_on_every_value_of_a_format() -> None:
    x = fuzz.every("f16")
    assert len(x) == 65536
    fuzz.assert_right(torch.sigmoid(x), torch.sigmoid, x, values="any")
    wrong = torch.where(x == 0.5, 0.625, torch.sigmoid(x)).half()
    with pytest.raises(fuzz.CheckFailed, match="1 of 65,536"):
        fuzz.assert_right(wrong, torch.sigmoid, x, values="any")


def test_formats_that_are_unknown_or_too_long_are_refused() -> None:
    with pytest.raises(fuzz.CheckError, match="f17"):
        fuzz.check_conversion(_by_torch("f16"), "f17", "f16")
    with pytest.raises(fuzz.CheckError, match="too many"):
        fuzz.every("f32")
