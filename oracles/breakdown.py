"""The full explanation of one judgement: exact value, conformance set, the terms of the budget, facts about the row."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

import mpmath
from mpmath import mpf

from oracles.budget import Term
from oracles.dtypes import Format
from oracles.precise import Bounds, conforms
from oracles.rounding import bits

DIGITS = 30
"""The significant digits of a printed exact value."""


@dataclass(frozen=True)
class ShownNumber:
    """A value of the output's dtype, in decimal and as bits."""

    value: float
    bits: str
    """The bits in hex; "" for an integer."""

    def __str__(self) -> str:
        return f"{self.value!r} ({self.bits})" if self.bits else f"{self.value:.0f}"


@dataclass(frozen=True)
class Breakdown:
    """The reasons for the judgement of one element: text that is ready to print, and numbers of the output's dtype."""

    output: str
    index: tuple[int, ...]
    """The index of the element in the output as the kernel returned it."""
    passes: bool
    exact: str
    """The exact value, to `DIGITS` digits, of the formula with only the roundings that the contract prescribes."""
    low: ShownNumber
    high: ShownNumber
    """`low` and `high` are the ends of the conformance set, signed."""
    got: ShownNumber
    expected: ShownNumber
    """The exact value rounded once."""
    ulp: float
    """The difference (got - exact) in units of the spacing of the output's dtype at the exact value; in units of 1 for
    integers."""
    ratio: float
    """The err/budget of the element: above 1 it fails."""
    terms: tuple[Term, ...]
    """The terms of the budget to first order, in units of the output."""
    facts: tuple[tuple[str, str], ...]
    """Facts about the row, such as its mean: pairs of name and text."""
    given: tuple[tuple[str, str], ...]
    """The operands from which the element was calculated: pairs of name and text."""
    remarks: tuple[str, ...] = ()
    """Special rules that apply to the element: NaN required, may be zero, ..."""
    may_be_nan: bool = False
    """Whether NaN conforms."""


def breakdown(
    output: str,
    index: tuple[int, ...],
    bounds: Bounds,
    got: float | None,
    terms: tuple[Term, ...],
    facts: tuple[tuple[str, str], ...],
    given: tuple[tuple[str, str], ...],
) -> Breakdown:
    """Return the explanation of the judgement of `got`; None explains that of the expected value. `bounds` are the
    result of `stable`, so that they hold at any working precision of mpmath."""
    form = bounds.form
    low, high, expected = (_signed(each, bounds.sign) for each in (*bounds.ends, bounds.rounded(bounds.centre)))
    got = expected if got is None else got
    ok = conforms(bounds, got)
    said = partial(_number, form=form, integer=bounds.integer)
    return Breakdown(
        output,
        index,
        ok,
        digits(bounds.centre) if bounds.centre else str(_signed(0.0, bounds.sign)),
        said(low),
        said(high),
        said(got),
        said(expected),
        float(mpf(got) - bounds.centre) if bounds.integer else _ulps(bounds.centre, got, form),
        err_over_budget(bounds, got, ok),
        terms if bounds.integer else (*terms, _rounding(bounds, got)),
        facts,
        given,
        bounds.remarks,
        bounds.may_be_nan,
    )


def _rounding(bounds: Bounds, got: float) -> Term:
    words = f"half a cell of {bounds.form.name} at got, taken off the error first"
    return Term("rounding", words, float(_half_cell(bounds, got)))


def _signed(value: float, sign: int) -> float:
    """Return the value. A zero gets the sign that the contract requires: mpmath's zero has no sign, but -0.0 and +0.0
    differ in outputs."""
    return value or math.copysign(0.0, sign) if sign else value


def digits(value: mpf) -> str:
    """Return `value` to `DIGITS` significant digits."""
    return str(mpmath.nstr(value, DIGITS))


def err_over_budget(bounds: Bounds, got: float, ok: bool) -> float:
    """Return the err/budget of `oracles.enclosure.err_over_budget`, in mpmath: at most 1 if `ok`, else above 1."""
    if not mpmath.isfinite(got) or not mpmath.isfinite(bounds.centre):
        return 0.0 if ok else float("inf")
    if ok and bounds.beside is not None and not conforms(replace(bounds, beside=None), got):
        return err_over_budget(bounds.beside, got, ok)
    if ok and ((bounds.zero and got == 0) or bounds.ends == (got, got)):
        return 0.0
    error = mpf(got) - bounds.centre
    width = bounds.centre - bounds.low if error < 0 else bounds.high - bounds.centre
    strayed = abs(error) - _half_cell(bounds, got)
    ratio = 0.0 if strayed <= 0 else float(strayed / width) if width > 0 else float("inf")
    return min(ratio, 1.0) if ok else max(ratio, 1.0 + 2.0**-52)


def _half_cell(bounds: Bounds, got: float) -> mpf:
    """Return half the distance from `got` to its neighbour in the direction of the exact value."""
    form = bounds.form
    if not mpmath.isfinite(got) or not mpmath.isfinite(bounds.centre):
        return mpf(0)
    value = mpf(got)
    upward = value < bounds.centre
    fraction, exponent = mpmath.frexp(value)
    smallest = form.emin - form.precision + 1
    # frexp returns the exponent 0 for 0, which would give 0 the cell of a number near 1.
    quantum = max(int(exponent) - form.precision, smallest) if value else smallest
    inward = upward == (value < 0)
    if inward and abs(fraction) == 0.5 and exponent > form.emin + 1:
        quantum -= 1
    return mpmath.ldexp(1, quantum - 1)


def _ulps(exact: mpf, got: float, form: Format) -> float:
    if not mpmath.isfinite(got) or not mpmath.isfinite(exact):
        return 0.0 if got == exact or (got != got and exact != exact) else float("inf")
    _, exponent = mpmath.frexp(exact)
    smallest = form.emin - form.precision + 1
    quantum = max(int(exponent) - form.precision, smallest) if exact else smallest
    return float((mpf(got) - exact) / mpmath.ldexp(1, quantum))


def _number(value: float, form: Format, integer: bool) -> ShownNumber:
    """Return the value as a number of the format. In a format without infinity an infinite value becomes NaN."""
    value = value if form.infinities or math.isfinite(value) else math.nan
    return ShownNumber(value, "" if integer else bits(value, form))
