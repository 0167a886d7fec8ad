"""Blocks that share a scale: three ways to make them, the way back, and wrong ones of each kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import torch

import fuzz

Kernel = Callable[..., Any]
_LARGEST = {"e2m1": (2, 6.0), "e4m3fn": (8, 448.0), "e5m2": (15, 57344.0), "e2m3": (2, 7.5), "e3m2": (4, 28.0)}
_ML = {"e2m1": ml_dtypes.float4_e2m1fn, "e4m3fn": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
       "e2m3": ml_dtypes.float6_e2m3fn, "e3m2": ml_dtypes.float6_e3m2fn}  # fmt: skip
_TORCH = {"e4m3fn": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


def by_numpy(element: str, shared: str = "floor") -> Kernel:
    """Return a kernel with NumPy's frexp and the casts of ml_dtypes."""
    emax, largest = _LARGEST[element]

    def kernel(x: Any) -> Any:
        rows = x.astype(np.float64).reshape(len(x), -1, 32)
        most = np.abs(rows).max(-1)
        bad = ~np.isfinite(most)
        part, power = np.frexp(np.where(bad, 1.0, most))
        if shared == "ceil":
            power = power + (part > 0.5)
        if shared == "least":
            power = power + (2.0 * part > largest / 2.0**emax)
        power = np.clip(np.where(most == 0.0, -127, power - 1 - emax), -127, 127)
        ratio = np.clip(np.ldexp(rows, -power[..., None]), -largest, largest)
        codes = ratio.astype(np.float32).astype(_ML[element]).view(np.uint8)
        return codes.reshape(x.shape), np.where(bad, 255, power + 127).astype(np.uint8)

    return kernel


def by_torch(element: str) -> Kernel:
    """Return a kernel that takes exponents by their bits, and multiplies by powers of two."""
    emax, largest = _LARGEST[element]

    def kernel(x: Any) -> Any:
        rows = x.float().unflatten(-1, (-1, 32))
        most = rows.abs().amax(-1)
        code = ((most.view(torch.int32) >> 23) - emax).clamp(min=0)
        code = torch.where(most.isfinite(), code, 255)
        scale = torch.exp2((127 - code).double()).float()  # 2^127 is a number of f32, and so is 2^-127
        kept = (rows * scale[..., None]).clamp(-largest, largest)
        return kept.to(_TORCH[element]).flatten(-2), code.to(torch.uint8).view(torch.float8_e8m0fnu)

    return kernel


def fp4_by_torch(x: Any) -> Any:
    """Return packed codes of 4 bits, by comparisons with the numbers half-way."""
    rows = x.float().unflatten(-1, (-1, 32))
    most = rows.abs().amax(-1)
    code = torch.where(most.isfinite(), ((most.view(torch.int32) >> 23) - 2).clamp(min=0), 255)
    size = (rows * torch.exp2((127 - code).double()).float()[..., None]).abs()
    element = sum((size > edge if at % 2 == 0 else size >= edge).int()
                  for at, edge in enumerate((0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)))  # fmt: skip
    element = (element | rows.signbit().int() << 3).flatten(-2)
    return (element[..., 0::2] | element[..., 1::2] << 4).to(torch.uint8), code.to(torch.uint8)


def by_rows(x: Any) -> Any:
    """Python's own loop over blocks, of which the last may be shorter."""
    codes, scales = np.zeros(x.shape, np.uint8), np.zeros((len(x), -(-x.shape[1] // 32)), np.uint8)
    for at in range(scales.shape[1]):
        own = x[:, at * 32 : at * 32 + 32].astype(np.float64)
        most = np.abs(own).max(-1)
        bad = ~np.isfinite(most)
        power = np.where(most == 0.0, -127, np.frexp(np.where(bad, 1.0, most))[1] - 9).clip(-127, 127)
        kept = np.clip(np.ldexp(own, -power[:, None]), -448, 448).astype(np.float32)
        codes[:, at * 32 : at * 32 + 32] = kept.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
        scales[:, at] = np.where(bad, 255, power + 127)
    return codes, scales


def last_from_the_block_before(x: Any) -> Any:
    codes, scales = _padded(by_torch("e4m3fn"))(x)
    scales = scales.view(torch.uint8).clone()
    if x.shape[1] % 32 and scales.shape[1] > 1:
        scales[:, -1] = scales[:, -2]
    return codes, scales


def last_of_fixed_scale(x: Any) -> Any:
    codes, scales = _padded(by_torch("e4m3fn"))(x)
    scales = scales.view(torch.uint8).clone()
    if x.shape[1] % 32:
        scales[:, -1] = 127
    return codes, scales


def last_not_converted(x: Any) -> Any:
    codes, scales = _padded(by_torch("e4m3fn"))(x)
    codes = codes.view(torch.uint8).clone()
    codes[:, x.shape[1] // 32 * 32 :] = 0
    return codes, scales


def last_padded_by_ones(x: Any) -> Any:
    more = -x.shape[1] % 32
    codes, scales = by_torch("e4m3fn")(torch.nn.functional.pad(x, (0, more), value=1.0))
    return codes[:, : x.shape[1]], scales


@pytest.mark.parametrize("kernel", [_padded(by_torch("e4m3fn")), in_parts, by_rows])
def test_right_partial_blocks_pass(kernel: Kernel) -> None:
    fuzz.check_blocks(kernel, "f32", "e4m3fn", partial=True)


@pytest.mark.parametrize(
    "kernel", [last_from_the_block_before, last_of_fixed_scale, last_not_converted, last_padded_by_ones]
)
def test_wrong_partial_blocks_are_found(kernel: Kernel) -> None:
    fuzz.check_blocks(kernel, "f32", "e4m3fn")
    with pytest.raises(fuzz.CheckFailed, match=r"rows of (94|80|66|30|16|2)\n"):
        fuzz.check_blocks(kernel, "f32", "e4m3fn", partial=True)


def test_partial_blocks_are_tried_on_the_way_back() -> None:
    def right(codes: Any, scales: Any) -> Any:
        own = codes.view(torch.float8_e4m3fn).double()
        powers = torch.exp2(scales.view(torch.uint8).double() - 127.0)
        powers = torch.where(scales.view(torch.uint8) == 255, torch.nan, powers)
        return (own * powers.repeat_interleave(32, -1)[:, : own.shape[1]]).float()

    def wrong(codes: Any, scales: Any) -> Any:
        found, rest = right(codes, scales), codes.shape[1] % 32
        return torch.cat([found[:, : found.shape[1] - rest], codes[:, -rest:].float()], 1) if rest else found

    fuzz.check_blocks(right, "e4m3fn", "f32", partial=True)
    fuzz.check_blocks(wrong, "e4m3fn", "f32")
    with pytest.raises(fuzz.CheckFailed, match="wrong values"):
        fuzz.check_blocks(wrong, "e4m3fn", "f32", partial=True)
