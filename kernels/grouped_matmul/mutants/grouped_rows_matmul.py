"""Planted defects in grouped_rows_matmul, modelled on documented bugs of such kernels."""

from __future__ import annotations

from fuzz import Mutant

__all__ = ["MUTANTS"]

_VALUE = ("FAIL_NUMERIC", "FAIL_NONFINITE")
_UNWRITTEN = ("FAIL_UNWRITTEN", *_VALUE)
_MEMORY = (*_VALUE, "FAIL_MEMORY", "CRASH")
_ACCEPTED = ("FAIL_ACCEPTED_INVALID", *_MEMORY)
_NATIVE = ("*@native:*-O2",)
_INTERPRETED = ("triton-*@interpret",)
_TORCH = ("torch-*@cpu",)
_GENERIC, _TILED, _LOOP = "grouped-rows-matmul-generic", "grouped-rows-matmul-tiled", "grouped-rows-matmul-loop"
_GROUP = "const int64_t group = group_of(offs, m);"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "grouped-rows-matmul-one-row-too-many", _GENERIC,
        (("offs->strides[0]) <= m)", "offs->strides[0]) < m)"),),
        _NATIVE, "two groups, or rows behind the last one", _VALUE, "the row at the end of a group is still in it",
    ),
    Mutant(
        "grouped-rows-matmul-empty-group-entered", _GENERIC,
        ((_GROUP, "static int64_t group;\n        if (m == 0) group = 0;\n        if (group < offs->shape[0] &&"
          " load_place(offs, group * offs->strides[0]) <= m) group++;"),),
        _NATIVE, "a group without rows, and rows behind it", _VALUE,
        "E045: one group further at each end: a group without rows has the first row of the next one",
    ),
    Mutant(
        "grouped-rows-matmul-last-group-to-the-end", _GENERIC,
        (("while (group < offs->shape[0] &&", "while (group < offs->shape[0] - 1 &&"),),
        _NATIVE, "rows behind the last group", _VALUE, "the last group has all that is left: offs is not asked",
    ),
    Mutant(
        "grouped-rows-matmul-rest-unwritten", _GENERIC,
        ((_GROUP, f"{_GROUP}\n        if (group == offs->shape[0]) break;"),),
        _NATIVE, "rows behind the last group", _UNWRITTEN, "E045: rows that are in no group are left as they were",
    ),
    Mutant(
        "grouped-rows-matmul-equal-groups", _GENERIC,
        ((_GROUP, "const int64_t all = offs->shape[0], last = load_place(offs, (all - 1) * offs->strides[0]);\n"
          "        const int64_t group = m < last ? m * all / last : all;"),),
        _NATIVE, "groups of different lengths", _VALUE, "P2: every group is as long as the others",
    ),
    Mutant(
        "grouped-rows-matmul-bias-of-first", _GENERIC,
        (("group * bias->strides[0] + n", "n"),),
        _NATIVE, "two groups with rows, and a bias", _VALUE, "E116: one bias for all groups",
    ),
    Mutant(
        "grouped-rows-matmul-matrices-one-after-the-other", _GENERIC,
        (("group * b->strides[0]", "group * b->shape[1] * b->shape[2]"),),
        _NATIVE, "matrices that do not lie one after the other", _MEMORY, "E113: the stride of groups from their shape",
    ),
    Mutant(
        "grouped-rows-matmul-narrow-offs", _GENERIC,
        (("&& load_place(", "&& (uint8_t)load_place("),),
        _NATIVE, "an end of 256 or more", _VALUE, "ends of 8 bits: right where there are few rows",
    ),
    Mutant(
        "grouped-rows-matmul-tail-of-terms", _GENERIC,
        (("k < a->shape[1]; k++", "k < (a->shape[1] > 32 ? a->shape[1] / 32 * 32 : a->shape[1]); k++"),),
        _NATIVE, "k > 32, and no multiple of it", _VALUE, "E110: the tail of k is lost",
    ),
    Mutant(
        "grouped-rows-matmul-end-unchecked", _GENERIC,
        (("!are_places(offs, 0, a->shape[0] + 1)", "!are_places(offs, 0, INT64_MAX)"),),
        _NATIVE, "an end beyond the last row", _ACCEPTED, "E105: nobody looks whether a group ends in a",
        explained_as=("place in offs",),
    ),
    Mutant(
        "triton-grouped-rows-matmul-tiles-aligned", _TILED,
        (("    rows = first + tl", "    rows = first // TILE * TILE + tl"),),
        _INTERPRETED, "a group that begins at no multiple of 16", _VALUE,
        "E110: a group begins at a whole tile, with rows of the one before",
    ),
    Mutant(
        "triton-grouped-rows-matmul-first-of-first", _TILED,
        (("mask=(ids > 0) &", "mask=(ids > 1) &"),),
        _INTERPRETED, "a second group, and rows in the first one", _VALUE, "the second group begins at 0 too",
    ),
    Mutant(
        "triton-grouped-rows-matmul-next-matrix-multiplied", _TILED,
        (("mask=own[:, None] & (columns < n)[None, :], other=0.0", "mask=(columns < n)[None, :], other=0.0"),),
        _INTERPRETED, "k no multiple of 32, and NaN in the next matrix, or the end of b", _MEMORY,
        "E110: what lies behind a matrix, times 0: NaN goes from one to the other",
    ),
    Mutant(
        "torch-grouped-rows-matmul-offs-are-sizes", _LOOP,
        (("        first = end\n", "        first += end\n"),),
        _TORCH, "three groups", _UNWRITTEN, "ends for lengths: the third group begins at the sum of two ends",
    ),
    Mutant(
        "torch-grouped-rows-matmul-matrices-of-present", _LOOP,
        (("b[group].float()", "b[len(set(offs[:group].tolist()) - {0})].float()"),),
        _TORCH, "a group without rows, and rows behind it", _VALUE,
        "P2: matrices are counted by groups that have rows",
    ),
)  # fmt: skip
