"""Conversions to formats of 8 bits and less, with the policies that libraries have, and NaNs bit by bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import torch

import fuzz
from fuzz.tasks.codes import CODED, KNOWN, between, storage
from oracles.dtypes import FORMATS
from oracles.rounding import round_to

Kernel = Callable[..., Any]
_SMALL = [name for name in KNOWN if CODED[name].bits <= 8]
_POLICY: Mapping[str, Mapping[str, Any]] = {
    "e8m0": {"ties": "away", "codes": {"zeros": 0xFF, "negative": 0xFF}},
    **{name: {"overflow": "saturate"} for name in ("e2m1", "e2m3", "e3m2")},
}
"""What ml_dtypes and JAX do in formats without infinities, NaN, zeros or a sign."""


def _by(form: str) -> Kernel:
    return lambda x: x.astype(storage(CODED[form]))


@pytest.mark.some(3)
@pytest.mark.parametrize("name", KNOWN[2:])
def test_codes_stand_for_the_numbers_of_ml_dtypes(name: str) -> None:
    form = CODED[name]
    codes = np.arange(1 << form.bits, dtype=np.uint64)
    with np.errstate(all="ignore"):
        right = codes.astype(f"<u{form.size}").view(storage(form)).astype(np.float64)
    got = form.numbers(codes)
    assert np.array_equal(got, right, equal_nan=True)
    assert (np.signbit(got) == np.signbit(right))[~np.isnan(right)].all()
    assert form.most == np.nanmax(np.where(np.isinf(right), np.nan, right))


@pytest.mark.some(2)
@pytest.mark.parametrize("name", FORMATS)
def test_numbers_are_rounded_as_the_oracle_rounds_them(name: str) -> None:
    form, random = CODED[name], np.random.default_rng(0)
    wide = random.integers(0, 1 << 63, 50_000, dtype=np.uint64).view(np.float64)
    near = CODED["f32"].numbers(random.integers(0, 1 << 31, 50_000, dtype=np.uint64))
    wide = np.concatenate([wide, near, [0.0]])
    wide = wide[np.isfinite(wide)]
    codes = between(wide, form).rounded("even", wide < 0.0)
    past = codes > form.largest
    assert np.array_equal(np.where(past, np.inf, form.sizes(np.where(past, 0, codes))), round_to(wide, FORMATS[name]))


@pytest.mark.some(2)
@pytest.mark.parametrize("target", _SMALL)
def test_ml_dtypes_is_right(target: str) -> None:
    for source in ("f16", "f32"):
        if (source, target) != ("f32", "e8m0"):  # wrong between 2^-127 and 1.5 times that
            fuzz.check_conversion(_by(target), source, target, arrays="numpy", **_POLICY.get(target, {}))
    fuzz.check_conversion(_by("f32"), target, "f32", arrays="numpy")


@pytest.mark.some(1)
@pytest.mark.parametrize("target", [name for name in _SMALL if name not in ("e2m3", "e3m2")])
def test_jax_is_right(target: str) -> None:
    own = getattr(jnp, CODED[target].spelling)
    fuzz.check_conversion(lambda x: x.astype(own), "f16", target, arrays="jax", **_POLICY.get(target, {}))


def test_torch_is_right_with_its_own_policies() -> None:
    for target in ("e4m3fnuz", "e5m2fnuz"):
        own = getattr(torch, CODED[target].spelling)
        fuzz.check_conversion(lambda x, own=own: x.to(own), "f32", target)
        fuzz.check_conversion(lambda x: x.bfloat16(), target, "bf16")
    fuzz.check_conversion(lambda x: x.to(torch.float8_e8m0fnu), "f16", "e8m0", ties="away", codes={"zeros": 0})
    with pytest.raises(fuzz.CheckFailed, match=r"that are rounded: .* became 1.17549435e-38"):  # next to 2^-127
        fuzz.check_conversion(lambda x: x.to(torch.float8_e8m0fnu), "bf16", "e8m0", ties="away", codes={"zeros": 0})


def _fp4(x: Any, ties: str = "even") -> Any:
    """Return codes of 4 bits by comparing with the numbers half-way."""
    size, edges = np.abs(x.astype(np.float64)), (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)
    up = [size > edge if at % 2 == 0 and ties == "even" else size >= edge for at, edge in enumerate(edges)]
    return np.where(np.isnan(x), 7, sum(each.astype(np.uint8) for each in up) | np.signbit(x).astype(np.uint8) << 3
    ).astype(np.uint8)  # fmt: skip


def _fnuz(x: Any) -> Any:
    """Return codes of e4m3fnuz from the bits of f32, with NaN for what is too large."""
    bits = x.view(np.uint32).astype(np.int64)
    size = bits & 0x7FFFFFFF
    small = np.rint(np.abs(np.where(size < 0x3C000000, x, 0.0)).astype(np.float64) * 2.0**10).astype(np.int64)
    code = np.where(size < 0x3C000000, small, (size + 0x7FFFF + (size >> 20 & 1) >> 20) - (119 << 3))
    sign = np.where(code > 0, bits >> 31 & 1, 0)
    return np.where(code > 127, 0x80, code | sign << 7).astype(np.uint8)


def _packed(x: Any) -> Any:
    return _fp4(x)[0::2] | _fp4(x)[1::2] << 4


def _power(x: Any, up: float = 0.5) -> Any:
    """Return codes of e8m0 of magnitudes, rounded up from this part of the way on; saturated at the lower end."""
    part, power = np.frexp(np.abs(x).astype(np.float64))
    code = power - 1 + 127 + (2.0 * part - 1.0 >= up)
    code = np.where(code > 254, 255, np.clip(np.where(x == 0, 0, code), 0, 254))
    return np.where(np.isfinite(x), code, 255).astype(np.uint8)


def test_kernels_by_hand_are_right() -> None:
    fuzz.check_conversion(_fnuz, "f32", "e4m3fnuz")
    fuzz.check_conversion(_fp4, "f32", "float4_e2m1fn", overflow="saturate", codes={"NaN": 7})
    fuzz.check_conversion(_fp4, "bf16", "e2m1", overflow="saturate", codes={"NaN": 7}, arrays="numpy")
    fuzz.check_conversion(_packed, "f32", "e2m1", overflow="saturate", codes={"NaN": 7}, packed=True)
    fuzz.check_conversion(_power, "f32", "e8m0", ties="away", codes={"zeros": 0})
    fuzz.check_conversion(lambda x: _power(x, 2.0), "f32", "e8m0", ties="towards zero", arrays="numpy")
    fuzz.check_conversion(lambda x: _power(x, 2.0**-52), "f32", "e8m0", ties="upward", arrays="numpy")


def test_what_nothing_is_said_of_may_be_anything_and_is_named() -> None:
    checked = fuzz.check_conversion(_fp4, "f16", "e2m1", overflow="saturate", arrays="numpy")
    assert checked.free == ("NaN",)
    checked = fuzz.check_conversion(_power, "bf16", "e8m0", ties="away", arrays="numpy")
    assert checked.free == ("zeros", "negative")


def _then(change: Callable[[Any, Any], Any], kernel: Kernel) -> Kernel:
    return lambda x: change(x, kernel(x))


def _without_subnormals(x: Any, y: Any) -> Any:
    return np.where((y & 0x7F < 8) & (y != 0x80), 0, y).astype(np.uint8)


_FOUR = {"overflow": "saturate", "codes": {"NaN": 7}}
_SCALE = {"ties": "away", "codes": {"zeros": 0}}
WRONG: dict[str, tuple[Kernel, str, Mapping[str, Any], str]] = {
    "fnuz: codes of e4m3fn": (lambda x: _by("e4m3fn")(x).view(np.uint8), "e4m3fnuz", {}, "exact: "),
    "fnuz: -0 is NaN": (_then(lambda x, y: np.where((x == 0) & np.signbit(x), 0x80, y).astype(np.uint8), _fnuz),
                        "e4m3fnuz", {}, "zeros: "),
    "fnuz: saturates": (lambda x: _fnuz(np.clip(x, -240, 240)), "e4m3fnuz", {}, "overflow='saturate'"),
    "fnuz: largest of e4m3fn": (_then(lambda x, y: np.where(np.abs(x) > 240, 0x80, y).astype(np.uint8), _fnuz),
                                "e4m3fnuz", {}, "too large: "),
    "fnuz: NaN of e4m3fn": (_then(lambda x, y: np.where(np.isnan(x), 0x7F, y).astype(np.uint8), _fnuz), "e4m3fnuz", {},
                            "NaN: "),
    "fnuz: no subnormals": (_then(_without_subnormals, _fnuz), "e4m3fnuz", {}, "right if subnormal results are 0"),
    "fp4: ties away": (lambda x: _fp4(x, "away"), "e2m1", _FOUR, "ties='away'"),
    "fp4: an eighth less": (lambda x: _fp4(x - np.copysign(np.float32(0.125), x)), "e2m1", _FOUR, "that are rounded: "),
    "fp4: wraps around": (_then(lambda x, y: np.where(np.abs(x) > 7, y & 8, y), _fp4), "e2m1", _FOUR, "too large: "),
    "fp4: NaN is 0": (_then(lambda x, y: np.where(np.isnan(x), 0, y), _fp4), "e2m1", _FOUR, "NaN: .* must be 6"),
    "fp4: sign of 0 lost": (_then(lambda x, y: np.where(x == 0, 0, y), _fp4), "e2m1", _FOUR, "zeros: "),
    "fp4: no 0.5": (_then(lambda x, y: np.where(y & 7 == 1, y & 8, y), _fp4), "e2m1", _FOUR,
                    "right if subnormal results are 0"),
    "fp4: halves swapped": (lambda x: _fp4(x)[1::2] | _fp4(x)[0::2] << 4, "e2m1", {**_FOUR, "packed": True}, "exact: "),
    "e8m0: cuts off": (lambda x: _power(x, 2.0), "e8m0", _SCALE, "ties='towards zero'"),
    "e8m0: rounds up": (lambda x: _power(x, 2.0**-30), "e8m0", _SCALE, "ties='upward'"),
    "e8m0: bias of 128": (lambda x: _power(x * 2.0), "e8m0", _SCALE, "exact: "),
    "e8m0: NaN is 2^127": (_then(lambda x, y: np.minimum(y, 254), _power), "e8m0", _SCALE, "NaN: "),
    "e8m0: no subnormals": (lambda x: _power(np.where(np.abs(x) < 2.0**-126, 0, x)), "e8m0", _SCALE,
                            "right if subnormal inputs count as 0"),
    "e8m0: 0 is 1": (_then(lambda x, y: np.where(x == 0, 127, y).astype(np.uint8), _power), "e8m0", _SCALE, "zeros: "),
    "saturates numbers alone": (lambda x: x.clip(-65504, 65504, where=np.isfinite(x), out=x.copy()).astype(np.float16),
                                "f16", {"overflow": "saturate"}, "overflow='saturate numbers'"),
    "too large is NaN": (_then(lambda x, y: np.where(np.isinf(y) & np.isfinite(x), np.float16(np.nan), y), _by("f16")),
                         "f16", {}, "overflow='nan'"),
}  # fmt: skip


@pytest.mark.some(7)
@pytest.mark.parametrize("name", WRONG)
def test_wrong_conversions_are_found_and_the_cause_is_named(name: str) -> None:
    kernel, target, policy, words = WRONG[name]
    with pytest.raises(fuzz.CheckFailed, match=words):
        fuzz.check_conversion(kernel, "f32", target, arrays="numpy", **policy)


def _payload(x: Any) -> Any:
    """Return f16 with the sign and the first bits of a NaN's payload, made quiet."""
    bits = x.view(np.uint32)
    nan = bits >> 16 & 0x8000 | 0x7E00 | bits >> 13 & 0x3FF
    return np.where(np.isnan(x), nan, x.astype(np.float16).view(np.uint16)).astype(np.uint16)


