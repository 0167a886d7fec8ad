"""Solves from the right, by a factor, in the sense of least squares, and pseudo-inverses, judged by residuals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.linalg import cho_solve, solve_triangular

import fuzz
from oracles.tests.common.whole import quarter

Kernel = Callable[..., Any]
linalg = torch.linalg


def from_right(a: Any, b: Any) -> Any:
    return linalg.solve(a, b, left=False)


def triangular(a: Any, b: Any) -> Any:
    return linalg.solve_triangular(a, b, upper=True, left=False, unitriangular=True)


def by_factor(b: Any, factor: Any) -> Any:
    return torch.cholesky_solve(b, factor)


def of_factored(b: Any, a: Any) -> Any:
    return torch.cholesky_solve(b, linalg.cholesky(a))


def least(a: Any, b: Any) -> Any:
    return linalg.lstsq(a, b, driver="gelsd").solution


def pseudo(a: Any) -> Any:
    return linalg.pinv(a)


def of_inverse(factor: Any) -> Any:
    return torch.cholesky_inverse(factor)


SHAPES = {
    from_right: "a=n n, b=k n", triangular: "a=n n, b=k n", by_factor: "b=n k, factor=n n", of_factored: "b=n k, a=n n",
    least: "a=m n, b=m k", pseudo: "a=m n", of_inverse: "factor=n n",
}  # fmt: skip


def _by_columns(a: Any, b: Any) -> Any:
    """Return x with x a = b for an upper triangle with ones on the diagonal."""
    x = b.copy()
    for j in range(len(a)):
        x[:, j] = b[:, j] - x[:, :j] @ a[:j, j]
    return x


def _by_hand(b: Any, factor: Any) -> Any:
    n, x = len(factor), b.copy()
    for i in range(n):
        x[i] = (x[i] - factor[i, :i] @ x[:i]) / factor[i, i]
    for i in reversed(range(n)):
        x[i] = (x[i] - factor[i + 1 :, i] @ x[i + 1 :]) / factor[i, i]
    return x


def _by_qr(a: Any, b: Any) -> Any:
    if a.shape[0] >= a.shape[1]:
        q, r = linalg.qr(a)
        return linalg.solve_triangular(r, q.mT @ b, upper=True)
    q, r = linalg.qr(a.mT)
    return q @ linalg.solve_triangular(r.mT, b, upper=False)


def _by_svd(a: Any) -> Any:
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    return ((vh.T / s) @ u.T).astype(a.dtype)


def _pseudo_by_qr(a: Any) -> Any:
    if a.shape[0] < a.shape[1]:
        return _pseudo_by_qr(a.mT).mT
    q, r = linalg.qr(a)
    return linalg.solve_triangular(r, q.mT, upper=True)


RIGHT: list[tuple[Kernel, Kernel, str]] = [
    (from_right, from_right, "torch"), (from_right, lambda a, b: np.linalg.solve(a.T, b.T).T.copy(), "numpy"),
    (from_right, lambda a, b: linalg.lu_solve(*linalg.lu_factor(a), b, left=False), "torch"),
    (triangular, triangular, "torch"), (triangular, _by_columns, "numpy"),
    (triangular, lambda a, b: solve_triangular(a, b.T, trans="T", unit_diagonal=True).T, "numpy"),
    (by_factor, by_factor, "torch"), (by_factor, _by_hand, "numpy"),
    (by_factor, lambda b, factor: cho_solve((factor, True), b), "numpy"),
    (of_factored, of_factored, "torch"), (of_factored, lambda b, a: np.linalg.solve(a, b), "numpy"),
    (least, least, "torch"), (least, lambda a, b: np.linalg.lstsq(a, b, rcond=None)[0], "numpy"),
    (least, _by_qr, "torch"),
    (pseudo, pseudo, "torch"), (pseudo, _by_svd, "numpy"), (pseudo, _pseudo_by_qr, "torch"),
    (of_inverse, of_inverse, "torch"),
    (of_inverse, lambda factor: np.linalg.inv(np.tril(factor) @ np.tril(factor).T), "numpy"),
]  # fmt: skip


def _regularised(a: Any, b: Any) -> Any:
    m, n = a.shape
    gram = a.mT @ a if m >= n else a @ a.mT
    gram = gram + gram.diagonal().mean() * 1e-4 * torch.eye(len(gram))
    return linalg.solve(gram, a.mT @ b) if m >= n else a.mT @ linalg.solve(gram, b)


def _normal(a: Any, b: Any) -> Any:
    """Return the solution by normal equations, right for well-conditioned matrices alone."""
    return linalg.solve(a.mT @ a, a.mT @ b) if len(a) >= a.shape[1] else a.mT @ linalg.solve(a @ a.mT, b)


def _ten_steps(a: Any, b: Any) -> Any:
    x = torch.zeros(a.shape[1], b.shape[1])
    step = 1.0 / linalg.matrix_norm(a, 2).square()
    for _ in range(10):
        x = x + step * (a.mT @ (b - a @ x))
    return x


def _any_solution(a: Any, b: Any) -> Any:
    """Return, of fewer rows than columns, a solution that is not the shortest."""
    m, n = a.shape
    x = least(a, b)
    if m < n:
        x = x + (torch.eye(n) - linalg.pinv(a) @ a)[:, :1] * x.abs().max()
    return x


def _without_last(a: Any, b: Any) -> Any:
    return least(a[:-1], b[:-1]) if len(a) > a.shape[1] + 1 else least(a, b)


def _short_newton(a: Any) -> Any:
    x = a.mT / (a.abs().sum(0).max() * a.abs().sum(1).max())
    for _ in range(5):
        x = 2 * x - x @ a @ x
    return x


def _cut(a: Any) -> Any:
    u, s, vh = linalg.svd(a, full_matrices=False)
    kept = torch.where(s > 0.1 * s.max(), 1 / s, 0.0)
    return vh.mT @ (kept[:, None] * u.mT)


def _not_inverted(a: Any) -> Any:
    u, s, vh = linalg.svd(a, full_matrices=False)
    return vh.mT @ (s[:, None] * u.mT)


def _blocks(a: Any, b: Any) -> Any:
    at = torch.arange(len(a)) // 8
    return triangular(torch.where(at[:, None] == at, a, 0.0), b)


WRONG: dict[str, tuple[Kernel, Kernel]] = {
    "right: from the left": (from_right, lambda a, b: linalg.solve(a, b.mT).mT.contiguous()),
    "right: transposed": (from_right, lambda a, b: linalg.solve(a.mT, b, left=False)),
    "right: in bf16": (from_right, lambda a, b: from_right(a.bfloat16().float(), b)),
    "right: last row of the first": (from_right, lambda a, b: from_right(a, torch.cat([b[:-1], b[:1]]))),
    "right: a step in bf16": (from_right, lambda a, b: from_right(a, b).bfloat16().float()),
    "right: of the lower triangle": (from_right, lambda a, b: linalg.solve(a.tril(), b, left=False)),
    "triangle: with the diagonal": (
        triangular, lambda a, b: linalg.solve_triangular(a + (a.diagonal() == 0).diag(), b, upper=True, left=False)),
    "triangle: the lower one": (
        triangular, lambda a, b: linalg.solve_triangular(a, b, upper=False, left=False, unitriangular=True)),
    "triangle: from the left": (
        triangular, lambda a, b: linalg.solve_triangular(a, b.mT, upper=True, unitriangular=True).mT.contiguous()),
    "triangle: one sweep": (triangular, lambda a, b: b - b @ a.triu(1)),
    "triangle: in bf16": (triangular, lambda a, b: triangular(a.bfloat16().float(), b)),
    "triangle: blocks of 8 alone": (triangular, _blocks),
    "factor: upper": (by_factor, lambda b, factor: torch.cholesky_solve(b, factor, upper=True)),
    "factor: one half": (by_factor, lambda b, factor: linalg.solve_triangular(factor, b, upper=False)),
    "factor: as the matrix": (by_factor, lambda b, factor: linalg.solve(factor, b)),
    "factor: halves exchanged": (by_factor, lambda b, factor: linalg.solve(factor.tril().mT @ factor.tril(), b)),
    "factor: in bf16": (by_factor, lambda b, factor: by_factor(b, factor.bfloat16().float())),
    "factor: not the triangle alone": (by_factor, lambda b, factor: linalg.solve(factor @ factor.mT, b)),
    "least: regularised": (least, _regularised),
    "least: normal equations": (least, _normal),
    "least: ten steps": (least, _ten_steps),
    "least: not the shortest": (least, _any_solution),
    "least: without the last row": (least, _without_last),
    "least: in bf16": (least, lambda a, b: least(a.bfloat16().float(), b)),
    "least: of the first right side": (least, lambda a, b: least(a, b[:, :1].expand_as(b).contiguous())),
    "pseudo: transposed": (pseudo, lambda a: a.mT / a.square().sum().clamp(min=1e-30)),
    "pseudo: short iteration": (pseudo, _short_newton),
    "pseudo: small values cut": (pseudo, _cut),
    "pseudo: in bf16": (pseudo, lambda a: pseudo(a.bfloat16().float())),
    "pseudo: regularised": (
        pseudo, lambda a: linalg.solve(a.mT @ a + 1e-3 * a.square().mean() * torch.eye(a.shape[1]), a.mT)),
    "pseudo: values not inverted": (pseudo, _not_inverted),
}  # fmt: skip


def _checked(kernel: Kernel, reference: Kernel, **given: Any) -> None:
    given = {"seed": 1, "max_cases": quarter(40), **given}
    fuzz.check(kernel, reference=reference, oracle="replay", shapes=SHAPES[reference], **given)


@pytest.mark.some(5)
@pytest.mark.parametrize(("reference", "kernel", "arrays"), RIGHT)
def test_right_solves_pass(reference: Kernel, kernel: Kernel, arrays: str) -> None:
    _checked(kernel, reference, arrays=arrays)


@pytest.mark.some(1)
@pytest.mark.parametrize("reference", [least, from_right, by_factor, pseudo])
def test_right_ones_pass_in_f64(reference: Kernel) -> None:
    _checked(reference, reference, capabilities=fuzz.Capabilities(dtypes=("f64",)))


@pytest.mark.some(5)
@pytest.mark.parametrize("name", WRONG)
def test_wrong_solves_are_found_and_the_residual_is_said(name: str) -> None:
    reference, kernel = WRONG[name]
    with pytest.raises(fuzz.CheckFailed, match=r"norm\("):
        _checked(kernel, reference)


def test_a_matrix_that_is_not_judged_may_make_a_kernel_raise() -> None:
    def by_normal_equations(a: Any, b: Any) -> Any:
        wide = a.double()
        if len(a) < a.shape[1]:
            return least(a, b)
        return linalg.solve(wide.mT @ wide, wide.mT @ b.double()).to(a.dtype)

    fuzz.check(by_normal_equations, reference=least, shapes=SHAPES[least], oracle="replay", max_cases=40, seed=3)
