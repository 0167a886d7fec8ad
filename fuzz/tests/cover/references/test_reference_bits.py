"""References that take bits of integers, running maxima, or cross products, are read with the right values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from jax import lax

import fuzz
from fuzz.references.derive import derive
from fuzz.references.dims import UnreadableError


def unpacked(packed, scale):  # type: ignore[no-untyped-def]
    """Two numbers of 4 bits from each byte."""
    w = torch.stack([packed & 15, packed >> 4], -1).flatten(-2).float() - 8
    return w * scale[:, None]


def middle(packed, scale):  # type: ignore[no-untyped-def]
    return ((packed & 0x3C) >> 2).float() * scale[:, None]


def apart(packed, scale):  # type: ignore[no-untyped-def]
    return (packed & 5).float() * scale[:, None]


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16"])
@pytest.mark.parametrize("reference", [unpacked, middle])
def test_successive_bits_are_read(reference: Any, dtype: str) -> None:
    ends = torch.iinfo(getattr(torch, dtype))
    packed = torch.tensor([[ends.min, ends.min + 1, -1 if ends.min else 255, 0, 1, 16, 60, ends.max]])
    packed, scale = packed.to(getattr(torch, dtype)), torch.ones(1)
    assert derive(reference, "packed=n k, scale=n", dtypes={"packed": dtype}).op.operand("packed").dtype == dtype
    fuzz.assert_right(reference(packed, scale), reference, (packed, scale))
    with pytest.raises(AssertionError):
        fuzz.assert_right(reference(packed ^ 8, scale), reference, (packed, scale))


def test_bits_that_are_not_successive_are_refused() -> None:
    with pytest.raises(UnreadableError, match="takes the bits of 5, which are not successive"):
        derive(apart, "packed=n k, scale=n", dtypes={"packed": "uint8"})


def crossed(a, b):  # type: ignore[no-untyped-def]
    return torch.linalg.cross(a, b)


def largest(x):  # type: ignore[no-untyped-def]
    return torch.cummax(x, -1).values


def smallest(x):  # type: ignore[no-untyped-def]
    return torch.cummin(x, -1)[0]


def from_the_end(x):  # type: ignore[no-untyped-def]
    return lax.cummin(x, axis=1, reverse=True)


@pytest.mark.parametrize(
    ("reference", "shapes", "given"),
    [
        (crossed, "a=n c, b=n c, c=3", {"a": (4, 3), "b": (4, 3)}),
        (largest, "x=b n", {"x": (3, 9)}),
        (smallest, "x=b n", {"x": (3, 9)}),
        (from_the_end, "x=b n", {"x": (3, 9)}),
    ],
)
def test_running_maxima_and_cross_products_are_read(
    reference: Any, shapes: str, given: Mapping[str, tuple[int, ...]]
) -> None:
    """The guard compares the formula with the reference in float64; here f32 is judged by it."""
    assert derive(reference, shapes).agreement.sets == 3
    if reference is not from_the_end:
        inputs = tuple(torch.randn(size) for size in given.values())
        fuzz.assert_right(reference(*inputs), reference, inputs)
