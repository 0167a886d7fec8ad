"""Elements of some rank, and their places, in C: all places in order, by merging ever longer runs."""

from __future__ import annotations

from oracles.formula.node import LAST, Node

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


def call(node: Node, dtype: str, count: str, turn: int) -> str:
    """Return the call for the terms of a node. Of equal ones whose order is left open one comes first by `turn`."""
    last = node.value == LAST or (not node.value and turn % 2 == 1)
    return f"ordered_{dtype}(terms_{dtype}, {count}, order_int64_t, {int(last)});"


def selected(node: Node, dtype: str, count: str, rank: str) -> str:
    """Return the value of such a node."""
    found = f"order_int64_t[(int64_t)({rank})]"
    return f"{count} ? (f64){found} : 0" if node.kind == "place" else f"{count} ? terms_{dtype}[{found}] : -INFINITY"