def _nan(code: Callable[[Any], Any]) -> Kernel:
    """Return a conversion to f16 that makes a code of the bits of a NaN."""
    return lambda x: np.where(np.isnan(x), code(x.view(np.uint32)), _payload(x)).astype(np.uint16)


NAN: dict[str, tuple[Kernel, Any, str]] = {
    "stays signalling": (_nan(lambda b: b >> 16 & 0x8000 | 0x7C00 | np.maximum(b >> 13 & 0x3FF, 1)), "quiet",
                         "signalling NaN: .* must be a quiet NaN"),
    "becomes an infinity": (_nan(lambda b: b >> 16 & 0x8000 | 0x7C00 | b >> 13 & 0x3FF), "any", "signalling NaN: "),
    "sign lost": (_nan(lambda b: 0x7E00 | b >> 13 & 0x3FF), "sign", "must be a NaN of the same sign"),
    "last bits of the payload": (_nan(lambda b: b >> 16 & 0x8000 | 0x7E00 | b & 0x3FF), "payload", "NaN: "),
    "one for all": (_nan(lambda b: 0x7E00), "payload", "NaN: "),
    "payload one bit off": (_nan(lambda b: b >> 16 & 0x8000 | 0x7E00 | b >> 14 & 0x1FF), "payload", "NaN: "),
    "sign turned": (_nan(lambda b: (b >> 16 & 0x8000 | 0x7E00) ^ 0x8000), "sign", "NaN: "),
    "another one": (_nan(lambda b: 0x7FFF), {"NaN": 0x7E00}, "must be nan .0x7e00"),
}  # fmt: skip


