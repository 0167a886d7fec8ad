"""Integers with floats in between, and references of integers in JAX."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch

import fuzz
from oracles.tests.common.whole import quarter

jnp = pytest.importorskip("jax.numpy")
Kernel = Callable[..., Any]


def requantised(a: Any, b: Any) -> Any:
    """Return the codes of a product of codes, times 1/2."""
    return torch.round((a.int() @ b.int()).float() * 0.5).clamp(-128, 127).to(torch.int8)


def scaled(a: Any, b: Any, s: Any) -> Any:
    """Return a product of codes, each column times a scale."""
    return (a.int() @ b.int()).float() * s


def dequantised(q: Any, zero: Any) -> Any:
    """Return what codes stand for."""
    return (q.float() - zero.float()) * 0.1


def wrapped(a: Any, b: Any) -> Any:
    """Return sums that wrap, and quotients that round down."""
    return a + b, a // b


def parity(x: Any) -> Any:
    """Return whether the number of ones is odd."""
    return (jnp.asarray(x)[..., None] >> jnp.arange(8) & 1).sum(-1) % 2 == 1


_BYTES, _BOTH = {"a": "int8", "b": torch.int8}, {"a": "int32", "b": np.int32}
CHECKS: Mapping[Kernel, tuple[str, Mapping[str, Any]]] = {
    requantised: ("a=m k, b=k n", _BYTES),
    scaled: ("a=m k, b=k n, s=n", _BYTES),
    dequantised: ("q=m n, zero=n", {"q": "uint8", "zero": "uint8"}),
    parity: ("x=b n", {"x": "uint8"}),
}


def wrapped_in_jax(a: Any, b: Any) -> Any:
    """Return sums that wrap, and quotients that round down."""
    return jnp.add(a, b), jnp.floor_divide(a, b)


RIGHT: list[tuple[Kernel, Kernel]] = [
    (requantised, requantised),
    (requantised, lambda a, b: torch.round(a.double() @ b.double() / 2).clamp(-128, 127).to(torch.int8)),
    (requantised, lambda a, b: np.clip(np.rint((a.astype(np.int32) @ b.astype(np.int32)) / 2), -128, 127)
     .astype(np.int8)),
    (scaled, lambda a, b, s: (a.float() * 0.5 @ b.float()) * (2 * s)),
    (scaled, lambda a, b, s: (a.astype(np.int32) @ b.astype(np.int32)).astype(np.float32) * s),
    (scaled, lambda a, b, s: a.double().float() @ b.float() * s),
    (parity, lambda x: np.unpackbits(x[..., None], axis=-1).sum(-1) % 2 == 1),
    (parity, lambda x: ((x * np.uint64(0x0101010101010101) & np.uint64(0x8040201008040201)) % np.uint64(511) & 1)
     .astype(bool)),
    (parity, lambda x: (torch.stack([x >> at & 1 for at in range(8)]).sum(0) & 1).bool()),
    (dequantised, lambda q, zero: (q.int() - zero.int()).float() * 0.1),
    (dequantised, lambda q, zero: (q.astype(np.float32) - zero.astype(np.float32)) / np.float32(10.0)),
    (dequantised, lambda q, zero: ((q.double() - zero) / 10).float()),
]  # fmt: skip
_NUMPY = (2, 4, 6, 7, 10)

WRONG: Mapping[str, tuple[Kernel, Kernel]] = {
    "ties away from zero": (requantised, lambda a, b: (
        (product := a.double() @ b.double() / 2).abs() + 0.5).floor().mul(product.sign()).clamp(-128, 127).char()),
    "truncates": (requantised, lambda a, b: (a.double() @ b.double() / 2).trunc().clamp(-128, 127).char()),
    "saturates at -127": (requantised, lambda a, b: torch.round(a.double() @ b.double() / 2).clamp(-127, 127).char()),
    "wraps": (requantised, lambda a, b: torch.round(a.double() @ b.double() / 2).int().char()),
    "pairs of 16 bits": (scaled, lambda a, b, s: (
        (a.int() @ b.int()).clamp(-32768, 32767)).float() * s),
    "scale of the row": (scaled, lambda a, b, s: (a.int() @ b.int()).float() * s[:1]),
    "of seven bits": (parity, lambda x: (torch.stack([x >> at & 1 for at in range(7)]).sum(0) & 1).bool()),
    "unsigned as signed": (dequantised, lambda q, zero: (q.view(torch.int8).float() - zero.float()) * 0.1),
    "difference in 8 bits": (dequantised, lambda q, zero: (q - zero).float() * 0.1),
    "scale in bf16": (dequantised, lambda q, zero: (q.float() - zero.float()) * torch.tensor(0.1).bfloat16().float()),
}  # fmt: skip


def _checked(kernel: Kernel, reference: Kernel, **given: Any) -> None:
    shapes, dtypes = CHECKS[reference]
    fuzz.check(
        kernel, reference=reference, oracle="replay", shapes=shapes, dtypes=dtypes, max_cases=quarter(60),
        **{"seed": 1, **given},
    )  # fmt: skip


@pytest.mark.some(3)
@pytest.mark.parametrize("at", range(len(RIGHT)))
def test_right_kernels_of_codes_pass(at: int) -> None:
    reference, kernel = RIGHT[at]
    _checked(kernel, reference, arrays="numpy" if at in _NUMPY else "torch")


@pytest.mark.some(2)
@pytest.mark.parametrize("name", WRONG)
def test_wrong_ones_are_found(name: str) -> None:
    reference, kernel = WRONG[name]
    with pytest.raises(fuzz.CheckFailed, match="must be"):
        _checked(kernel, reference, arrays="torch")


def test_integers_in_jax_are_compared_exactly_but_for_quotients_without_a_value(
    capsys: pytest.CaptureFixture[str],
) -> None:
    given: dict[str, Any] = {
        "reference": wrapped_in_jax,
        "oracle": "replay",
        "shapes": "a=n, b=n",
        "dtypes": _BOTH,
        "seed": 1,
    }

    def numpy(a: Any, b: Any) -> Any:
        with np.errstate(all="ignore"):
            return a + b, a // b

    fuzz.check(numpy, arrays="numpy", max_cases=quarter(40), **given)
    assert "compared exactly" in capsys.readouterr().err
    with pytest.raises(fuzz.CheckFailed, match=r"y1\["):
        fuzz.check(lambda a, b: (a + b, torch.div(a, b, rounding_mode="trunc")), max_cases=quarter(40), **given)
    with pytest.raises(fuzz.CheckFailed, match=r"y0\["):
        fuzz.check(
            lambda a, b: ((a.long() + b).clamp(-(2**31), 2**31 - 1).int(), a // b), max_cases=quarter(40), **given
        )


def test_dtypes_that_no_integers_have_are_refused() -> None:
    with pytest.raises(fuzz.CheckError, match="uint8"):
        fuzz.check(parity, reference=parity, shapes="x=b n", dtypes={"x": "float32"})
    with pytest.raises(fuzz.CheckError, match="int7"):
        fuzz.check(parity, reference=parity, shapes="x=b n", dtypes={"x": "int7"}, oracle="replay")


def test_a_formula_takes_them_too() -> None:
    def taken(x: Any, at: Any) -> Any:
        return x[at]

    met = set[str]()

    def kernel(x: Any, at: Any) -> Any:
        met.add(str(at.dtype))
        return x[at.long()]

    fuzz.check(kernel, reference=taken, shapes="x=n d, at=k", dtypes={"at": "int32"}, max_cases=20, seed=1)
    assert met == {"torch.int32"}
