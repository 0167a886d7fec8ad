"""Planted defects in grouped_matmul, modelled on documented bugs of such kernels."""

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
_GENERIC, _TILED, _LOOP = "grouped-matmul-generic", "grouped-matmul-tiled", "grouped-matmul-loop"
_FIRST = "const int64_t first = end_of(offs, g - 1), end = end_of(offs, g);"
_SUM = "    float sum = 0.0f;\n"
_STORE = "                store(c,"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "grouped-matmul-empty-group-skipped", _GENERIC,
        ((_FIRST, f"{_FIRST}\n        if (first == end) continue;"),),
        _NATIVE, "a group without terms", _UNWRITTEN, "E045: nothing is written where there is nothing to add",
        explained_as=("a piece that offs cuts is empty",),
    ),
    Mutant(
        "grouped-matmul-accumulator-kept", _GENERIC,
        ((_SUM, "    static float sum;\n    if (first < end) sum = 0.0f;\n"),),
        _NATIVE, "a group without terms", _VALUE,
        "E112: the accumulator is cleared by the first term: without one it is that of the element before",
    ),
    Mutant(
        "grouped-matmul-empty-group-collects-nothing", _GENERIC,
        (("if (is_present(collected))", "if (is_present(collected) && first < end)"),),
        _NATIVE, "a group without terms, and something collected", _VALUE,
        "E116: a group without terms is filled with zeros, whatever was collected before",
    ),
    Mutant(
        "grouped-matmul-first-group-from-the-end", _GENERIC,
        (("group < 0 ? 0 : load", "group < 0 ? load_place(offs, 0) / 2 : load"),),
        _NATIVE, "a first group of two terms or more", _VALUE, "the first group does not begin at 0",
    ),
    Mutant(
        "grouped-matmul-last-group-to-the-end", _GENERIC,
        ((_FIRST, _FIRST.replace("end_of(offs, g);", "g + 1 < c->shape[0] ? end_of(offs, g) : a->shape[1];")),),
        _NATIVE, "terms behind the last group", _VALUE, "the last group has all that is left: offs is not asked",
    ),
    Mutant(
        "grouped-matmul-equal-groups", _GENERIC,
        ((_FIRST, "const int64_t each = end_of(offs, c->shape[0] - 1) / c->shape[0], first = g * each, end = first +"
          " each;"),),
        _NATIVE, "groups of different lengths", _VALUE, "P2: every group is as long as the others",
    ),
    Mutant(
        "grouped-matmul-tail-of-group", _GENERIC,
        (("k < end; k++", "k < (end - first > 16 ? first + (end - first) / 16 * 16 : end); k++"),),
        _NATIVE, "a group of more than 16 terms, and no multiple of it", _VALUE, "E110: the tail of a group is lost",
    ),
    Mutant(
        "grouped-matmul-steps-aligned", _GENERIC,
        (("int64_t k = first; k < end", "int64_t k = end - first > 8 ? first / 8 * 8 : first; k < end"),),
        _NATIVE, "a group of more than 8 terms that begins at no multiple of 8", _VALUE,
        "E110: a group begins at a whole tile, with terms of the one before",
    ),
    Mutant(
        "grouped-matmul-narrow-offs", _GENERIC,
        (("return group < 0 ? 0 : load_place(", "return group < 0 ? 0 : (uint8_t)load_place("),),
        _NATIVE, "an end of 256 or more", _VALUE, "ends of 8 bits: right where there are few terms",
    ),
    Mutant(
        "grouped-matmul-end-unchecked", _GENERIC,
        (("!are_places(offs, 0, a->shape[1] + 1)", "!are_places(offs, 0, INT64_MAX)"),),
        _NATIVE, "an end beyond the last term", _ACCEPTED, "E105: nobody looks whether a group ends in a",
        explained_as=("place in offs",),
    ),
    Mutant(
        "grouped-matmul-start-unchecked", _GENERIC,
        (("!are_places(offs, 0, a", "!are_places(offs, INT64_MIN, a"),),
        _NATIVE, "an end below 0", _ACCEPTED, "E105: a group may begin before the first term",
        explained_as=("place in offs",),
    ),
    Mutant(
        "triton-grouped-matmul-empty-group-skipped", _TILED,
        (("    tl.store(c_ptr", "    inside &= (rows < tl.where(first < end, m, 0))[:, None]\n    tl.store(c_ptr"),),
        _INTERPRETED, "a group without terms", _UNWRITTEN, "E045: a program without terms stores nothing",
    ),
    Mutant(
        "triton-grouped-matmul-next-group-multiplied", _TILED,
        (("mask=own[:, None] & (columns < n)[None, :], other=0.0", "mask=(columns < n)[None, :], other=0.0"),),
        _INTERPRETED, "NaN in the group behind, or the end of b", _MEMORY,
        "E110: what lies behind a group, times 0: NaN goes from one to the other",
    ),
    Mutant(
        "triton-grouped-matmul-first-of-first", _TILED,
        (("mask=group > 0, other=0", "mask=group > 1, other=0"),),
        _INTERPRETED, "a second group, and terms in the first one", _VALUE, "the second group begins at 0 too",
    ),
    Mutant(
        "torch-grouped-matmul-empty-group-passed", _LOOP,
        (("        product = torch", "        if first == end:\n            continue\n        product = torch"),),
        _TORCH, "a group without terms", _UNWRITTEN, "E045: a loop passes over groups without terms",
    ),
    Mutant(
        "torch-grouped-matmul-offs-are-sizes", _LOOP,
        (("        first = end\n", "        first += end\n"),),
        _TORCH, "three groups", _VALUE, "ends for lengths: the third group begins at the sum of two ends",
    ),
)  # fmt: skip
