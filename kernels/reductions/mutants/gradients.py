"""Planted defects in gradients of reductions, modelled on documented bugs of such kernels."""

from __future__ import annotations

from fuzz import Mutant

__all__ = ["MUTANTS"]

_VALUE = ("FAIL_NUMERIC", "FAIL_NONFINITE")
_NATIVE, _TORCH = ("*@native:*-O2",), ("torch-*@cpu",)
_MAX, _VAR, _LOG = "row-max-backward-generic", "row-var-backward-generic", "logsumexp-backward-generic"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "row-sum-backward-of-first-row", "row-sum-backward-eager",
        (("dy.unsqueeze(axis).expand_as(x)", "dy.reshape(-1)[:1].reshape([1] * x.ndim).expand_as(x)"),),
        _TORCH, "several rows whose dy differ", _VALUE, "E095, W16: all rows have the gradient of the first",
    ),
    Mutant(
        "row-mean-backward-not-divided", "row-mean-backward-generic",
        (("dy / (float)r->n", "dy"),),
        _NATIVE, "n > 1", _VALUE, "the gradient of a sum",
    ),
    Mutant(
        "row-max-backward-ties-each", _MAX,
        (("dy / (float)count", "dy"),),
        _NATIVE, "equal greatest elements, of_ties = 0", _VALUE, "each of k equal elements has all of dy",
    ),
    Mutant(
        "row-max-backward-last-for-first", _MAX,
        (("if (count == 0) first = i;", "first = i;"),),
        _NATIVE, "equal greatest elements, of_ties = 1", _VALUE, "a comparison with <= in the place of <",
    ),
    Mutant(
        "row-max-backward-halves", _MAX,
        (("dy / (float)count", "dy / (count > 1 ? 2.0f : 1.0f)"),),
        _NATIVE, "three or more equal greatest elements, of_ties = 0", _VALUE, "pairs of equal elements have halves",
    ),
    Mutant(
        "row-max-backward-nan-lost", _MAX,
        (("isnan(greatest) ? NAN : ", ""),),
        _NATIVE, "a NaN in a row", ("FAIL_NONFINITE", "FAIL_NUMERIC"), "no element equals a NaN: all have 0",
    ),
    Mutant(
        "row-max-backward-of-magnitude", "row-max-backward-eager",
        (("counts = x == most\n", "counts = x.abs() == most.abs()\n"),),
        _TORCH, "an element that is the greatest one negated", _VALUE, "the gradient of the largest magnitude",
    ),
    Mutant(
        "row-var-backward-correction-ignored", _VAR,
        (("((float)r->n - correction)", "((float)r->n - 0 * correction)"),),
        _NATIVE, "correction = 1", _VALUE, "the variance of a population for that of a sample",
    ),
    Mutant(
        "row-var-backward-without-mean", _VAR,
        (("(load(x, at(r, x, i)) - mean)", "(load(x, at(r, x, i)) - mean * (r->n < 64))"),),
        _NATIVE, "n >= 64 and a mean that is not 0", _VALUE, "E137: the mean is not taken off of long rows",
    ),
    Mutant(
        "logsumexp-backward-without-greatest", _LOG,
        (("- greatest);", "- 0 * greatest);"), ("return logf(mass) + greatest;", "return logf(mass);")),
        _NATIVE, "no y, and elements whose exponentials overflow or vanish", _VALUE, "exponentials of what is large",
    ),
    Mutant(
        "logsumexp-backward-y-ignored", _LOG,
        (("is_present(y) ? load(y, at_row(&r, y)) : logarithm_of(x, &r)", "logarithm_of(x, &r)"),),
        _NATIVE, "a y that is not quite the logarithm", _VALUE, "y is formed again in the place of the one given",
    ),
    Mutant(
        "torch-logsumexp-backward-base-2", "logsumexp-backward-eager",
        (("known = y.float()", "known = y.float() * 0.6931471805599453"),),
        _TORCH, "y, and not 0", _VALUE, "E035: y is taken for a logarithm to the base 2",
    ),
)  # fmt: skip
