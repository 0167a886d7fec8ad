"""Solves and factorisations are judged by their residuals, as LAPACK's own tests do.

A right kernel returns what is exact for a matrix that differs from the given one by rounding errors. How far its
elements are then off depends on the condition of the matrix, for which there is no bound by element. Factors may also
have other signs, or other vectors of a space. The residual is small in any case: its ratio to the rounding errors of
the matrix is below a threshold in LAPACK's tests (files in TESTING, and programs named below). It also has the factor n
of the proven bounds (Higham, Accuracy and Stability of Numerical Algorithms, theorems 8.5, 9.3, 10.3 and 19.4), which
dget02 and dtrt02 leave out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.references.alike import Arrays
from fuzz.references.guard import widened
from fuzz.references.tracing import arguments_of, intercepted
from oracles.doubledouble import F64, DoubleDouble
from oracles.dtypes import Format

LIMIT = 30.0
"""The largest ratio of a right result: the threshold in LAPACK's dtest.in, for programs that count in units of u."""
LIMITS = {"eigh": 2 * 170.0, "svd": 2 * 35.0}
"""Those of eigenvectors and singular vectors, whose programs count in units of 2 u. The threshold in svd.in is 35, in
sep.in 60, which says that right programs have reached 170: the driver xSYEVR makes vectors that are less orthogonal."""
_SAFE = 8.0
"""A matrix is judged if `_SAFE` n u times its condition is below 1. Beyond, a kernel may find it singular, or a matrix
not positive definite."""
_ROOM = 2.0**-20
"""Results of the reference up to this share of the largest number are judged: sums on the way to them are larger."""


@dataclass(frozen=True)
class Residual:
    """One ratio that LAPACK's tests limit."""

    words: str
    ratio: F64
    """The ratio of each matrix, or of each column of each."""


