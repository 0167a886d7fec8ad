"""Budgets of a sum of squares and of the reciprocal root formed from it: how far correct implementations may stray.

Every number here is a float taken as exact by definition. Both tiers read these numbers and nothing else in common
about tolerances, so what they check of each other is all the arithmetic that follows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from oracles.dtypes import Format, form
from oracles.lazy import lazy
from oracles.numerics import Numerics, NumericsError, Summation
from oracles.rounding import round_to

Number = Any
"""A float, a float64 array or an mpmath number."""

CONFIDENCE = 6.0
"""The lambda of the statistical budget lambda sqrt(h) u.

Confidence: with mean-independent rounding errors bounded by u, a sum leaves it with probability at most
2 exp(-lambda^2 / 2), 3e-8 a row (Connolly, Higham and Mary 2021, theorem 4.8; Higham and Mary 2019). Measured
(`kernelfuzz calibrate --runs 1000000 --seed 7`): 1,000,080 rows, no false alarm; the largest constant that
any sum with a statistical budget needed was 1.28.
"""

RANDOM_LIMIT = 2.0**-5
"""The largest h*u for which rounding errors count as random.

Beyond it, terms fall below the last bits of the partial sum (a bf16 or f16 sum stalls), the errors all have one sign,
and only the worst case is sound.
"""


@dataclass(frozen=True)
class Term:
    """One term of a budget."""

    name: str
    formula: str
    value: float
    """The value is relative in a `RowBudget`, and in units of the output in an explanation."""


@dataclass(frozen=True)
class RowBudget:
    """What the declaration allows between exact sum of squares S and reciprocal root, for rows of one length.

    S' in [(S - a)(1 - sum_down), (S + a)(1 + sum_up)], a = quantum * (number of squares that underflow)
    M in [S'/count (1 - mean) - quantum, S'/count (1 + mean) + quantum]
    V in [(M + eps)(1 - add), (M + eps)(1 + add)]
    rstd in [(1 - root) / sqrt(V), (1 + root) / sqrt(V)]
    """

    form: Format
    """The format of the accumulator."""
    count: float
    """The row length as the accumulator holds it."""
    eps: float
    """The eps that is added: rounded to the accumulator, and to the input's dtype first where the contract says so."""
    quantum: float
    """The absolute error of an operation that underflows; 0 where the sum's range is exact."""
    exact_range: bool
    chain: int
    """The number of roundings that one square goes through: its own and those of the additions."""
    statistical: bool
    sum_down: float
    sum_up: float
    mean: float
    add: float
    root: float
    numerics: Numerics
    structured: bool
    """True where only the worst case is sound, whatever the order of the sum."""

    def of_sum(self, summation: Summation, n: int) -> tuple[float, float]:
        """`sum_down` and `sum_up` for another order of the sum, for rows of `n` elements."""
        down, up, _ = sum_budget(self.form, summation.chain(n) + 1, self.structured)
        return down, up

    @property
    def terms(self) -> tuple[Term, ...]:
        """The relative terms, for explanations."""
        formula = "lambda sqrt(h) u + h u^2" if self.statistical else "(1 + u)^h - 1"
        formula += f", h = {self.chain}" + (f", lambda = {CONFIDENCE:g}" if self.statistical else "")
        ulp = self.numerics.rsqrt_ulp
        return (
            Term("sum", formula, self.sum_up),
            Term("mean", "u" if self.numerics.mean == "divide" else "2u + u^2", self.mean),
            Term("add eps", "u" if self.eps else "0 (eps is 0)", self.add),
            Term("rsqrt", "2u / (1 - u)" if ulp is None else f"2u * {ulp:g} ulp", self.root),
        )

    @lazy
    def overflow(self) -> float:
        """From which on a sum overflows; inf where none does, or none that float64 holds."""
        return math.inf if self.exact_range else self.form.limit


def sum_budget(form: Format, chain: int, structured: bool) -> tuple[float, float, bool]:
    """Relative error allowed downwards and upwards to a sum of non-negative terms, and whether it is statistical.

    Worst case (Higham 2002, section 3.1): every term goes through at most `chain` roundings, so the computed sum lies
    in
    [S (1-u)^chain, S (1+u)^chain]; these are sharper than gamma_chain and stay valid when chain*u >= 1.
    Statistical (Higham and Mary 2019): lambda sqrt(chain) u, plus the second-order term chain u^2.
    """
    return _sum_budget(form.u, chain, structured, CONFIDENCE)


@lru_cache(maxsize=4096)
def _sum_budget(u: float, chain: int, structured: bool, confidence: float) -> tuple[float, float, bool]:
    down = -math.expm1(chain * math.log1p(-u))
    up = math.expm1(min(chain * math.log1p(u), 700.0))
    likely = confidence * math.sqrt(chain) * u + chain * u * u
    if structured or chain * u > RANDOM_LIMIT or likely >= down:
        return down, up, False
    return likely, likely, True


