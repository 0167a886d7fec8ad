"""Rows that are multiplied by the matrix of their group, and by no other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oracles.formula.contract import Contract
from oracles.problem import Problem
from oracles.truth import Truth

F32 = NDArray[np.float32]
OFFS = np.array([0, 3, 3, 7, 7], np.int32)
"""The first, the third and the last of five groups have no rows, and the last two of nine rows have no group."""


def _given() -> tuple[F32, F32, F32]:
    random = np.random.default_rng(5)
    a, b = random.standard_normal((9, 6)), random.standard_normal((5, 6, 4))
    return a.astype(np.float32), b.astype(np.float32), random.standard_normal((5, 4)).astype(np.float32)


def _failing(a: F32, b: F32, bias: F32, c: F32, offs: NDArray[np.int32] = OFFS) -> int:
    given = {"a": a, "b": b, "offs": offs, "bias": bias}
    (check,) = Truth(Problem("grouped_rows_matmul", {}, given, {"c": "f32"})).check(Contract(), {"c": c})
    return check.failing


def _product(a: F32, b: F32, bias: F32, groups: list[int]) -> F32:
    """Each row by the matrix of a group, or 0 where that is -1."""
    rows = [a[m] @ b[g] + bias[g] if g >= 0 else np.zeros(4, np.float32) for m, g in enumerate(groups)]
    return np.stack(rows).astype(np.float32)


def test_each_row_is_judged_by_its_own_matrix() -> None:
    a, b, bias = _given()
    own = [1, 1, 1, 3, 3, 3, 3, -1, -1]
    assert _failing(a, b, bias, _product(a, b, bias, own)) == 0
    for row, group in enumerate(own):
        for other in {-1, 0, 1, 2, 3, 4} - {group}:
            moved = [*own[:row], other, *own[row + 1 :]]
            assert _failing(a, b, bias, _product(a, b, bias, moved)) == 4, (row, other)


def test_what_is_nan_in_one_group_is_in_no_other() -> None:
    a, b, bias = _given()
    c = _product(a, b, bias, [1, 1, 1, 3, 3, 3, 3, -1, -1])
    for group in (0, 2, 4):
        b[group], bias[group] = np.nan, np.inf
    a[7], b[3, 0, 1], bias[1, 2] = np.nan, np.inf, np.nan
    c[3:7, 1], c[:3, 2] = np.copysign(np.inf, a[3:7, 0]), np.nan
    assert _failing(a, b, bias, c) == 0
    c[7] = np.nan
    assert _failing(a, b, bias, c) == 4


def test_without_any_group_rows_are_zeros_whatever_they_are() -> None:
    a, b, bias = _given()
    a[4] = np.nan
    assert _failing(a, b[:0], bias[:0], np.zeros((9, 4), np.float32), OFFS[:0]) == 0
    assert _failing(a, b[:0], bias[:0], np.full((9, 4), np.nan, np.float32), OFFS[:0]) == 36
