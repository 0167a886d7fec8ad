"""What emitted kernels do along a dimension, in C by dtype and order: reductions, recurrences, and choices by rank."""

from __future__ import annotations

import re

from fuzz.quality.emission.prelude import HELD
from oracles.formula.node import LAST, Node
from oracles.summation import Any, Lanes, Pairwise, Sequential, Summation, Tiles

_TREE = """
COMMON T tree_D(T *part, int64_t width) {
    for (; width > 1; width -= width / 2) {
        for (int64_t j = 0; j < width / 2; j++)
            part[j] = R(part[j] + part[width / 2 + j]);
        if (width % 2)
            part[width / 2] = part[width - 1];
    }
    return part[0];
}
"""
_SEQUENTIAL = """
static T NAME(TERMS, int64_t n) {
    T sum = 0;
    for (int64_t k = 0; k < n; k++)
        sum = NEXT(sum, k);
    return sum;
}
"""
_REVERSED = """
static T NAME(TERMS, int64_t n) {
    T sum = 0;
    for (int64_t k = n - 1; k >= 0; k--)
        sum = NEXT(sum, k);
    return sum;
}
"""
_HALVES = """
static T NAME(TERMS, int64_t n) {
    T sum = 0;
    for (int64_t k = 0; k < n; k += 2)
        sum = NEXT(sum, k);
    for (int64_t k = 1; k < n; k += 2)
        sum = NEXT(sum, k);
    return sum;
}
"""
_LANES = """
static T NAME(TERMS, int64_t n) {
    T part[BLOCK] = {0};
    int64_t k = 0;
    for (; k + BLOCK <= n; k += BLOCK)
        for (int64_t j = 0; j < BLOCK; j++)
            part[j] = NEXT(part[j], k + j);
"""
_PREDICATED = """    for (; k < n; k += WIDTH)
        for (int64_t j = 0; j < WIDTH && k + j < n; j++)
            part[j] = NEXT(part[j], k + j);
    return tree_D(part, BLOCK);
}
"""
_SCALAR = """    T sum = tree_D(part, BLOCK);
    for (; k < n; k++)
        sum = NEXT(sum, k);
    return sum;
}
"""
_TILES = """
static T NAME(TERMS, int64_t n) {
    T part[WIDTH] = {0};
    for (int64_t k = 0; k < n; k++)
        part[k % WIDTH] = NEXT(part[k % WIDTH], k);
    return tree_D(part, WIDTH);
}
"""
_PAIRWISE = """
static T NAME(TERMS, int64_t n) {
    const int64_t blocks = (n + WIDTH - 1) / WIDTH;
    if (!blocks)
        return 0;
    T *part = calloc((size_t)blocks, sizeof(T));
    for (int64_t k = 0; k < n; k++)
        part[k / WIDTH] = NEXT(part[k / WIDTH], k);
    const T sum = tree_D(part, blocks);
    free(part);
    return sum;
}
"""
_MAX = """
static T NAME(const T *a, int64_t n) {
    T most = -INFINITY;
    for (int64_t k = 0; k < n; k++)
        most = a[k] > most || isnan(a[k]) ? a[k] : most;
    return most;
}
"""
_ONLINE = """
static T NAME(const T *a, int64_t n) {
    const int64_t lanes = LANES;
    T *most = malloc((size_t)(n + 1) * sizeof(T)), *sum = malloc((size_t)(n + 1) * sizeof(T));
    for (int64_t k = 0; k < n; k++)
        most[k] = a[k], sum[k] = 1;
    for (int64_t apart = lanes, last = n; last > 1; last = apart, apart = (apart + 1) / 2) {
        for (int64_t k = apart; k < last; k++) {
            const int64_t into = k % apart;
            const T larger = most[into] >= most[k] ? most[into] : most[k];
            const T steps[2] = {R(most[into] - larger), R(most[k] - larger)};
            T sums[2] = {sum[into], sum[k]};
            for (int each = 0; each < 2; each++)
                if (larger != -INFINITY && steps[each] != 0)
                    sums[each] = R(sums[each] * R(EXP(steps[each])));
            most[into] = larger;
            sum[into] = R(sums[0] + sums[1]);
        }
    }
    const T found = n ? sum[0] : 0;
    free(most);
    free(sum);
    return found;
}
"""
_WELFORD = """
static T NAME(const T *a, int64_t n) {
    const int64_t lanes = LANES;
    T *mean = malloc((size_t)(n + 1) * sizeof(T)), *squares = calloc((size_t)(n + 1), sizeof(T));
    int64_t *count = malloc((size_t)(n + 1) * sizeof(int64_t));
    for (int64_t k = 0; k < n; k++)
        mean[k] = a[k], count[k] = 1;
    for (int64_t apart = lanes, last = n; last > 1; last = apart, apart = (apart + 1) / 2) {
        for (int64_t k = apart; k < last; k++) {
            const int64_t into = k % apart;
            const T away = R(mean[k] - mean[into]);
            const T share = R((T)count[k] / (T)(count[into] + count[k]));
            mean[into] = R(mean[into] + R(away * share));
            const T more = count[k] == 1 ? R(away * R(mean[k] - mean[into]))
                                         : R(R(away * away) * R(share * (T)count[into]));
            squares[into] = R(R(squares[into] + squares[k]) + more);
            count[into] += count[k];
        }
    }
    const T found = n ? FOUND[0] : NAN;
    free(mean);
    free(squares);
    free(count);
    return found;
}
"""
FUSED = {"f32": "fmaf", "f64": "fma"}
"""The dtypes in which a product may go into a sum unrounded, and the function that does it."""