@lru_cache(maxsize=4096)
def row_budget(numerics: Numerics, n: int, eps: float, dtype: str, structured: bool) -> RowBudget:
    """Budget of rows of `n` elements of `dtype` under `numerics` (settled); `eps` as given in the problem.

    Inputs of fewer bits than the accumulator always get the worst case: their squares are whole numbers of a coarse
    unit, and k^2 mod 4 is 0 or 1, mod 8 it is 0, 1 or 4, so that the bits that an addition rounds off are small ones
    more often than large ones, and the errors of a long sum have one sign.

    Raises `NumericsError` where the accumulator cannot hold the row length.
    """
    accumulator = form(numerics.accumulate, "accumulate")
    u = accumulator.u
    count = _held(float(n), accumulator)
    if not math.isfinite(count):
        raise NumericsError(f"accumulate: {accumulator.name} cannot hold the row length {n}")
    held_eps = _held(_held(eps, form(dtype)) if numerics.eps == "input" else eps, accumulator)
    exact_range = numerics.sum_range == "exact"
    chain = numerics.summation.chain(n) + 1
    worst_case = structured or form(dtype).precision < accumulator.precision
    down, up, statistical = sum_budget(accumulator, chain, worst_case)
    mean = u if numerics.mean == "divide" else 2 * u + u * u
    add = u if held_eps else 0.0
    root = 2 * u / (1 - u) if numerics.rsqrt_ulp is None else 2 * u * numerics.rsqrt_ulp
    quantum = 0.0 if exact_range else underflow(accumulator, numerics)
    return RowBudget(
        accumulator, count, held_eps, quantum, exact_range, chain, statistical, down, up, mean, add, root, numerics,
        worst_case,
    )  # fmt: skip


@dataclass(frozen=True)
class GradientBudget:
    """What the declaration allows to dx = r (m - h mean(h m)), h = x r, m = dy (offset + weight).

    With rho the relative error of r, |error| <= |r m| e1 + |r h| mean|h m| e2, where
    e1 = (1 + rho)^2 (1 + u)^first - 1 and e2 = (1 + rho)^3 (1 + u)^second (1 + sum) (1 + mean) - 1:
    every factor that an implementation multiplies in carries its own relative error (Higham 2002, lemma 3.1).
    """

    u: float
    first: int
    second: int
    """Both `first` and `second` count roundings to the dtype of the multiplications."""
    sum: float
    mean: float
    quantum: float
    statistical: bool
    chain: int


def narrowing(numerics: Numerics, given: Format | None = None) -> int:
    """Roundings of rstd on its way to the multiplications: 1 where these are done in a narrower dtype, else 0.

    `given`: the dtype of an rstd that is an input; otherwise it comes from the accumulator.
    """
    assert numerics.multiply is not None, "the contract is settled"
    source = form(numerics.accumulate) if given is None else given
    return int(form(numerics.multiply).precision < source.precision)


def gradient_budget(numerics: Numerics, n: int, weighted: bool, narrowed: int, structured: bool) -> GradientBudget:
    """Budget of dx for rows of `n` elements under a settled contract; `narrowed`: roundings of rstd beforehand."""
    assert numerics.multiply is not None, "the contract is settled"
    computed, accumulator = form(numerics.multiply), form(numerics.accumulate)
    chain = numerics.summation.chain(n) + 1
    _, up, statistical = sum_budget(accumulator, chain, structured)
    mean = 2 * accumulator.u + accumulator.u**2
    # m, difference, product with r; then x r twice, product under the sum, its use, and what the cube needs more.
    first = 3 + weighted + 2 * narrowed
    second = (6 if numerics.dx == "x_hat" else 9) + weighted + 3 * narrowed
    quantum = max(underflow(computed, numerics), underflow(accumulator, numerics))
    return GradientBudget(computed.u, first, second, up, mean, quantum, statistical, chain)


def are_coarse(x: Format, dy: Format, accumulator: Format) -> bool:
    """Whether sums of products of x and dy get the worst case: both have fewer bits than the accumulator.

    Products are then whole numbers of a coarse unit, and squares where dy follows x, as in `row_budget`.
    """
    return max(x.precision, dy.precision) < accumulator.precision


def lost_to_underflow(budget: GradientBudget, cubed: bool, sizes: Mapping[str, Number]) -> Number:
    """Absolute error of dx from operations that underflow; an operation's error times what it is multiplied by later.

    `sizes`: r, x and h of the element, and the row's means of |h m|, |m| and |h|; floats, arrays or mpmath numbers.
    """
    r, h = sizes["r"], sizes["h"]
    lost = 1 + r * (2 + sizes["hm"] + h * (3 + sizes["m_mean"] + sizes["h_mean"]))
    if cubed:
        lost = lost + r * h * r + (1 + r) * sizes["x"] * sizes["hm"] / r
    return budget.quantum * lost


@dataclass(frozen=True)
class Rounding:
    """Operations whose results are rounded in places that a contract leaves open."""

    relative: float
    absolute: float
    """The error where they underflow, in units of the result."""


def rounding(form: Format, numerics: Numerics, operations: int) -> Rounding:
    """So many roundings to `form`, one after the other: (1 + u)^k - 1 <= k u (1 + k u)."""
    relative = operations * form.u * (1 + operations * form.u)
    return Rounding(relative, operations * underflow(form, numerics))


def underflow(form: Format, numerics: Numerics) -> float:
    """Absolute error of one operation in `form` that underflows."""
    return form.tiny if numerics.denormals == "flush" else form.half_eta


@lru_cache(maxsize=4096)
def _held(value: float, form: Format) -> float:
    return float(round_to(np.array(value), form))
