"""The budget of a sum: the largest error of correct kernels with one order, relative to the sum of magnitudes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from oracles.dtypes import Format

CONFIDENCE = 6.0
"""The lambda of the statistical budget lambda sqrt(h) u, where h is the length of the longest chain of additions. If
rounding errors are mean-independent and bounded by u, a sum leaves the budget with probability at most 2 exp(-lambda^2
/ 2) = 3e-8 (Connolly, Higham and Mary 2021, theorem 4.8; Higham and Mary 2019). Measured on 1,000,080 rows of sums of
squares in nine orders: no sum left its budget; the largest lambda that one needed was 1.28."""

RANDOM_LIMIT = 2.0**-7
"""The largest h*u, for a chain of h additions, up to which rounding errors count as random. Beyond it, terms fall below
the last bit of the partial sum (a bf16 or f16 sum stops growing), all errors have one sign, and only the worst case is
sound. Measured in f32, one term added after the other: fourth powers of normal values need a lambda of 4.6 at 2^17
terms, 7.4 at 2^18 and 19 at 2^20; squares of normal values 1.3, 2.2 and 8."""


@dataclass(frozen=True)
class Term:
    """One term of a budget: its name, its formula as text, and its value."""

    name: str
    formula: str
    value: float
    """The value, in units of the output."""


def sum_budget(form: Format, chain: int, worst_case: bool) -> tuple[float, float, bool]:
    """Return the relative errors allowed downwards and upwards in a sum of non-negative terms, and whether they are
    statistical.

    Worst case (Higham 2002, section 3.1): every term goes through at most `chain` roundings, so the computed sum lies
    in [S (1-u)^chain, S (1+u)^chain]; these bounds are sharper than Higham's gamma_chain and stay valid if chain*u >=
    1. Statistical (Higham and Mary 2019): lambda sqrt(chain) u, plus the second-order term chain u^2.

    Callers pass `worst_case` if rounding errors are not random: for structured rows, and for terms of fewer bits than
    the sum. The squares of such terms are k^2 times a coarse unit with a whole k, and k^2 is 0 or 1 mod 4, and 0, 1 or
    4 mod 8. So the bits that an addition rounds off are more often small than large, and the errors of a long sum have
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
