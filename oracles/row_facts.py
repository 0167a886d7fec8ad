"""Facts about a row and the terms of its budget, in words, for explanations. From the precise tier."""

from __future__ import annotations

import mpmath
from mpmath import mpf

from oracles.breakdown import digits
from oracles.budget import CONFIDENCE, RowBudget, Term
from oracles.precise import RowBounds


def row_terms(output: str, row: RowBounds, budget: RowBudget, value: mpf) -> tuple[Term, ...]:
    """Terms that rstd brings into an output proportional to it, to first order, in units of the output.

    The square root halves relative errors of its argument, and of those of the mean only its share in mean + eps
    counts.
    """
    mean = row.total / mpf(budget.count)
    size = abs(value)
    if not mpmath.isfinite(value) or not mean or row.dead or row.pole:
        return ()
    share = mean / (mean + mpf(budget.eps))
    weight = {"sum": share / 2, "mean": share / 2, "add eps": mpf(1) / 2, "rsqrt": mpf(1)}
    prefix = {"sum": "share/2 * ", "mean": "share/2 * ", "add eps": "1/2 * ", "rsqrt": ""}
    terms = tuple(
        Term(term.name, f"|{output}| {prefix[term.name]}({term.formula})", float(size * weight[term.name] * term.value))
        for term in budget.terms
    )
    k = row.underflowing
    lost = mpf(budget.quantum) * (k / mpf(budget.count) + 1) / (mean + mpf(budget.eps)) / 2
    formula = f"|{output}| quantum (k/n + 1) / (2 (mean + eps)), quantum = {budget.quantum:g}, k = {k}"
    return (*terms, Term("underflow", formula, float(size * lost)))


def row_facts(row: RowBounds, budget: RowBudget, length: int, eps: float) -> tuple[tuple[str, str], ...]:
    """Name and text of what decides a row's interval."""
    overflow = "must overflow" if row.dead else "may overflow" if row.zero else "no"
    return (
        ("row length n", str(length)),
        ("mean square, exact", digits(row.total / length)),
        ("eps", f"{budget.eps!r} (given {eps!r})"),
        ("rstd, exact", digits(row.root.centre)),
        ("chain h", str(budget.chain)),
        ("budget of the sum", f"statistical, lambda = {CONFIDENCE:g}" if budget.statistical else "worst case"),
        ("accumulator", f"{budget.form.name}, u = 2^-{budget.form.precision}"),
        ("sum overflows", overflow),
        ("squares that underflow", str(row.underflowing)),
    )