@dataclass(frozen=True)
class SolvedEquation:
    """A solve or factorisation whose parts are outputs of a reference."""

    kind: str
    parts: Sequence[int]
    """The numbers of the outputs that are its parts."""
    given: Sequence[F64]
    """The matrices, with leading axes for problems: A, and for a solve B."""
    right: Sequence[F64]
    """The reference's parts in float64."""
    how: Mapping[str, bool] = field(default_factory=dict)
    """Options by name: whether a factor is `upper`."""

    @property
    def limit(self) -> float:
        """The largest ratio of a right result."""
        return LIMITS.get(self.kind, LIMIT)

    def settled(self, form: Format) -> NDArray[np.bool_]:
        """Return the mask of matrices that are judged for kernels of a dtype."""
        a = self.given[0]
        known: NDArray[np.bool_] = np.asarray(np.isfinite(a).all((-1, -2)))
        for each in self.right:
            axes = tuple(range(len(a.shape) - 2, each.ndim))
            known &= (np.abs(np.where(np.isfinite(each), each, np.inf)) < form.limit * _ROOM).all(axes)
        if self.kind in _CONDITIONED:
            with np.errstate(all="ignore"):
                values = np.linalg.svd(np.where(known[..., None, None], a, 1.0), compute_uv=False)
                known &= values[..., -1] > values[..., 0] * (_SAFE * max(a.shape[-2:]) * form.u)
        return known

    def judged(self, form: Format, size: int) -> int:
        """Return the number of judged elements of a part with this many elements."""
        known = self.settled(form)
        return int(known.sum()) * (size // max(known.size, 1))

    def wrong(self, returned: Sequence[NDArray[Any]], form: Format) -> tuple[str, float]:
        """Return what is wrong with a kernel's parts, '' if nothing is, and the largest ratio in units of `limit`."""
        got, known, worst = [np.asarray(returned[at], np.float64) for at in self.parts], self.settled(form), 0.0
        most = self.limit
        with np.errstate(all="ignore"):
            if wrong := next((each for each in _shape_of(self.kind, self.how, got, known)), ""):
                return wrong, np.inf
            for each in _RESIDUALS[self.kind](*self.given, *got, form, **self.how):
                ratio = np.where(known.reshape(known.shape + (1,) * (each.ratio.ndim - known.ndim)), each.ratio, 0.0)
                ratio = np.where(np.isnan(ratio), np.inf, ratio)
                worst = max(worst, float(ratio.max(initial=0.0)))
                if worst > most:
                    count = f"{int((ratio > most).sum()):,} of {ratio.size:,}"
                    return f"{each.words} = {worst:.3g}, must be at most {most:g}; {count} are larger", worst / most
        return "", worst / most


def equations_of(reference: Callable[..., Any], arrays: Arrays) -> Sequence[SolvedEquation]:
    """Return the solves and factorisations of a reference, in float64, whose parts are all among its outputs."""
    made = list[tuple[str, Sequence[F64], Sequence[F64], Mapping[str, bool]]]()

    def noted(function: Any, args: Any, kwargs: Any) -> Any:
        found = function(*args, **kwargs)
        if (name := function._schema.name.partition("::")[2]) in _READ:
            given = arguments_of(function, args, kwargs)
            made.append(_READ[name](given, found if isinstance(found, tuple) else (found,)))
        return found

    def called(**tensors: Any) -> Any:
        with intercepted(noted):
            return reference(**tensors)

    outputs, equations = widened(called, arrays), list[SolvedEquation]()
    for kind, matrices, parts, how in made:
        at = [next((at for at, each in enumerate(outputs) if _same(each, part)), -1) for part in parts]
        if kind and -1 not in at:
            equations.append(SolvedEquation(kind, at, matrices, parts, how))
    return equations


def solves(operations: Iterable[Any]) -> bool:
    """Whether some operation of torch is a solve or a factorisation."""
    return any(each._schema.name.partition("::")[2] in _READ for each in operations)


def _same(one: NDArray[Any], other: F64) -> bool:
    return one.shape == other.shape and np.array_equal(one, other, equal_nan=True)


def _array(tensor: Any) -> F64:
    return np.asarray(tensor.detach().numpy().astype(np.float64))


_CONDITIONED = "solve", "inverse", "cholesky", "factor", "least", "pseudo"
"""The kinds of which a matrix that is singular but for rounding errors is not judged."""
_Read = tuple[str, Sequence[F64], Sequence[F64], Mapping[str, bool]]
_NOTHING: _Read = "", (), (), {}


def _solved(a: F64, given: Mapping[str, Any], b: Any, found: Sequence[Any], kind: str = "solve") -> _Read:
    right, x, left = _array(b), _array(found[0]), bool(given.get("left", True))
    if right.ndim >= a.ndim:
        a = np.broadcast_to(a, (*np.broadcast_shapes(a.shape[:-2], right.shape[:-2]), *a.shape[-2:]))
    elif not left:
        return _NOTHING
    return kind, (a, right) if left else (_turned(a), _turned(right)), (x,), {"left": left}


def _product(given: Mapping[str, Any], name: str) -> tuple[F64, F64]:
    """Return L L' of a factor that an operation reads of an argument, and |L| |L'|."""
    factor = _triangle({**given, "upper": given["upper"], "transpose": given["upper"]}, name)
    size = np.abs(factor)
    return factor @ _turned(factor), size @ _turned(size)


def _by_factor(given: Mapping[str, Any], found: Sequence[Any]) -> _Read:
    (a, size), right = _product(given, "input2"), _array(given["self"])
    shape = np.broadcast_shapes(a.shape[:-2], right.shape[:-2])
    a, size = (np.broadcast_to(each, (*shape, *each.shape[-2:])) for each in (a, size))
    return "factor", (a, right, size), (_array(found[0]),), {}


def _triangle(given: Mapping[str, Any], name: str) -> F64:
    """Return the triangular matrix that an operation reads of an argument."""
    a = _array(given[name])
    a = np.triu(a) if given["upper"] else np.tril(a)
    if given.get("unitriangular"):
        a = np.where(np.eye(a.shape[-1], dtype=bool), 1.0, a)
    return np.swapaxes(a, -1, -2) if given.get("transpose") else a


def _factored(kind: str, of: str, parts: Callable[[Sequence[Any]], Sequence[Any]]) -> Callable[..., _Read]:
    def read(given: Mapping[str, Any], found: Sequence[Any]) -> _Read:
        if given.get("mode") == "r" or not given.get("compute_v", True) or not given.get("compute_uv", True):
            return _NOTHING
        return kind, (_array(given[of]),), [*map(_array, parts(found))], {"upper": bool(given.get("upper"))}

    return read


_READ: Mapping[str, Callable[[Mapping[str, Any], Sequence[Any]], _Read]] = {
    "linalg_solve_triangular": lambda given, found: _solved(
        _triangle(given, "self"), given, given["B"], found, "triangular"),
    "triangular_solve": lambda given, found: _solved(_triangle(given, "A"), given, given["self"], found, "triangular"),
    "_linalg_solve_ex": lambda given, found: _solved(_array(given["A"]), given, given["B"], found),
    "cholesky_solve": _by_factor,
    "cholesky_inverse": lambda given, found: ("inverse", _product(given, "self")[:1], (_array(found[0]),), {}),
    "linalg_lstsq": lambda given, found: _solved(_array(given["self"]), given, given["b"], found, "least"),
    "linalg_pinv": lambda given, found: ("pseudo", (_array(given["self"]),), (_array(found[0]),), {}),
    "linalg_inv_ex": _factored("inverse", "A", lambda found: found[:1]),
    "linalg_cholesky_ex": _factored("cholesky", "self", lambda found: found[:1]),
    "cholesky": _factored("cholesky", "self", lambda found: found[:1]),
    "linalg_qr": _factored("qr", "A", lambda found: found[:2]),
    "_linalg_eigh": _factored("eigh", "A", lambda found: found[:2]),
    "_linalg_svd": _factored("svd", "A", lambda found: found[:3]),
}  # fmt: skip
"""What is read of each operation: the kind, the matrices, the parts of the result, and options."""


def _shape_of(kind: str, how: Mapping[str, bool], got: Sequence[F64], known: NDArray[np.bool_]) -> Iterator[str]:
    """Yield what is wrong with the form of a kernel's parts."""
    upper = {"cholesky": how.get("upper"), "qr": True}.get(kind)
    if upper is not None:
        factor = got[-1][known]
        if (np.tril(factor, -1) if upper else np.triu(factor, 1)).any():
            yield f"the {'upper' if upper else 'lower'} factor has elements on its other side, which must be 0"
    if kind == "cholesky" and not (np.diagonal(got[0][known], axis1=-2, axis2=-1) > 0.0).all():
        yield "the diagonal of the factor must be positive"
    if kind in ("eigh", "svd"):
        steps = np.diff(got[0 if kind == "eigh" else 1][known])
        if (steps < 0.0).any() if kind == "eigh" else (steps > 0.0).any():
            yield f"the {'eigenvalues must ascend' if kind == 'eigh' else 'singular values must descend'}"
    if kind == "svd" and (got[1][known] < 0.0).any():
        yield "no singular value may be negative"


def _norm(matrix: F64) -> F64:
    """Return the 1-norm of each matrix: its largest sum of a column's magnitudes."""
    return np.asarray(np.abs(matrix).sum(-2).max(-1, initial=0.0))


def _less(a: F64 | DoubleDouble, b: F64, minus: F64, form: Format) -> F64:
    """Return a b - minus, in float64, or for kernels of float64 in double-double."""
    if form.u > 2.0**-30:
        return np.asarray(np.asarray(a) @ b - minus)
    of = a if isinstance(a, DoubleDouble) else DoubleDouble(a)
    return ((of[..., :, :, None] * b[..., None, :, :]).sum(-2) - minus).high


def _scaled(a: F64, by: F64, form: Format) -> F64 | DoubleDouble:
    """Return a matrix with each column times a number."""
    return a * by[..., None, :] if form.u > 2.0**-30 else DoubleDouble(a) * by[..., None, :]


def _turned(matrix: F64) -> F64:
    return np.swapaxes(matrix, -1, -2)


def _over(residual: F64, n: int, size: Any, form: Format, reach: Any = 0.0) -> F64:
    """Return the ratio of a residual to n times the rounding errors of a size, with those of numbers near 0."""
    return np.asarray(residual / (max(n, 1) * (form.u * size + form.tiny * (1.0 + reach))))


def _of_solve(a: F64, b: F64, x: F64, form: Format, *, left: bool = True) -> Iterator[Residual]:
    b, x = (each[..., None] if each.ndim < a.ndim else each for each in (b, x if left else _turned(x)))
    own, norm = np.abs(_less(a, x, b, form)).sum(-2), _norm(a)[..., None]
    ratio = _over(own, a.shape[-1], norm * np.abs(x).sum(-2), form, norm)
    yield Residual("norm(A x - b) / (n u norm(A) norm(x))", ratio)  # dget02, dtrt02


def _of_factor(a: F64, b: F64, size: F64, x: F64, form: Format, **_: bool) -> Iterator[Residual]:
    own, norm = np.abs(_less(a, x, b, form)).sum(-2), _norm(size)[..., None]
    ratio = _over(own, a.shape[-1], norm * np.abs(x).sum(-2), form, norm)
    yield Residual("norm(L L' x - b) / (n u norm(|L| |L'|) norm(x))", ratio)  # dpot02


def _of_least(a: F64, b: F64, x: F64, form: Format, **_: bool) -> Iterator[Residual]:
    """Yield the least change of A, in its norm, that makes x a least solution, by the estimate of Karlson and Walden.
    It is near the optimum (Grcar, Saunders and Su, 2007; Higham, section 20.7). If A has more columns, x must also be a
    combination of its rows, but for what a change of A by rounding errors turns them."""
    b, x = (each[..., None] if each.ndim < a.ndim else each for each in (b, x))
    n, rest = max(a.shape[-2:]), _less(a, x, b, form)
    u, parts, rows = np.linalg.svd(np.where(np.isfinite(a), a, 0.0), full_matrices=False)
    top, size = parts[..., :1], np.linalg.norm(x, axis=-2)
    if a.shape[-2] < a.shape[-1]:
        yield Residual("norm(A x - b) / (n u norm(A) norm(x))",
                       _over(np.linalg.norm(rest, axis=-2), n, top * size, form, top))  # fmt: skip
        own = np.linalg.norm(x - _turned(rows) @ (rows @ x), axis=-2)
        condition = top / parts[..., -1:]
        yield Residual("norm(x - R R' x) / (n u cond(A) norm(x)), where R R' projects to the rows of A",
                       _over(own, n, condition * size, form, condition))  # fmt: skip
        return
    left = np.linalg.norm(rest, axis=-2)
    sizes = np.hypot(parts[..., :, None] * size[..., None, :], left[..., None, :])
    sizes += form.tiny / form.u * (1.0 + parts[..., :, None])  # smaller numbers may be flushed on the way
    own = np.linalg.norm(parts[..., :, None] * (_turned(u) @ rest) / sizes, axis=-2)
    yield Residual("the least change of A for which x is right / (n u norm(A))", _over(own, n, top, form))


def _of_pseudo(a: F64, x: F64, form: Format, **_: bool) -> Iterator[Residual]:
    n, size = max(a.shape[-2:]), _norm(a) * _norm(x)
    one, other, words = (x, a, "X A") if a.shape[-2] >= a.shape[-1] else (a, x, "A X")
    own = _norm(_less(one, other, np.eye(min(a.shape[-2:])), form))
    yield Residual(f"norm({words} - I) / (n u norm(A) norm(X))", _over(own, n, size, form, _norm(a)))
    whole = _less(other, one, np.zeros((n, n)), form)
    ratio = _over(_norm(whole - _turned(whole)), n, size, form, _norm(a))
    yield Residual(f"norm({words[::-1]} - ({words[::-1]})') / (n u norm(A) norm(X))", ratio)


def _of_inverse(a: F64, x: F64, form: Format, **_: bool) -> Iterator[Residual]:
    eye, size = np.eye(a.shape[-1]), _norm(a) * _norm(x)
    own = np.minimum(_norm(_less(a, x, eye, form)), _norm(_less(x, a, eye, form)))
    yield Residual("norm(A X - I) / (n u norm(A) norm(X))", _over(own, a.shape[-1], size, form, _norm(a)))  # dget03


def _of_cholesky(a: F64, factor: F64, form: Format, *, upper: bool) -> Iterator[Residual]:
    factor = _turned(factor) if upper else factor
    whole = np.tril(a) + _turned(np.tril(a, -1))
    own = _norm(_less(factor, _turned(factor), whole, form))
    yield Residual("norm(L L' - A) / (n u norm(A))", _over(own, a.shape[-1], _norm(whole), form))  # dpot01


def _of_qr(a: F64, q: F64, r: F64, form: Format, **_: bool) -> Iterator[Residual]:
    n = max(a.shape[-2:])
    yield _orthogonal("Q", q, n, form)
    yield Residual("norm(Q R - A) / (n u norm(A))", _over(_norm(_less(q, r, a, form)), n, _norm(a), form))  # dqrt01


def _of_eigh(a: F64, values: F64, vectors: F64, form: Format, **_: bool) -> Iterator[Residual]:
    n, whole = a.shape[-1], np.tril(a) + _turned(np.tril(a, -1))
    yield _orthogonal("V", vectors, n, form)
    own = _norm(_less(_scaled(vectors, values, form), _turned(vectors), whole, form))
    yield Residual("norm(V D V' - A) / (n u norm(A))", _over(own, n, _norm(whole), form))  # dsyt21


def _of_svd(a: F64, u: F64, values: F64, vh: F64, form: Format, **_: bool) -> Iterator[Residual]:
    n, k = max(a.shape[-2:]), values.shape[-1]
    yield _orthogonal("U", u, n, form)
    yield _orthogonal("V", _turned(vh), n, form)
    own = _norm(_less(_scaled(u[..., :k], values, form), vh[..., :k, :], a, form))
    yield Residual("norm(U S V' - A) / (n u norm(A))", _over(own, n, _norm(a), form))  # dbdt01


def _orthogonal(name: str, q: F64, n: int, form: Format) -> Residual:
    own = _norm(_less(_turned(q), q, np.eye(q.shape[-1]), form))
    return Residual(f"norm({name}' {name} - I) / (n u)", _over(own, n, 1.0, form))  # dort01


_RESIDUALS: Mapping[str, Callable[..., Iterator[Residual]]] = {
    "solve": _of_solve, "triangular": _of_solve, "factor": _of_factor, "least": _of_least, "pseudo": _of_pseudo,
    "inverse": _of_inverse, "cholesky": _of_cholesky, "qr": _of_qr,
    "eigh": _of_eigh, "svd": _of_svd,
}  # fmt: skip
