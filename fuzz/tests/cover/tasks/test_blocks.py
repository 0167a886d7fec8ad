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


def by_jax(x: Any) -> Any:
    rows = x.astype(jnp.float32).reshape(len(x), -1, 32)
    most = jnp.abs(rows).max(-1)  # of 4,096 numbers and more, it is not NaN if one of them is
    code = jnp.clip((most.view(jnp.int32) >> 23) - 8, 0, 254)
    power = (127 - code)[..., None]
    scaled = jnp.ldexp(jnp.ldexp(rows, power // 2), power - power // 2)
    elements = jnp.clip(scaled, -448.0, 448.0).astype(jnp.float8_e4m3fn).reshape(x.shape)
    return elements, jnp.where(jnp.isfinite(rows).all(-1), code, 255).astype(jnp.uint8)


@pytest.mark.some(4)
@pytest.mark.parametrize("element", _LARGEST)
@pytest.mark.parametrize("source", ["f32", "f16", "bf16"])
def test_right_blocks_pass(source: str, element: str) -> None:
    checked = fuzz.check_blocks(by_numpy(element), source, element, nan_scale=True)
    assert checked.blocks > 400
    assert checked.free == 0


def test_other_libraries_and_other_scales_are_right() -> None:
    for element in _TORCH:
        fuzz.check_blocks(by_torch(element), "f32", element, nan_scale=True)
    fuzz.check_blocks(fp4_by_torch, "bf16", "e2m1", packed=True)
    for shared in ("ceil", "least"):
        fuzz.check_blocks(by_numpy("e2m1", shared), "f32", "e2m1", shared=shared)


@pytest.mark.whole  # JAX compiles a program for each shape
def test_blocks_of_jax_are_right() -> None:
    fuzz.check_blocks(by_jax, "f16", "e4m3fn", nan_scale=True)  # XLA takes subnormal numbers of f32 for 0


def _wide(x: Any, scale: Any) -> Any:
    return (x.astype(np.float64).reshape(*scale.shape, -1) * scale.astype(np.float64)[..., None]).reshape(x.shape)


def _by_torch(x: Any, scale: Any) -> Any:
    return (x.double().unflatten(-1, (-1, 32)) * scale.double()[..., None]).flatten(-2).float()


def test_the_way_back_is_tried_with_every_element_and_every_scale() -> None:
    checked = fuzz.check_blocks(lambda x, s: _wide(x, s).astype(np.float32), "e4m3fn", "f32")
    assert checked.elements == 65536
    fuzz.check_blocks(lambda x, s: _wide(x, s).astype(np.float32), "e2m1", "f32", block=16)
    fuzz.check_blocks(_by_torch, "e5m2", "f32")
    fuzz.check_blocks(_unpacked, "e2m1", "bf16", packed=True)


_NUMBERS = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])


def _unpacked(x: Any, scale: Any) -> Any:
    codes = torch.stack([x.view(torch.uint8) & 15, x.view(torch.uint8) >> 4], -1).flatten(-2).int()
    values = torch.where(codes > 7, -_NUMBERS[codes & 7], _NUMBERS[codes & 7])
    return (values.double().unflatten(-1, (-1, 32)) * scale.double()[..., None]).flatten(-2).bfloat16()


def _made(scale: Callable[[Any], Any], largest: float = 448.0) -> Kernel:
    """Return a kernel for e4m3fn whose scales' codes come from the largest magnitudes."""

    def kernel(x: Any) -> Any:
        rows = x.float().unflatten(-1, (-1, 32))
        code = scale(rows)
        kept = rows * torch.exp2((127 - code).double()).float()[..., None]
        return kept.clamp(-largest, largest).to(torch.float8_e4m3fn).flatten(-2), code.to(torch.uint8)

    return kernel


def _floor(rows: Any) -> Any:
    return ((rows.abs().amax(-1).view(torch.int32) >> 23) - 8).clamp(0, 254)


def _log2(rows: Any) -> Any:
    return (rows.abs().amax(-1).log2().floor() - 8 + 127).nan_to_num(0.0, 254.0, 0.0).clamp(0, 254).int()


def _swapped(x: Any) -> Any:
    codes, scales = fp4_by_torch(x)
    return codes >> 4 | codes << 4, scales


def _last_block_of_the_first(rows: Any) -> Any:
    found = _floor(rows).clone()
    found[..., 2:3] = found[..., :1]
    return found


def _away(x: Any) -> Any:
    _, scale = by_numpy("e2m1")(x)
    size = np.abs(np.ldexp(x.astype(np.float64).reshape(*scale.shape, 32), 127 - scale.astype(int)[..., None]))
    code = sum((size >= edge).astype(np.uint8) for edge in (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0))
    return (code.reshape(x.shape) | np.signbit(x).astype(np.uint8) << 3).astype(np.uint8), scale


