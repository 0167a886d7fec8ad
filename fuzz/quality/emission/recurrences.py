"""Linear recurrences in C: one place after the other, in blocks that are carried on, or as a tree."""

from __future__ import annotations

import re

from fuzz.quality.emission.prelude import HELD
from fuzz.quality.emission.reductions import FUSED
from oracles.summation import Sequential, Summation

_SEQUENTIAL = """
static void NAME(T *a, T *h, T start, int64_t n) {
    for (int64_t k = 0; k < n; k++) {
        start = NEXT(a[k], start, h[k]);
        h[k] = start;
    }
}
"""
_JOINED = """
COMMON void joined_NAME(T *a, T *h, int64_t before, int64_t k) {
    h[k] = NEXT(a[k], h[before], h[k]);
    a[k] = R(a[before] * a[k]);
}
"""
_BLOCKS = """
static void NAME(T *a, T *h, T start, int64_t n) {
    for (int64_t first = 0; first < n; first += 8) {
        const int64_t end = first + 8 < n ? first + 8 : n;
        for (int64_t k = first + 1; k < end; k++)
            joined_NAME(a, h, k - 1, k);
        for (int64_t k = first; first && k < end; k++)
            joined_NAME(a, h, first - 1, k);
    }
"""
_TREE = """
static void NAME(T *a, T *h, T start, int64_t n) {
    for (int64_t apart = 1; apart < n; apart *= 2)
        for (int64_t k = n - 1; k >= apart; k--)
            joined_NAME(a, h, k - apart, k);
"""
_STARTED = """    for (int64_t k = 0; k < n; k++)
        h[k] = NEXT(a[k], start, h[k]);
}
"""


def recurrence(name: str, dtype: str, order: Summation, *, fused: bool, turn: int) -> str:
    """Return the definition of a function that takes n factors and what is added at each of as many places, which it
    replaces by what comes of them. Where the order is left open it is one of several, by `turn`."""
    several = [_SEQUENTIAL, _JOINED + _BLOCKS + _STARTED, _JOINED + _TREE + _STARTED]
    text = _SEQUENTIAL if isinstance(order, Sequential) else several[turn % 3]
    step = rf"{FUSED[dtype]}(\1, \2, \3);" if fused and dtype in FUSED else r"R(R(\1 * \2) + \3);"
    text = re.sub(r"NEXT\((.+?), (.+?), (.+?)\);", step, text).replace("NAME", name)
    return re.sub(r"\bT\b", dtype, re.sub(r"\bR\(", f"round_{dtype}(" if dtype in HELD else "(", text))
