"""Rows that lie more than 2^31 elements apart show places of 32 bits, and take no memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import fuzz


def total(x: Any) -> Any:
    """Return the sum of each row."""
    return x.sum(-1)


def _by_places(narrow: Callable[[int], int]) -> Callable[[Any], Any]:
    """Return a kernel that calculates the place of each row."""

    def summed(x: Any) -> Any:
        rows, n = x.shape
        whole = x.as_strided(((rows - 1) * x.stride(0) + n,), (1,))
        return torch.stack([whole[narrow(row * x.stride(0)) % len(whole) :][:n].sum() for row in range(rows)])

    return summed


def _in_32_bits(place: int) -> int:
    return (place + (1 << 31)) % (1 << 32) - (1 << 31)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("rows", [2, 5])
def test_places_of_32_bits_are_found_beyond_their_range(dtype: Any, rows: int) -> None:
    x = torch.linspace(1.0, 2.0, rows * 7).reshape(rows, 7).to(dtype)
    far = fuzz.far_apart(x)
    assert torch.equal(far, x)
    assert far.stride(0) * (rows - 1) > 1 << 31
    right, wrong = _by_places(lambda place: place), _by_places(_in_32_bits)
    fuzz.assert_right(right(far), total, x)
    fuzz.assert_right(wrong(x), total, x)
    with pytest.raises(fuzz.CheckFailed):
        fuzz.assert_right(wrong(far), total, x)


def test_arrays_of_numpy_lie_as_far_apart() -> None:
    x = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    far = fuzz.far_apart(x)
    assert np.array_equal(far, x)
    assert far.strides == (4 * ((1 << 31) + 4096), 16, 4)
    fuzz.assert_right(far.sum(-1), total, x)


def test_a_single_row_is_refused() -> None:
    with pytest.raises(fuzz.CheckError, match="two rows"):
        fuzz.far_apart(torch.ones(1, 3))
