"""Solves and factorisations are judged by residuals, as in LAPACK's tests."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

import fuzz
from oracles.tests.common.whole import quarter

Kernel = Callable[..., Any]
linalg = torch.linalg


def triangular(a: Any, b: Any) -> Any:
    return linalg.solve_triangular(a, b, upper=False)


def solve(a: Any, b: Any) -> Any:
    return linalg.solve(a, b)


def cholesky(a: Any) -> Any:
    return linalg.cholesky(a)


def of_gram(a: Any) -> Any:
    return linalg.cholesky(a @ a.mT + torch.eye(len(a), dtype=a.dtype) * a.square().sum().clamp(min=1e-3))


def qr(a: Any) -> Any:
    return linalg.qr(a)


def inverse(a: Any) -> Any:
    return linalg.inv(a)


def eigh(a: Any) -> Any:
    return linalg.eigh(a)


def svd(a: Any) -> Any:
    return linalg.svd(a, full_matrices=False)


SHAPES = {
    triangular: "a=n n, b=n k", solve: "a=c n n, b=c n k", cholesky: "a=n n", of_gram: "a=n m", qr: "a=m n",
    inverse: "a=n n", eigh: "a=n n", svd: "a=m n",
}  # fmt: skip


def _by_rows(a: Any, b: Any) -> Any:
    x = np.zeros_like(b)
    with np.errstate(all="ignore"):
        for i in range(len(a)):
            x[i] = (b[i] - a[i, :i] @ x[:i]) / a[i, i]
    return x


def _bordered(a: Any) -> Any:
    found = np.zeros_like(a)
    for j in range(len(a)):
        found[j, j] = np.sqrt(a[j, j] - found[j, :j] @ found[j, :j])
        found[j + 1 :, j] = (a[j + 1 :, j] - found[j + 1 :, :j] @ found[j, :j]) / found[j, j]
    return found


def _reflected(a: Any) -> Any:
    m, n = a.shape
    r, q = a.copy(), np.eye(m, dtype=a.dtype)
    for j in range(min(m, n)):
        v = r[j:, j].copy()
        size = np.abs(v).max(initial=0.0)
        if size == 0.0:
            continue
        v /= size
        v[0] += np.copysign(np.sqrt((v * v).sum()), v[0])
        v /= np.sqrt((v * v).sum())
        r[j:] -= 2 * np.outer(v, v @ r[j:])
        q[:, j:] -= 2 * np.outer(q[:, j:] @ v, v)
    k = min(m, n)
    return q[:, :k], np.triu(r[:k])


def _by_newton(a: Any) -> Any:
    wide = a.double()
    x = wide.mT / (wide.abs().sum(0).max() * wide.abs().sum(1).max())
    for _ in range(60):
        x = x @ (2 * torch.eye(len(a), dtype=wide.dtype) - wide @ x)
    return x.to(a.dtype)


def _of_other_sign(a: Any) -> Any:
    values, vectors = eigh(a)
    return values, -vectors


RIGHT: list[tuple[Kernel, Kernel, str]] = [
    (triangular, triangular, "torch"), (triangular, _by_rows, "numpy"),
    (triangular, lambda a, b: torch.triangular_solve(b, a, upper=False)[0], "torch"),
    (solve, solve, "torch"), (solve, np.linalg.solve, "numpy"),
    (solve, lambda a, b: linalg.lu_solve(*linalg.lu_factor(a), b), "torch"),
    (cholesky, cholesky, "torch"), (cholesky, np.linalg.cholesky, "numpy"), (cholesky, _bordered, "numpy"),
    (of_gram, of_gram, "torch"),
    (qr, qr, "torch"), (qr, np.linalg.qr, "numpy"), (qr, _reflected, "numpy"),
    (inverse, inverse, "torch"), (inverse, np.linalg.inv, "numpy"), (inverse, _by_newton, "torch"),
    (eigh, eigh, "torch"), (eigh, np.linalg.eigh, "numpy"),
    (eigh, _of_other_sign, "torch"),
    (svd, svd, "torch"), (svd, lambda a: np.linalg.svd(a, full_matrices=False), "numpy"),
]  # fmt: skip


def _unpivoted(a: Any, b: Any) -> Any:
    lu, x = a.clone(), b.clone()
    n = a.shape[-1]
    for k in range(n):
        factor = lu[..., k + 1 :, k : k + 1] / lu[..., k : k + 1, k : k + 1]
        lu[..., k + 1 :, k:] -= factor * lu[..., k : k + 1, k:]
        x[..., k + 1 :, :] -= factor * x[..., k : k + 1, :]
    return linalg.solve_triangular(lu, x, upper=True)


def _schmidt(a: Any) -> Any:
    k = min(a.shape)
    q, r = torch.zeros(a.shape[0], k, dtype=a.dtype), torch.zeros(k, a.shape[1], dtype=a.dtype)
    for j in range(a.shape[1]):
        at = min(j, k)
        r[:at, j] = q[:, :at].mT @ a[:, j]
        rest = a[:, j] - q[:, :at] @ r[:at, j]
        if j < k:
            r[j, j] = rest.norm()
            q[:, j] = rest / r[j, j] if r[j, j] > 0 else 0
    return q, r


def _unfinished(a: Any) -> Any:
    x = a.mT / (a.abs().sum(0).max() * a.abs().sum(1).max())
    for _ in range(6):
        x = x @ (2 * torch.eye(len(a)) - a @ x)
    return x


def _missing_one(a: Any, b: Any) -> Any:
    a = a.clone()
    if len(a) > 8:
        a[8, 0] = 0.0
    return triangular(a, b)


def _dirty(a: Any) -> Any:
    return cholesky(a) + torch.triu(a, 1)


def _of_squares(a: Any) -> Any:
    """Return singular values as roots of the eigenvalues of a' a, which loses the small ones."""
    u, s, vh = svd(a)
    values = linalg.eigvalsh(a.mT @ a if a.shape[0] >= a.shape[1] else a @ a.mT).clamp(min=0.0).sqrt().flip(-1)
    return u, values.to(s.dtype), vh