@pytest.mark.some(3)
@pytest.mark.parametrize("name", NAN)
def test_nans_are_judged_as_said(name: str) -> None:
    kernel, nan, words = NAN[name]
    said = {"codes": nan} if isinstance(nan, dict) else {"nan": nan}
    with pytest.raises(fuzz.CheckFailed, match=words):
        fuzz.check_conversion(kernel, "f32", "f16", **said)


def test_processors_keep_the_payload_and_torch_may_not() -> None:
    fuzz.check_conversion(_payload, "f32", "f16", nan="payload")
    fuzz.check_conversion(lambda x: x.astype(np.float32), "f64", "f32", nan="payload")
    fuzz.check_conversion(lambda x: x.float(), "f64", "f32", nan="payload")
    with pytest.raises(fuzz.CheckFailed, match="signalling NaN: 126 of 126"):
        fuzz.check_conversion(lambda x: x.float(), "bf16", "f32", nan="quiet")


def test_policies_that_a_format_does_not_have_are_refused() -> None:
    for words, given in {
        "neither infinities nor NaN": {}, "e2m1 has no quiet NaNs": {"overflow": "saturate", "nan": "quiet"},
    }.items():  # fmt: skip
        with pytest.raises(fuzz.CheckError, match=words):
            fuzz.check_conversion(_fp4, "f32", "e2m1", **given)  # type: ignore[arg-type]
    with pytest.raises(fuzz.CheckError, match="4 bits"):
        fuzz.check_conversion(_by("f16"), "f32", "f16", packed=True)
    with pytest.raises(fuzz.CheckError, match="a result of its own"):
        fuzz.check_conversion(_by("f16"), "f32", "f16", codes={"zeros": 0})
    with pytest.raises(fuzz.CheckError, match="two signs"):
        fuzz.check_conversion(_fnuz, "f32", "e4m3fnuz", nan="sign")
    with pytest.raises(fuzz.CheckError, match="jax_enable_x64"):
        fuzz.check_conversion(lambda x: x.astype(jnp.float32), "f64", "f32", arrays="jax")


def test_every_value_of_8_bits_may_be_of_any_format() -> None:
    x = fuzz.every("float8_e4m3fnuz")
    assert x.dtype == torch.float8_e4m3fnuz
    assert len(fuzz.every("e2m1", "numpy")) == 16
    assert ml_dtypes.float4_e2m1fn == fuzz.every("e2m1", "numpy").dtype
