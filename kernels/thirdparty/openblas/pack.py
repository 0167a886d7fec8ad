"""OpenBLAS's products of vectors and matrices, as Debian ships them for three architectures: `sh .ci/fetch openblas`.

BLAS says what each routine computes, and leaves open in which order it adds.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fuzz import AnyOrder, Capabilities, Contract, SharedKernel

__all__ = ["KERNELS"]

_FETCHED = Path(__file__).resolve().parent / "fetched"
_FREE = Contract(sums={"k": AnyOrder()}, zeros="any")
# BLAS asks for a leading dimension of at least 1 and a row: no matrix is empty, and no row is in another's place.
_MATRICES = Capabilities(empty=False)
_ROW_MAJOR, _AS_IT_IS = "101", "111"

_ROUTINES: dict[str, tuple[str, dict[str, str], dict[str, int]]] = {
    "gemm": (
        "void cblas_{t}gemm(int order, int transa, int transb, int m, int n, int k, {c} alpha, const {c} *a, int lda,"
        " const {c} *b, int ldb, {c} beta, {c} *out, int ldc)",
        {"order": _ROW_MAJOR, "transa": _AS_IT_IS, "transb": _AS_IT_IS, "alpha": "1", "beta": "0", "ldc": "c.stride"},
        {},
    ),
    "gemv": (
        "void cblas_{t}gemv(int order, int trans, int m, int k, {c} alpha, const {c} *a, int lda, const {c} *b,"
        " int incx, {c} beta, {c} *out, int incy)",
        {"order": _ROW_MAJOR, "trans": _AS_IT_IS, "alpha": "1", "beta": "0", "incx": "b.stride", "incy": "c.stride"},
        {"n": 1},
    ),
    # The rows of b have one element: from one to the next is the distance of the elements.
    "dot": (
        "{c} cblas_{t}dot(int k, const {c} *a, int incx, const {c} *b, int incy)",
        {"incx": "1", "incy": "b.stride"},
        {"m": 1, "n": 1},
    ),
}
_TYPES = {"s": ("float", "f32"), "d": ("double", "f64")}
_PLACES = {
    "x86_64": ("runtime", ("libquadmath.so.0", "libgfortran.so.5")), "aarch64": ("sve", ()), "riscv64": ("rvv", ()),
}  # fmt: skip


def _kernel(arch: str, routine: str, letter: str) -> SharedKernel:
    prototype, arguments, single = _ROUTINES[routine]
    word, dtype = _TYPES[letter]
    isa, before = _PLACES[arch]
    folder = _FETCHED / arch / "usr" / "lib" / f"{arch}-linux-gnu"
    return SharedKernel(
        f"openblas-{letter}{routine}-{arch}", "matmul", folder / "openblas-pthread" / "libopenblas.so.0",
        prototype.format(t=letter, c=word), arguments, isa=isa,
        contract=_FREE,
        capabilities=replace(
            _MATRICES, dtypes=(dtype,), max=single, multiple_of=single,
            strides="contiguous" if routine == "dot" else "spaced",
        ),
        before=tuple(folder / each for each in before), sysroot=_FETCHED / arch, keeps=("threads",),
        fetch="sh .ci/fetch openblas",
    )  # fmt: skip


KERNELS = tuple(_kernel(arch, routine, letter) for arch in _PLACES for routine in _ROUTINES for letter in _TYPES)