def _ascending(a: Any) -> Any:
    u, s, vh = svd(a)
    return u.flip(-1), s.flip(-1), vh.flip(-2)


def _negative(a: Any) -> Any:
    u, s, vh = svd(a)
    return -u, -s, vh


WRONG: dict[str, tuple[Kernel, Kernel, str]] = {
    "other triangle": (triangular, lambda a, b: linalg.solve_triangular(a, b, upper=True), "norm"),
    "takes the diagonal for 1": (
        triangular, lambda a, b: linalg.solve_triangular(a, b, upper=False, unitriangular=True), "norm"),
    "leaves out an element": (triangular, _missing_one, "norm"),
    "factor in bf16": (triangular, lambda a, b: triangular(a.bfloat16().float(), b), "norm"),
    "without pivots": (solve, _unpivoted, "norm"),
    "of the transpose": (solve, lambda a, b: linalg.solve(a.mT, b), "norm"),
    "last problem from the first": (solve, lambda a, b: linalg.solve(a[:1].expand_as(a), b), "norm"),
    "other side not zero": (cholesky, _dirty, "must be 0"),
    "upper factor": (cholesky, lambda a: linalg.cholesky(a, upper=True), "must be 0"),
    "negative diagonal": (cholesky, lambda a: -cholesky(a), "positive"),
    "with jitter": (cholesky, lambda a: cholesky(a + a.diagonal().diag() * 1e-3), "norm"),
    "input in bf16": (of_gram, lambda a: of_gram(a.bfloat16().float()), "norm"),
    "by Gram and Schmidt": (qr, _schmidt, "Q' Q"),
    "lower half of r not zero": (qr, lambda a: (qr(a)[0], qr(a)[0].mT @ a + 1e-30), "must be 0"),
    "iteration too short": (inverse, _unfinished, "norm"),
    "transposed inverse": (inverse, lambda a: inverse(a).mT.contiguous(), "norm"),
    "descending": (eigh, lambda a: tuple(each.flip(-1) for each in eigh(a)), "ascend"),
    "vectors as rows": (eigh, lambda a: (eigh(a)[0], eigh(a)[1].mT.contiguous()), "norm"),
    "vectors not normed": (eigh, lambda a: (eigh(a)[0], eigh(a)[1] * 1.001), "V' V"),
    "ascending values": (svd, _ascending, "descend"),
    "negative value": (svd, _negative, "negative"),
    "from squares": (svd, _of_squares, "norm"),
}  # fmt: skip


def _checked(kernel: Kernel, reference: Kernel, **given: Any) -> None:
    given = {"seed": 1, "max_cases": quarter(40), **given}
    fuzz.check(kernel, reference=reference, oracle="replay", shapes=SHAPES[reference], **given)


@pytest.mark.some(2)
@pytest.mark.parametrize(("reference", "kernel", "arrays"), RIGHT)
def test_right_kernels_pass_whatever_the_condition(reference: Kernel, kernel: Kernel, arrays: str) -> None:
    _checked(kernel, reference, arrays=arrays)


@pytest.mark.some(1)
@pytest.mark.parametrize("reference", [solve, qr, inverse, eigh])
def test_right_ones_pass_in_f64_where_residuals_are_twice_as_long(reference: Kernel) -> None:
    _checked(reference, reference, capabilities=fuzz.Capabilities(dtypes=("f64",)))


def test_f32_is_found_where_f64_is_meant() -> None:
    with pytest.raises(fuzz.CheckFailed, match="norm"):
        _checked(
            lambda a, b: solve(a.float(), b.float()).double(), solve, capabilities=fuzz.Capabilities(dtypes=("f64",))
        )


@pytest.mark.some(2)
@pytest.mark.parametrize("name", WRONG)
def test_wrong_ones_are_found_and_the_ratio_is_said(name: str) -> None:
    reference, kernel, words = WRONG[name]
    with pytest.raises(fuzz.CheckFailed, match=words):
        _checked(kernel, reference)


def test_eigenvectors_may_be_as_far_from_orthogonal_as_lapacks_own() -> None:
    def longer(by: float) -> Kernel:
        def kernel(a: Any) -> Any:
            values, vectors = np.linalg.eigh(a.astype(np.float64))
            return values.astype(a.dtype), (vectors * (1 + by / 2 * len(a) * 2.0**-24)).astype(a.dtype)

        return kernel

    check = partial(fuzz.check, reference=eigh, shapes="a=n n", oracle="replay", arrays="numpy", max_cases=8, seed=1)
    check(longer(100.0))  # the default of SciPy has 46 and more in random matrices
    with pytest.raises(fuzz.CheckFailed, match=r"norm\(V' V - I\) / \(n u\) = \d+, must be at most 340"):
        check(longer(500.0))