INTO: dict[str, tuple[Kernel, str, str]] = {
    "another emax": (_made(lambda rows: (_floor(rows) - 1).clamp(min=0)), "e4m3fn", "scales: "),
    "log2 in f32": (_made(_log2), "e4m3fn", "scales: "),
    "largest without magnitude": (_made(lambda rows: _floor(rows.amax(-1, keepdim=True))), "e4m3fn", "scales: "),
    "the power above": (by_numpy("e4m3fn", "ceil"), "e4m3fn", "shared='ceil'"),
    "least scale": (by_numpy("e4m3fn", "least"), "e4m3fn", "shared='least'"),
    "block of a neighbour": (_made(_last_block_of_the_first), "e4m3fn", "scales: "),
    "clamped to 240": (_made(_floor, 240.0), "e4m3fn", "too large: "),
    "halves swapped": (_swapped, "e2m1", "elements"),
    "ties away": (_away, "e2m1", "ties='away'"),
}  # fmt: skip


@pytest.mark.some(4)
@pytest.mark.parametrize("name", INTO)
def test_wrong_blocks_are_found(name: str) -> None:
    kernel, element, words = INTO[name]
    packed = kernel is _swapped
    with pytest.raises(fuzz.CheckFailed, match=words):
        fuzz.check_blocks(kernel, "f32", element, packed=packed)


def _by_halves(x: Any, scale: Any) -> Any:
    return _wide(x, scale).astype(np.float16).astype(np.float32)


def _flushed(x: Any, scale: Any) -> Any:
    wide = _wide(x, scale)
    return np.where(np.abs(wide) < 2.0**-126, wide * 0, wide).astype(np.float32)


BACK: dict[str, tuple[Kernel, str]] = {
    "scale without its NaN": (lambda x, s: _of_code(x, s, lambda c: 2.0 ** (c - 127.0)), "NaN: "),
    "2^-127 as 0": (lambda x, s: _of_code(x, s, lambda c: np.where(c == 0, 0.0, _power(c))), "exact: "),
    "a bias of 128": (lambda x, s: _of_code(x, s, lambda c: _power(c) / 2.0), "exact: "),
    "by way of f16": (_by_halves, "right if values are first rounded to f16"),
    "scale by the column": (lambda x, s: _wide(x, np.roll(s, 1, 0)).astype(np.float32), "exact: "),
    "subnormal numbers lost": (_flushed, "right if subnormal"),
}  # fmt: skip


def _power(code: Any) -> Any:
    return np.where(code == 255, np.nan, 2.0 ** (code - 127.0))


def _of_code(x: Any, scale: Any, power: Callable[[Any], Any]) -> Any:
    own = power(scale.view(np.uint8).astype(np.float64))
    return (x.astype(np.float64).reshape(*scale.shape, -1) * own[..., None]).reshape(x.shape).astype(np.float32)


@pytest.mark.some(3)
@pytest.mark.parametrize("name", BACK)
def test_wrong_ways_back_are_found(name: str) -> None:
    kernel, words = BACK[name]
    with pytest.raises(fuzz.CheckFailed, match=words):
        fuzz.check_blocks(kernel, "e4m3fn", "f32")


def test_blocks_of_nan_are_judged_only_if_that_is_said() -> None:
    def left_out(x: Any) -> Any:
        elements, scales = by_torch("e5m2")(x)
        return elements, torch.where(scales.view(torch.uint8) == 255, 254, scales.view(torch.uint8))

    assert fuzz.check_blocks(left_out, "f32", "e5m2").free > 0
    with pytest.raises(fuzz.CheckFailed, match="must be NaN"):
        fuzz.check_blocks(left_out, "f32", "e5m2", nan_scale=True)


def test_what_is_no_block_is_refused() -> None:
    with pytest.raises(fuzz.CheckError, match="16 bits and more on one side"):
        fuzz.check_blocks(_wide, "f32", "bf16")
    with pytest.raises(fuzz.CheckError, match="4 bits"):
        fuzz.check_blocks(by_torch("e5m2"), "f32", "e5m2", packed=True)
    with pytest.raises(fuzz.CheckError, match="f32, f16 and bf16"):
        fuzz.check_blocks(by_torch("e5m2"), "f64", "e5m2")
    with pytest.raises(fuzz.CheckFailed, match="not elements and scales"):
        fuzz.check_blocks(lambda x: x, "f32", "e5m2")
    with pytest.raises(fuzz.CheckFailed, match="scales: returned"):
        fuzz.check_blocks(lambda x: (by_torch("e5m2")(x)[0], x), "f32", "e5m2")


def _padded(kernel: Kernel) -> Kernel:
    """Return a kernel of rows of any length, from one of whole blocks."""

    def taken(x: Any) -> Any:
        codes, scales = kernel(torch.nn.functional.pad(x, (0, -x.shape[1] % 32)))
        return codes[:, : x.shape[1]], scales

    return taken


def in_parts(x: Any) -> Any:
    """Each block by itself, as long as it is."""
    parts = []
    for at in range(0, x.shape[1], 32):
        own = x[:, at : at + 32]
        codes, scales = by_numpy("e4m3fn")(np.pad(own, ((0, 0), (0, 32 - own.shape[1]))))
        parts.append((codes[:, : own.shape[1]], scales))
    return np.concatenate([each for each, _ in parts], 1), np.concatenate([each for _, each in parts], 1)


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
    with pytest.raises(fuzz.CheckFailed, match="blocks of e4m3fn to f32"):
        fuzz.check_blocks(wrong, "e4m3fn", "f32", partial=True)
