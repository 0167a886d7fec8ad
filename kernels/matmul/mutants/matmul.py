"""Planted defects in matmul, modelled on documented bugs of such kernels."""

from __future__ import annotations

from fuzz import Mutant

__all__ = ["MUTANTS"]

_VALUE = ("FAIL_NUMERIC", "FAIL_NONFINITE")
_MEMORY = (*_VALUE, "FAIL_MEMORY", "CRASH")
_NATIVE = ("*@native:*-O2",)
_INTERPRETED = ("triton-*@interpret",)
_TERMS = (
    "for (int64_t i = 0; i < k; i++) sum += "
    "factor(load(a, a_row + i * a_step)) * factor(load(b, b_column + i * b_step));"
)
_DENSE = """    kf_tensor dense = *b;
    const int own = dense.rank - 2;
    if (own > 0 && dense.strides[0] == 0) dense.strides[0] = dense.strides[own] * dense.shape[own];
    b = &dense;
"""
_EMPTY = "    if (!has_elements(c)) return KF_OK;\n    matrix at = {0};"
_BIAS = "z += load(&call->bias, n * call->bias.strides[0]);"
_COLUMN = "start(&at, b) + n * b->strides[columns]"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "matmul-one-of-1024-lost", "matmul-generic",
        ((_TERMS, _TERMS.replace("i < k;", "i < k - (k >= 1024);")),),
        _NATIVE, "k >= 1024", _VALUE, "the last of many terms left out: half of published tolerances let it through",
    ),
    Mutant(
        "matmul-batch-of-one-as-dense", "matmul-generic",
        (("    matrix at = {0};", _DENSE + "    matrix at = {0};"),),
        _NATIVE, "a stride of 0 along a dimension of the batch", _MEMORY,
        "E113: one matrix for a whole batch taken for as many as there are",
    ),
    Mutant(
        "matmul-nothing-to-add", "matmul-generic",
        ((_EMPTY, _EMPTY.replace("!has_elements(c)", "!has_elements(c) || !has_elements(a)")),),
        _NATIVE, "k = 0 and c with elements", ("FAIL_UNWRITTEN", *_VALUE),
        "E045: without terms nothing is written, where c is the bias, or 0",
    ),
    Mutant(
        "matmul-sums-in-16-bits", "matmul-generic",
        ((_TERMS, "for (int64_t i = 0; i < k; i++)\n        sum = rounded(a->dtype, sum + load(a, a_row + i * a_step)"
          " * load(b, b_column + i * b_step));"),),
        _NATIVE, "16 bits and several terms", _VALUE, "E098: what is accumulated, rounded to the dtype of the inputs",
    ),
    Mutant(
        "matmul-columns-once-more", "matmul-generic",
        ((_COLUMN, "start(&at, b) + (n >= 64 && n < 80 ? n - 64 : n) * b->strides[columns]"),),
        _NATIVE, "n > 64", _VALUE, "E092: the first columns of one warp's tile in the place of another's",
    ),
    Mutant(
        "matmul-bias-of-rows", "matmul-generic",
        ((_BIAS, "z += load(&call->bias, (c->shape[rows] == c->shape[columns] ? m : n) * call->bias.strides[0]);"),),
        _NATIVE, "a bias, and as many rows as columns", _VALUE, "a bias along rows where matrices are square",
    ),
    Mutant(
        "matmul-relu-without-nan", "matmul-double",
        (("finished(z, call->relu)", "(call->relu >= 0.5f ? (z > 0 ? z : 0) : z)"),),
        _NATIVE, "relu, and a NaN among the results", ("FAIL_NONFINITE",), "E017: a maximum of 0 and NaN that is 0",
    ),
    Mutant(
        "matmul-avx2-last-rows-stored", "matmul-avx2",
        (("    if (rows > 3) finish(j, row + 3", "    if (rows > 2) finish(j, row + 3"),),
        _NATIVE, "m mod 4 = 3", _MEMORY, "E117: rows that a tile does not have are stored",
    ),
    Mutant(
        "matmul-avx2-last-step-lost", "matmul-avx2",
        (("    if (k < j->k) {", "    if (k < j->k && j->k < 32) {"),),
        _NATIVE, "k > 32 and odd", _VALUE, "the last of an odd number of steps left out",
    ),
    Mutant(
        "matmul-sve-last-step-everywhere", "matmul-sve",
        (("const vector last = v_load(b, left, 0.0f);", "const vector last = v_load(b, left < v_lanes() / 2 ? left :"
          " v_lanes() / 2, 0.0f);"),),
        ("*@qemu:vl=*-O2",), "k odd, n more than half a vector", _VALUE, "E120: the predicate of half a vector",
    ),
    Mutant(
        "triton-matmul-split-bias", "matmul-split-k",
        (("    if BIAS and number == 0:", "    if BIAS:"),),
        _INTERPRETED, "a bias and k > 32", _VALUE, "E115, W05: every part adds the bias",
    ),
    Mutant(
        "triton-matmul-tiles-of-rows", "matmul-tiled",
        (("tile, across = tl.program_id(0), tl.cdiv(n, TILE)", "tile, across = tl.program_id(0), tl.cdiv(m, TILE)"),),
        _INTERPRETED, "m and n of different numbers of tiles", ("FAIL_UNWRITTEN", *_VALUE),
        "the tiles of a row counted by the wrong extent: right where matrices are square",
    ),
    Mutant(
        "triton-matmul-terms-beyond", "matmul-tiled",
        (("mask=(rows < m)[:, None] & inside[None, :], other=0.0", "mask=(rows < m)[:, None], other=0.0"),),
        _INTERPRETED, "k no multiple of 32", _MEMORY, "E110: what lies beyond a row, times 0",
    ),
)  # fmt: skip
