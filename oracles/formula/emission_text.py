"""The C text that emitted kernels have in common: how elements are read, rounded, written and summed."""

from __future__ import annotations

import re

from oracles.summation import Any, Lanes, Pairwise, Sequential, Summation, Tiles

HEAD = """
#include "kernelfuzz.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COMMON static inline __attribute__((unused))

typedef float f32;
typedef double f64;
typedef float f16;  /* held in a float, and rounded after each operation */
typedef float bf16; /* the same */

COMMON f32 float_of(uint32_t bits) {
    f32 value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

COMMON uint32_t bits_of(f32 value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* To nearest, ties to even, in a format of so many bits whose smallest normal number is 2^emin. */
COMMON f64 nearest(f64 value, int precision, int emin, f64 max) {
    if (value == 0 || isnan(value) || isinf(value))
        return value;
    int exponent;
    frexp(value, &exponent);
    int unit = exponent - precision > emin - precision + 1 ? exponent - precision : emin - precision + 1;
    f64 found = ldexp(nearbyint(ldexp(value, -unit)), unit);
    return fabs(found) > max ? copysign((f64)INFINITY, found) : found;
}

COMMON f32 to_f32(f64 value) { return (f32)value; }
COMMON f16 to_f16(f64 value) { return (f16)nearest(value, 11, -14, 65504.0); }
COMMON bf16 to_bf16(f64 value) { return (bf16)nearest(value, 8, -126, 0x1.fep127); }

/* By its bits: a conversion to f64 could take a subnormal number for zero. */
COMMON bf16 round_bf16(f32 value) {
    uint32_t bits = bits_of(value);
    return isnan(value) ? value : float_of((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000);
}

COMMON f16 round_f16(f32 value) { return to_f16(value); }

COMMON f32 half_of(uint16_t bits) {
    f32 size = (bits >> 10 & 31) == 31 ? (bits & 1023 ? NAN : INFINITY)
               : bits >> 10 & 31       ? ldexpf((f32)(1024 + (bits & 1023)), (bits >> 10 & 31) - 25)
                                       : ldexpf((f32)(bits & 1023), -24);
    return bits >> 15 ? -size : size;
}

COMMON uint16_t bits_of_half(f16 value) {
    uint16_t sign = (uint16_t)(bits_of(value) >> 31 << 15);
    f32 size = fabsf(value);
    if (isnan(value) || isinf(value))
        return (uint16_t)(sign | 31 << 10 | (isnan(value) ? 512 : 0));
    if (size < 0x1p-14f)
        return (uint16_t)(sign | (int)ldexpf(size, 24));
    int exponent;
    f32 mantissa = frexpf(size, &exponent);
    return (uint16_t)(sign | (exponent + 14) << 10 | ((int)ldexpf(mantissa, 11) - 1024));
}

COMMON uint16_t upper_half(bf16 value) { return (uint16_t)(bits_of(value) >> 16); }

COMMON f32 load_f32(const kf_tensor *t, int64_t at) {
    switch (t->dtype) {
    case KF_F64: return (f32)((const f64 *)t->data)[at];
    case KF_F32: return ((const f32 *)t->data)[at];
    case KF_F16: return half_of(((const uint16_t *)t->data)[at]);
    case KF_BF16: return float_of((uint32_t)((const uint16_t *)t->data)[at] << 16);
    case KF_BOOL: return ((const uint8_t *)t->data)[at];
    default: return NAN;
    }
}

/* What is stored in 16 bits is taken as it is: a conversion from f64 could flush it. */
COMMON f16 load_f16(const kf_tensor *t, int64_t at) {
    return t->dtype == KF_F64 ? to_f16(((const f64 *)t->data)[at]) : round_f16(load_f32(t, at));
}

COMMON bf16 load_bf16(const kf_tensor *t, int64_t at) {
    return t->dtype == KF_F64 ? to_bf16(((const f64 *)t->data)[at]) : round_bf16(load_f32(t, at));
}

COMMON f64 load_f64(const kf_tensor *t, int64_t at) {
    return t->dtype == KF_F64 ? ((const f64 *)t->data)[at] : (f64)load_f32(t, at);
}

COMMON void store_f32(const kf_tensor *t, int64_t at, f32 value) {
    switch (t->dtype) {
    case KF_F64: ((f64 *)t->data)[at] = SATURATED((f64)value, 0x1.fffffffffffffp1023); break;
    case KF_F32: ((f32 *)t->data)[at] = SATURATED(value, 0x1.fffffep127f); break;
    case KF_F16: ((uint16_t *)t->data)[at] = bits_of_half((f16)SATURATED(to_f16(value), 65504.0f)); break;
    case KF_BF16: ((uint16_t *)t->data)[at] = upper_half(SATURATED(round_bf16(value), 0x1.fep127f)); break;
    default: break;
    }
}

COMMON void store_f64(const kf_tensor *t, int64_t at, f64 value) {
    switch (t->dtype) {
    case KF_F64: ((f64 *)t->data)[at] = SATURATED(value, 0x1.fffffffffffffp1023); break;
    case KF_F32: ((f32 *)t->data)[at] = SATURATED((f32)value, 0x1.fffffep127f); break;
    case KF_F16: ((uint16_t *)t->data)[at] = bits_of_half((f16)SATURATED(to_f16(value), 65504.0f)); break;
    case KF_BF16: ((uint16_t *)t->data)[at] = upper_half(SATURATED(to_bf16(value), 0x1.fep127f)); break;
    default: break;
    }
}

/* A factor of 'columns' for row r: its own element, or of rank 2 that of row r mod so many. */
COMMON int64_t column(const kf_tensor *t, int64_t r, int64_t i, int64_t n) {
    return t->rank == 2 ? r % t->shape[0] * n + i : i;
}

COMMON f32 sigmoid_f32(f32 x) { return x < 0 ? expf(x) / (1 + expf(x)) : 1 / (1 + expf(-x)); }
COMMON f64 sigmoid_f64(f64 x) { return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)); }
"""
PLAIN = "#define SATURATED(value, max) (value)\n"
SATURATED = """
#define SATURATED(value, max) \\
    (isinf(value) ? ((value) > 0 ? (max) : -(max)) : (value))
"""

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
    """What an operation returns whose expression is of f32 or f64: in 16 bits it is rounded."""
    return f"round_{dtype}({expression})" if dtype in ("f16", "bf16") else expression


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
    text = re.sub(r"\bR\(", f"round_{dtype}(" if dtype in ("f16", "bf16") else "(", text)
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
