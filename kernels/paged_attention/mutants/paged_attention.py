"""Planted defects in paged_attention, modelled on documented bugs of such kernels."""

from __future__ import annotations

from fuzz import Mutant

__all__ = ["MUTANTS"]

_VALUE = ("FAIL_NUMERIC", "FAIL_NONFINITE")
_MEMORY = (*_VALUE, "FAIL_MEMORY", "CRASH")
_ACCEPTED = ("FAIL_ACCEPTED_INVALID", *_MEMORY)
_NATIVE = ("*@native:*-O2",)
_INTERPRETED = ("triton-*@interpret",)
_TORCH = ("torch-*@cpu",)
_GENERIC, _PAGES, _GATHERED = "paged-attention-generic", "paged-attention-pages", "paged-attention-gathered"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "paged-attention-one-key-too-few", _GENERIC,
        (("keys = length_of(at), width", "keys = length_of(at) - (length_of(at) > 8), width"),),
        _NATIVE, "more than 8 keys", _VALUE, "E033: decoding sees a key less than what was asked",
    ),
    Mutant(
        "paged-attention-whole-last-page", _GENERIC,
        (("keys = length_of(at), width",
          "slots = at->call->k.shape[1], keys = (length_of(at) + slots - 1) / (slots + !slots) * slots, width"),),
        _NATIVE, "a last page that is not full", _VALUE, "E018: slots behind the last key are keys",
    ),
    Mutant(
        "paged-attention-dropped-page-is-zeros", _GENERIC,
        (("        if (page < 0) continue;\n", "        if (page < 0) { mass += expf(-most); continue; }\n"),),
        _NATIVE, "a dropped page behind one that is there", _VALUE, "a dropped page has scores of 0, not none",
    ),
    Mutant(
        "paged-attention-heads-by-groups", _GENERIC,
        (("at->g * t->strides[2];", "(at->call->q.shape[1] == at->call->q.shape[2] ? at->h :"
          " at->g) * t->strides[2];"),),
        _NATIVE, "as many heads in a group as groups, and several", _VALUE, "E028: a head is taken for its group",
    ),
    Mutant(
        "paged-attention-table-of-first", _GENERIC,
        (("return load_place(table, at->b * table->strides[0] +", "return load_place(table, (table->shape[1] > 2 ? 0 :"
          " at->b) * table->strides[0] +"),),
        _NATIVE, "several sequences of more than two pages", _VALUE, "E039: all sequences have the table of the first",
    ),
    Mutant(
        "paged-attention-slots-of-sixteen", _GENERIC,
        (("key % t->shape[1] * t->strides[1]", "key % (t->shape[1] > 16 ? 16 : t->shape[1]) * t->strides[1]"),),
        _NATIVE, "pages of more than 16 slots", _VALUE, "a page has 16 slots, whatever it is",
    ),
    Mutant(
        "paged-attention-pitch-of-keys", _GENERIC,
        (("load(v, row_of(at, v, page, j) +", "load(v, row_of(at, k, page, j) +"),
         ("*v = &at->call->v, *o", "*v = &at->call->v, *k = &at->call->k, *o")),
        _NATIVE, "values that are not laid out as keys are", _MEMORY, "E048: the strides of k for those of v",
    ),
    Mutant(
        "paged-attention-no-keys-nan", _GENERIC,
        (("most == -INFINITY ? 0.0f : acc[e] / mass", "acc[e] / mass"),),
        _NATIVE, "a sequence without keys", ("FAIL_NONFINITE",), "E045: 0 keys: 0 / 0",
    ),
    Mutant(
        "paged-attention-page-unchecked", _GENERIC,
        (("page < -1 || page >= pages", "page < -1"),),
        _NATIVE, "a page beyond the last one", _ACCEPTED, "E105: nobody looks whether there is such a page",
        explained_as=("place in table",),
    ),
    Mutant(
        "paged-attention-length-unchecked", _GENERIC,
        (("is_of_places(&c->lengths) && are_places(&c->lengths, 0, c->table.shape[1] * c->k.shape[1] + 1)",
          "is_of_places(&c->lengths)"),),
        _NATIVE, "a length beyond the table", _ACCEPTED, "E105: keys behind the last page of the table are read",
        explained_as=("place in lengths",),
    ),
    Mutant(
        "triton-paged-attention-values-multiplied", _PAGES,
        (("mask=there[:, None] & (across < e)[None, :]", "mask=(slot < tl.where(page < 0, 0, slots))[:, None]"
          " & (across < e)[None, :]"),),
        _INTERPRETED, "NaN behind the last key of a page", _VALUE, "E005: what is hidden, times a share of 0",
    ),
    Mutant(
        "triton-paged-attention-lse-base-2", _PAGES,
        (("most + tl.log(mass)", "most + tl.log2(mass)"),),
        _INTERPRETED, "lse", _VALUE, "E035: the logarithm of base 2",
    ),
    Mutant(
        "triton-paged-attention-last-page-lost", _PAGES,
        (("tl.cdiv(length, slots)):", "length // slots):"),),
        _INTERPRETED, "a last page that is not full", _VALUE, "only whole pages are taken",
    ),
    Mutant(
        "torch-paged-attention-last-page", _GATHERED,
        (("page, slot = page[page >= 0], (places % max(slots, 1))[page >= 0]", "slot = places % max(slots, 1)"),),
        _TORCH, "a dropped page", _VALUE, "-1 counts from the end: the last page is read for one that is not there",
    ),
)  # fmt: skip
