"""Products of TF32 by the instructions of a matrix unit, one after the other, as Triton takes them."""

from __future__ import annotations

import numpy as np
import torch
import triton
import triton.language as tl

from oracles.doubledouble import F64

_ROWS, _COLUMNS = tl.constexpr(64), tl.constexpr(32)
"""The size of the product: that of the instruction `wgmma` m64n32k8 of Hopper."""


def product(a: F64, b: F64, dtype: str = "tf32") -> F64:
    """Return the product of two matrices of numbers of TF32, of at most 64 rows and 32 columns, accumulated in f32."""
    length = -(-a.shape[1] // _COLUMNS.value) * _COLUMNS.value
    first, second = torch.zeros(_ROWS.value, length), torch.zeros(length, _COLUMNS.value)
    first[: len(a), : a.shape[1]], second[: len(b), : b.shape[1]] = (torch.from_numpy(each).float() for each in (a, b))
    device = "cuda" if torch.cuda.is_available() else "cpu"  # there Triton's interpreter multiplies, in f32
    found = torch.empty(_ROWS.value, _COLUMNS.value, device=device)
    _product[(1,)](first.to(device), second.to(device), found, length)
    return np.asarray(found[: len(a), : b.shape[1]].double().cpu().numpy())


@triton.jit
def _product(a, b, c, length):  # type: ignore[no-untyped-def]  # Triton 3.6 looks annotations up as globals
    rows, columns = tl.arange(0, _ROWS), tl.arange(0, _COLUMNS)
    sums = tl.zeros((_ROWS, _COLUMNS), tl.float32)
    for start in range(0, length, _COLUMNS):
        terms = start + columns
        first = tl.load(a + rows[:, None] * length + terms[None, :])
        second = tl.load(b + terms[:, None] * _COLUMNS + columns[None, :])
        sums = tl.dot(first, second, sums, input_precision="tf32")
    tl.store(c + rows[:, None] * _COLUMNS + columns[None, :], sums)
