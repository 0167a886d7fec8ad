"""Planted defects in reductions of rows, modelled on documented bugs of such kernels."""

from __future__ import annotations

from fuzz import Mutant

__all__ = ["MUTANTS"]

_VALUE = ("FAIL_NUMERIC", "FAIL_NONFINITE")
_NATIVE = ("*@native:*-O2",)
_INTERPRETED = ("triton-*@interpret",)

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "row-sum-last-of-many-lost", "row-sum-generic",
        (("return sum_of(x, r);", "row most = *r;\nmost.n -= most.n > 1024;\nreturn sum_of(x, &most);"),),
        _NATIVE, "n > 1024", _VALUE, "the last element of a long row left out",
    ),
    Mutant(
        "row-var-one-pass", "row-var-generic",
        (("load(x, at(r, x, i)) - mean;", "load(x, at(r, x, i));"),
         ("return squares /", "return (squares - (float)r->n * mean * mean) /")),
        _NATIVE, "a mean that is large beside the spread", _VALUE,
        "E136: the mean's square is taken off a sum of squares",
    ),
    Mutant(
        "row-var-correction-ignored", "row-var-generic",
        (("((float)r->n - given)", "((float)r->n)"),),
        _NATIVE, "correction = 1", _VALUE, "the variance of a population for that of a sample",
    ),
    Mutant(
        "logsumexp-without-maximum", "logsumexp-generic",
        (("load(x, at(r, x, i)) - greatest)", "load(x, at(r, x, i)))"), ("logf(mass) + greatest", "logf(mass)")),
        _NATIVE, "an element beyond 88, or none above -87", _VALUE, "exponentials that overflow, or all underflow",
    ),
    Mutant(
        "triton-row-max-nan-lost", "row-max-whole-row",
        (("        y = _greatest(x)\n", "        y = tl.max(x, axis=0, keep_dims=True)\n"),),
        _INTERPRETED, "a NaN in a row", ("FAIL_NONFINITE",), "E130: a maximum passes over NaN",
    ),
    Mutant(
        "triton-row-max-begins-at-zero", "row-max-whole-row",
        (('float("-inf") if KIND == "max" or KIND == "logsumexp" else 0.0', '0.0'),),
        _INTERPRETED, "n no power of two, all elements negative", _VALUE, "E133: lanes beyond the row are zeros",
    ),
    Mutant(
        "triton-row-mean-over-lanes", "row-mean-whole-row",
        (("y = tl.div_rn(y, tl.zeros([1], tl.float32) + n)", "y = tl.div_rn(y, tl.zeros([1], tl.float32) + BLOCK)"),),
        _INTERPRETED, "n no power of two", _VALUE, "a mean over all lanes of the registers",
    ),
    Mutant(
        "torch-row-sum-in-16-bits", "row-sum-eager",
        (("y.copy_(x.float().sum(axis))", "y.copy_(x.sum(axis))"),),
        ("torch-*@cpu",), "16 bits, y of f32", _VALUE, "E098: the sum is rounded to 16 bits",
    ),
)  # fmt: skip
