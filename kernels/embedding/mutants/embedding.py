"""Planted defects in embedding and its gradient, modelled on documented bugs of such kernels."""

from __future__ import annotations

from fuzz import Mutant

__all__ = ["MUTANTS"]

_VALUE = ("FAIL_NUMERIC", "FAIL_NONFINITE")
_MEMORY = (*_VALUE, "FAIL_MEMORY", "CRASH")
_NATIVE = ("*@native:*-O2",)
_INTERPRETED = ("triton-*@interpret",)
_ACCEPTED = ("FAIL_ACCEPTED_INVALID", "FAIL_UNWRITTEN", *_MEMORY)
_FORWARD, _BACKWARD = "embedding-generic", "embedding-backward-generic"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "embedding-padding-is-read", _FORWARD,
        (("place < 0 ? 0.0f : load", "load"),),
        _NATIVE, "an index of -1", _MEMORY, "E105: the row before the first one is read for padding",
    ),
    Mutant(
        "embedding-padding-is-first", _FORWARD,
        (("place < 0 ? 0.0f : load(table, place * table->strides[0]",
          "load(table, (place < 0 ? 0 : place) * table->strides[0]"),),
        _NATIVE, "an index of -1, and a first row that is not 0", _VALUE, "padding has the first row of the table",
    ),
    Mutant(
        "embedding-narrow-places", _FORWARD,
        (("const int64_t place = load_place(", "const int64_t place = (int8_t)load_place("),),
        _NATIVE, "an index of 128 or more", ("FAIL_UNWRITTEN", *_MEMORY), "places of 8 bits: right in short tables",
    ),
    Mutant(
        "embedding-rows-of-y", _FORWARD,
        (("place * table->strides[0] +", "place * y->strides[0] +"),),
        _NATIVE, "rows of the table and of y lie at different distances", _MEMORY,
        "the pitch of y for that of the table",
    ),
    Mutant(
        "embedding-negative-unchecked", _FORWARD,
        (("are_places(index, -1,", "are_places(index, INT64_MIN,"),),
        _NATIVE, "an index below -1", _ACCEPTED, "only the end of the table is looked for",
        explained_as=("place in index",),
    ),
    Mutant(
        "embedding-end-unchecked", _FORWARD,
        (("-1, table->shape[0])", "-1, INT64_MAX)"),),
        _NATIVE, "an index that is no less than the number of rows", _ACCEPTED, "E105: nobody looks for the end",
        explained_as=("place in index",),
    ),
    Mutant(
        "embedding-end-is-a-place", _FORWARD,
        (("-1, table->shape[0])", "-1, table->shape[0] + 1)"),),
        _NATIVE, "an index that is the number of rows", _ACCEPTED, "the place behind the last one is taken for one",
        explained_as=("place in index",),
    ),
    Mutant(
        "embedding-backward-unchecked", _BACKWARD,
        ((" || !are_places(index, -1, collected->shape[0])", ""),),
        _NATIVE, "an index that is no place", _ACCEPTED[:1], "a row of dy is lost without a word",
        explained_as=("place in index",),
    ),
    Mutant(
        "embedding-backward-repeated-lost", _BACKWARD,
        (("== v) sum += load(", "== v) sum = load("),),
        _NATIVE, "an index that comes twice", _VALUE, "of rows with one place the last one alone is kept",
    ),
    Mutant(
        "embedding-backward-sums-in-16-bits", _BACKWARD,
        (("sum += load(dy, t * dy->strides[0] + d * dy->strides[1]);",
          "sum = rounded(dtable->dtype, sum + load(dy, t * dy->strides[0] + d * dy->strides[1]));"),),
        _NATIVE, "16 bits and an index that comes several times", _VALUE, "E098: sums are kept in 16 bits",
    ),
    Mutant(
        "embedding-backward-first-row-cleared", _BACKWARD,
        (("before + sum);", "v == 0 && sum == 0 ? 0.0f : before + sum);"),),
        _NATIVE, "no gradient for the first row, and something collected", _VALUE,
        "a row without gradients is cleared, as if it were padding",
    ),
    Mutant(
        "triton-embedding-tail-unwritten", "embedding-rows",
        (("(len(index), triton.cdiv(n, BLOCK))](table", "(len(index), max(1, n // BLOCK))](table"),),
        _INTERPRETED, "d > 256 and no multiple of it", ("FAIL_UNWRITTEN", *_VALUE), "the tail of a long row is lost",
    ),
    Mutant(
        "triton-embedding-backward-not-atomic", "embedding-backward-atomic",
        (("tl.atomic_add(sums_ptr + place * n + column, dy, mask=inside)",
          "tl.store(sums_ptr + place * n + column, dy, mask=inside)"),),
        _INTERPRETED, "a gradient that is not all there is", _VALUE, "a store in the place of an addition",
    ),
    Mutant(
        "triton-embedding-backward-padding-added", "embedding-backward-atomic",
        (("    inside = column < tl.where(place < 0, 0, n)",
          "    inside = column < n\n    place = tl.where(place < 0, 0, place)"),),
        _INTERPRETED, "an index of -1", _VALUE, "the gradient of padding is added to the first row",
    ),
)  # fmt: skip