def rounded(dtype: str, expression: str) -> str:
    """What an operation returns whose expression is of f32 or f64: in fewer bits it is rounded."""
    return f"round_{dtype}({expression})" if dtype in HELD else expression


def tree(dtype: str) -> str:
    """A function that adds up parts, each half to the other."""
    return _typed(_TREE, dtype)


def reduction(kind: str, name: str, dtype: str, order: Summation, *, fused: bool, turn: int) -> str:
    """A function that reduces n terms or, with `fused`, n products that are not rounded. What a contract allows in any
    order comes in one of several, by `turn`."""
    text = _OTHERS[kind] if kind in _OTHERS else _sum(order, turn)
    step = rf"{FUSED[dtype]}(a[\2], b[\2], \1);" if fused else r"R(\1 + a[\2]);"
    text = re.sub(r"NEXT\((.+?), (.+?)\);", step, text)
    text = text.replace("TERMS", "const T *a, const T *b" if fused else "const T *a").replace("NAME", name)
    return _typed(text.replace("LANES", _lanes(order)), dtype)


def _typed(text: str, dtype: str) -> str:
    text = re.sub(r"\bR\(", f"round_{dtype}(" if dtype in HELD else "(", text)
    text = text.replace("EXP(", "exp(" if dtype == "f64" else "expf(").replace("tree_D", f"tree_{dtype}")
    return re.sub(r"\bT\b", dtype, text)


def _sum(order: Summation, turn: int) -> str:
    if isinstance(order, Sequential):
        return _SEQUENTIAL
    if isinstance(order, Any):
        return (_REVERSED, _HALVES, _SEQUENTIAL)[turn % 3]
    if isinstance(order, Lanes):
        text = _LANES + (_PREDICATED if order.tail == "predicated" else _SCALAR)
        return text.replace("BLOCK", str(order.lanes * order.accumulators)).replace("WIDTH", str(order.lanes))
    if isinstance(order, Tiles):
        return _TILES.replace("WIDTH", str(order.width))
    assert isinstance(order, Pairwise)
    return _PAIRWISE.replace("WIDTH", str(order.block))


def _lanes(order: Summation) -> str:
    """How many parts are kept up to date beside each other."""
    if isinstance(order, Pairwise):
        return f"(n + {order.block - 1}) / {order.block}"
    if isinstance(order, Lanes | Tiles):
        most = order.width if isinstance(order, Tiles) else order.lanes * order.accumulators
        return f"n < {most} ? n : {most}"
    return "1"


_OTHERS = {
    "max": _MAX, "online": _ONLINE, "welford_mean": _WELFORD.replace("FOUND", "mean"),
    "welford_squares": _WELFORD.replace("FOUND", "squares"),
}  # fmt: skip

_PLACE_BY_PLACE = """
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
_SCAN_BLOCKS = """
static void NAME(T *a, T *h, T start, int64_t n) {
    for (int64_t first = 0; first < n; first += 8) {
        const int64_t end = first + 8 < n ? first + 8 : n;
        for (int64_t k = first + 1; k < end; k++)
            joined_NAME(a, h, k - 1, k);
        for (int64_t k = first; first && k < end; k++)
            joined_NAME(a, h, first - 1, k);
    }
"""
_SCAN_TREE = """
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
    several = [_PLACE_BY_PLACE, _JOINED + _SCAN_BLOCKS + _STARTED, _JOINED + _SCAN_TREE + _STARTED]
    text = _PLACE_BY_PLACE if isinstance(order, Sequential) else several[turn % 3]
    step = rf"{FUSED[dtype]}(\1, \2, \3);" if fused and dtype in FUSED else r"R(R(\1 * \2) + \3);"
    text = re.sub(r"NEXT\((.+?), (.+?), (.+?)\);", step, text).replace("NAME", name)
    return re.sub(r"\bT\b", dtype, re.sub(r"\bR\(", f"round_{dtype}(" if dtype in HELD else "(", text))


_ORDERED = """
COMMON void ordered_T(const T *a, int64_t n, int64_t *order, int last) {
    int64_t *merged = malloc((size_t)(n + 1) * sizeof(int64_t));
    for (int64_t k = 0; k < n; k++)
        order[k] = last ? n - 1 - k : k;
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t from = 0; from < n; from += 2 * width) {
            const int64_t middle = from + width < n ? from + width : n;
            const int64_t end = from + 2 * width < n ? from + 2 * width : n;
            int64_t left = from, right = middle;
            for (int64_t k = from; k < end; k++) {
                const int takes = right >= end || (left < middle && !(a[order[right]] > a[order[left]]));
                merged[k] = takes ? order[left++] : order[right++];
            }
        }
        memcpy(order, merged, (size_t)n * sizeof(int64_t));
    }
    free(merged);
}
"""


def ordered(dtype: str) -> str:
    """Return the definition of the function that says where terms of a dtype stand, the largest one first."""
    return _ORDERED.replace("T *a", f"{dtype} *a").replace("ordered_T", f"ordered_{dtype}")


def ordering(node: Node, dtype: str, count: str, turn: int) -> str:
    """Return the call for the terms of a node. Of equal ones whose order is left open one comes first by `turn`."""
    last = node.value == LAST or (not node.value and turn % 2 == 1)
    return f"ordered_{dtype}(terms_{dtype}, {count}, order_int64_t, {int(last)});"


def selected(node: Node, dtype: str, count: str, rank: str) -> str:
    """Return the value of such a node."""
    found = f"order_int64_t[(int64_t)({rank})]"
    return f"{count} ? (f64){found} : 0" if node.kind == "place" else f"{count} ? terms_{dtype}[{found}] : -INFINITY"
