"""The budget of a sum: how far correct implementations of one order may stray, relative to the sum of magnitudes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from oracles.dtypes import Format

CONFIDENCE = 6.0
"""The lambda of the statistical budget lambda sqrt(h) u. If rounding errors are mean-independent and bounded by u, a
sum leaves the budget with probability at most 2 exp(-lambda^2 / 2), 3e-8 a row (Connolly, Higham and Mary 2021, theorem
4.8; Higham and Mary 2019). Measured on 1,000,080 rows of sums of squares in nine orders: no false alarm; the largest
constant that any sum with a statistical budget needed was 1.28."""

RANDOM_LIMIT = 2.0**-7
"""The largest h*u for which rounding errors count as random. Beyond it, terms fall below the last bits of the partial
sum (a bf16 or f16 sum stalls), the errors all have one sign, and only the worst case is sound. Measured for f32, one
term after the other: fourth powers of normal values need a lambda of 4.6 at 2^17 terms, 7.4 at 2^18 and 19 at 2^20;
their squares 1.3, 2.2 and 8."""


@dataclass(frozen=True)
class Term:
    """One term of a budget."""

    name: str
    formula: str
    value: float
    """The value, in units of the output."""


def sum_budget(form: Format, chain: int, worst_case: bool) -> tuple[float, float, bool]:
    """Return the relative errors allowed downwards and upwards in a sum of non-negative terms, and whether they are
    statistical.

    Worst case (Higham 2002, section 3.1): every term goes through at most `chain` roundings, so the computed sum lies
    in [S (1-u)^chain, S (1+u)^chain]; these are sharper than gamma_chain and stay valid when chain*u >= 1. Statistical
    (Higham and Mary 2019): lambda sqrt(chain) u, plus the second-order term chain u^2.

    Only the worst case is sound if rounding errors are not random: for structured rows, and for terms of fewer bits
    than the sum. Squares of such terms are whole numbers of a coarse unit, and k^2 mod 4 is 0 or 1, mod 8 it is 0, 1 or
    4: the bits that an addition rounds off are small ones more often than large ones, and the errors of a long sum have
    one sign.
    """
    return _sum_budget(form.u, chain, worst_case, CONFIDENCE)


@lru_cache(maxsize=4096)
def _sum_budget(u: float, chain: int, worst_case: bool, confidence: float) -> tuple[float, float, bool]:
    down = -math.expm1(chain * math.log1p(-u))
    up = math.expm1(min(chain * math.log1p(u), 700.0))
    likely = confidence * math.sqrt(chain) * u + chain * u * u
    if worst_case or chain * u > RANDOM_LIMIT or likely >= down:
        return down, up, False
    return likely, likely, True
