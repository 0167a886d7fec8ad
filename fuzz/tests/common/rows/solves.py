"""Norms and solves: triangular systems, factorisations, inverses, least squares."""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import numpy as np
import torch

import fuzz
from fuzz.tests.common.rows.table import right, wrong


def lower(a, b):
    return torch.linalg.solve_triangular(a, b, upper=False)


def root(a):
    return torch.linalg.cholesky(a)


def factors(a):
    return torch.linalg.qr(a)


def inverse(a):
    return torch.linalg.inv(a)


def solution(a, b):
    return torch.linalg.solve(a, b)


def eigen(a):
    return torch.linalg.eigh(a)


def fitted(a, b):
    return torch.linalg.lstsq(a, b, driver="gelsd").solution


def size(x):
    return torch.linalg.vector_norm(x, dim=-1)


def _of(reference, shapes, oracle="replay", **more):
    def checks(kernel, seed):
        fuzz.check(kernel, reference=reference, shapes=shapes, oracle=oracle, seed=seed, **more)

    return checks


checks_lower = _of(lower, "a=n n, b=n k")
checks_root = _of(root, "a=n n")
checks_factors = _of(factors, "a=m n")
checks_inverse = _of(inverse, "a=n n")
checks_solution = _of(solution, "a=n n, b=n k")
checks_fitted = _of(fitted, "a=m n, b=m k")


@right(checks_lower)
def lower_by_rows(a, b):
    x = b.copy()
    for i in range(len(a)):
        x[i] = (b[i] - a[i, :i] @ x[:i]) / a[i, i]
    return x


@right(checks_root)
def root_by_columns(a):
    l = np.zeros_like(a)  # noqa: E741
    for j in range(len(a)):
        l[j, j] = np.sqrt(a[j, j] - l[j, :j] @ l[j, :j])
        l[j + 1 :, j] = (a[j + 1 :, j] - l[j + 1 :, :j] @ l[j, :j]) / l[j, j]
    return l


def _reflected(a, scaled):
    m, n = a.shape
    r, q = a.clone(), torch.eye(m, dtype=a.dtype)
    for j in range(min(m - 1, n)):
        top = r[j:, j].abs().max()
        if top == 0:
            continue
        v = r[j:, j] / top if scaled else r[j:, j].clone()
        v[0] += torch.copysign(v.norm(), v[0])
        v /= v.norm()
        r[j:] -= 2 * torch.outer(v, v @ r[j:])
        q[:, j:] -= 2 * torch.outer(q[:, j:] @ v, v)
    k = min(m, n)
    return q[:, :k], r[:k].triu()


@right(checks_factors)
def factors_by_reflections(a):
    return _reflected(a, scaled=True)


@wrong("the squares of what is left of a column that depends on others are below the least number", checks_factors)
def factors_by_tiny_reflections(a):
    return _reflected(a, scaled=False)


@right(_of(size, "x=b n", "formula", values="any"))
def size_by_scale(x):
    with np.errstate(all="ignore"):
        top = np.abs(x).max(-1, keepdims=True)
        by = np.where((top > 0) & np.isfinite(top), top, np.float32(1))
        return (by * np.sqrt(((x / by) ** 2).sum(-1, keepdims=True)))[..., 0]


@wrong("takes the diagonal to be 1", checks_lower)
def lower_with_unit_diagonal(a, b):
    return torch.linalg.solve_triangular(a, b, upper=False, unitriangular=True)


@wrong("the update of a block leaves the columns of the block before the last out", checks_root)
def root_by_blocks(a):
    l, n, w = torch.zeros_like(a), len(a), 4  # noqa: E741
    for j in range(0, n, w):
        e = min(j + w, n)
        known = l[:, max(j - w, 0) : j]
        own = a[j:, j:e] - known[j:] @ known[j:e].T
        top = torch.linalg.cholesky_ex(own[: e - j]).L
        l[j:e, j:e] = top
        l[e:, j:e] = torch.linalg.solve_triangular(top, own[e - j :].T, upper=False).T
    return l


@wrong("classical Gram and Schmidt, whose columns are not orthogonal", checks_factors)
def factors_by_projections(a):
    m, n = a.shape
    k = min(m, n)
    q, r = torch.zeros(m, k), torch.zeros(k, n)
    for j in range(k):
        r[:j, j] = q[:, :j].T @ a[:, j]
        v = a[:, j] - q[:, :j] @ r[:j, j]
        r[j, j] = v.norm()
        q[:, j] = v / r[j, j]
    r[:, k:] = q.T @ a[:, k:]
    return q, r


@wrong("eight steps of Newton, whatever the condition", checks_inverse)
def inverse_by_newton(a):
    x = a.T / (a.abs().sum(0).max() * a.abs().sum(1).max())
    for _ in range(8):
        x = 2 * x - x @ a @ x
    return x


@wrong("eliminates without exchanging rows", checks_solution)
def solution_without_pivots(a, b):
    a, x = a.copy(), b.copy()
    n = len(a)
    with np.errstate(all="ignore"):
        for j in range(n):
            f = a[j + 1 :, j] / a[j, j]
            a[j + 1 :] -= np.outer(f, a[j])
            x[j + 1 :] -= np.outer(f, x[j])
        for i in range(n - 1, -1, -1):
            x[i] = (x[i] - a[i, i + 1 :] @ x[i + 1 :]) / a[i, i]
    return x


@wrong("vectors are rows", _of(eigen, "a=n n"))
def eigen_by_rows(a):
    values, vectors = np.linalg.eigh(a)
    return values, np.ascontiguousarray(vectors.T)


@wrong("normal equations, which square the condition", checks_fitted)
def fitted_by_normal_equations(a, b):
    if a.shape[0] >= a.shape[1]:
        return torch.linalg.solve(a.T @ a, a.T @ b)
    return a.T @ torch.linalg.solve(a @ a.T, b)
