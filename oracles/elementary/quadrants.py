"""Arguments of sine and cosine less whole quarter turns: for every finite argument, not only small ones.

An argument below `LIMIT` is itself a term of the rest; a larger one, m 2^e with a mantissa of 53 bits, is replaced by
integers of 18 bits of m times 2^e, 2^(e + 18) and 2^(e + 36) less whole turns, from a table for every exponent (the way
of Payne and Hanek, with residues in radians). In either case n, the nearest number of quarters, is below 2^22, and
minus n times the pieces of a quarter are terms too. Every product is exact. What is left out is below 2^22 times half
of the last piece's unit, and below 3 * 2^18 times half of the unit of the last piece of a residue.

Terms are added as an unevaluated sum of float64 numbers of which each takes the rounding errors of the one before it
(Shewchuk's expansions, cut after a few); only the last one is rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oracles.doubledouble import F64, DoubleDouble, two_sum
from oracles.elementary.bits import I64, nearest
from oracles.elementary.tables import residues, turns

LIMIT = 2.0**20
"""Arguments from here on are replaced by residues."""

LEAST_EXPONENT = 20 - 52
"""The exponent of the last mantissa bit of the smallest arguments that are replaced."""

DIGIT = 18
"""Bits of the integers that a mantissa is made of."""


@dataclass(frozen=True)
class Depth:
    """How many pieces of a quarter turn and of a residue are taken, and how many numbers a sum of terms has."""

    quarter: int
    residue: int
    sums: int


SINGLE = Depth(quarter=5, residue=5, sums=3)
"""For float64. A rest is off by less than 2^-120: 2^22 2^-150 of the quarter's pieces, 3 * 2^18 2^-174 of the
residues', and less than 64 roundings of 2^-137 of a sum that is below 2^22 2^-53 2^-53; see `_cheaper` too. No float64
number but 0 is nearer than 2^-61 to a multiple of a quarter turn (a known fact, which a test computes): relative to the
rest that is 2^-59."""

DOUBLE = Depth(quarter=8, residue=7, sums=4)
"""For double-double. Likewise 2^22 2^-240, 2 * 3 * 2^18 2^-244, and 128 roundings of 2^-190: less than 2^-182."""


def reduced(parts: Sequence[F64], depth: Depth) -> tuple[I64, DoubleDouble]:
    """The number of quarter turns, modulo 4 or more, and the rest, at most pi/4 (1 + 2^-20), of the sum of `parts`.

    `parts` are (n,) finite, with the largest first."""
    large = np.abs(parts[0]) >= LIMIT
    if not large.any():
        return _direct(parts, depth)
    quarters, rest = _direct([np.where(large, 0.0, part) for part in parts], depth)
    terms = [term for part in parts for term in _residue_terms(part[large], depth)]
    quarters[large], fixed = _folded(terms, depth)
    rest.high[large], rest.low[large] = fixed.high, fixed.low
    return quarters, rest


def _direct(parts: Sequence[F64], depth: Depth) -> tuple[I64, DoubleDouble]:
    return _folded(parts, depth) if depth is DOUBLE else _cheaper(parts[0])


def _cheaper(x: F64) -> tuple[I64, DoubleDouble]:
    """`_folded` of one term below `LIMIT` for float64, in a quarter of the time (the way of Cody and Waite).

    x - n P1 is a whole multiple of 2^-53 below 1, or n is 0: exact. n P3 is below 2^-38, so that what is rounded is
    below 2^-53 times that or the rest, by 2^-53 of it; n times all the other pieces is off by 2^-121."""
    table = turns()
    quarters, count = nearest(x * table.quarters_per_unit)
    first, second, third, fourth, fifth, *_ = table.quarter
    rest = two_sum(x - quarters * first, -quarters * second)
    whole = two_sum(rest.high, -quarters * third)
    return count, two_sum(whole.high, (rest.low + whole.low) - quarters * (fourth + fifth))


def _residue_terms(part: F64, depth: Depth) -> list[F64]:
    """Exact terms whose sum is `part` less whole turns; what is below `LIMIT` is one term itself."""
    table = residues(LEAST_EXPONENT)
    large = np.abs(part) >= LIMIT
    bits = part.view(np.int64)
    exponent = ((bits >> 52) & 2047) - 1075
    mantissa = np.where(large, (bits & ((1 << 52) - 1)) | (1 << 52), 0)
    terms = [np.where(large, 0.0, part)]
    for place in (0, DIGIT, 2 * DIGIT):
        digit = np.copysign(((mantissa >> place) & ((1 << DIGIT) - 1)).astype(np.float64), part)
        row = np.where(large, exponent + place - LEAST_EXPONENT, 0)
        terms += [digit * table[row, piece] for piece in range(depth.residue)]
    return terms


def _folded(terms: Sequence[F64], depth: Depth) -> tuple[I64, DoubleDouble]:
    table = turns()
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    quarters, count = nearest(total * table.quarters_per_unit)
    sums = [terms[0], *(np.zeros_like(total) for _ in range(depth.sums - 1))]
    for term in [*terms[1:], *(-quarters * piece for piece in table.quarter[: depth.quarter])]:
        _increase(sums, term)
    return count, _distilled(sums)


def _increase(sums: list[F64], term: F64) -> None:
    for index in range(len(sums) - 1):
        added = two_sum(sums[index], term)
        sums[index], term = added.high, added.low
    sums[-1] = sums[-1] + term


def _distilled(sums: list[F64]) -> DoubleDouble:
    """The sum in two numbers. The first pass may cancel; what it leaves can lose no more than a bit in the second."""
    for _ in range(2):
        for index in reversed(range(len(sums) - 1)):
            added = two_sum(sums[index], sums[index + 1])
            sums[index], sums[index + 1] = added.high, added.low
    tail = sums[-1]
    for part in sums[-2:0:-1]:
        tail = part + tail
    return two_sum(sums[0], tail)
