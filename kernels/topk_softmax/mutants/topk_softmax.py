"""Planted defects in topk_softmax and softmax_of_topk, as kernels that find experts have had them."""

from __future__ import annotations

from pathlib import Path

from fuzz import Mutant

__all__ = ["MUTANTS"]

_HEADER = (Path(__file__).resolve().parents[1] / "c" / "picks.h").read_text(encoding="utf-8")

_VALUE = ("FAIL_NUMERIC", "FAIL_NONFINITE")
_NATIVE = ("*@native:*-O2",)
_INTERPRETED = ("triton-*@interpret",)
_OF_ALL, _OF_TOP, _TRITON = "topk-softmax-generic", "softmax-of-topk-generic", "topk-softmax-whole-row"


def _in_the_header(*edits: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    """The edit of a source that has the search for picks with edits of its own."""
    text = _HEADER
    for old, new in edits:
        before, behind = text.split(old)
        text = f"{before}{new}{behind}"
    return (('#include "picks.h"\n', text),)


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "topk-softmax-tie-skipped", _OF_ALL,
        _in_the_header((" || (value == before.value && place > before.place)", "")),
        _NATIVE, "two equal elements among the largest", _VALUE, "of equal ones the first alone is found",
    ),
    Mutant(
        "topk-softmax-tie-twice", _OF_ALL,
        _in_the_header(("place > before.place", "place != before.place")),
        _NATIVE, "three equal elements among the largest", _VALUE, "of three equal ones the first is found twice",
    ),
    Mutant(
        "topk-softmax-masked-is-none", _OF_ALL,
        _in_the_header(
            ("pick found = {NAN, -1};", "pick found = {-INFINITY, 0};"),
            ("(found.place < 0 || value > found.value)", "value > found.value"),
        ),
        _NATIVE, "fewer than k elements above minus infinity", _VALUE, "an expert of minus infinity is never found",
    ),
    Mutant(
        "topk-softmax-without-maximum", _OF_ALL,
        (("const float greatest = next_pick(x, &r, NONE).value;", "const float greatest = 0.0f;"),),
        _NATIVE, "a logit above 88, or all below -104", _VALUE, "the maximum is not subtracted",
    ),
    Mutant(
        "topk-softmax-always-renormalised", _OF_ALL, (("call->renormalise > 0 ? kept : 1.0f", "kept"),),
        _NATIVE, "renormalise = 0 and k < n", _VALUE, "the weights add up to 1 unasked",
    ),
    Mutant(
        "topk-softmax-last-expert-unkept", _OF_ALL,
        (("kept += expf(", "if (j > 0 || r.n == 1) kept += expf("),),
        _NATIVE, "renormalise and n > 1", _VALUE, "the first weight is no part of what they are divided by",
    ),
    Mutant(
        "topk-softmax-weights-kept-in-16-bits", _OF_ALL,
        (("kept += expf(each.value - greatest) / mass;",
          "kept = rounded(call->x.dtype, kept + expf(each.value - greatest) / mass);"),),
        _NATIVE, "renormalise, logits of 16 bits, weights of f32", _VALUE, "weights are added in the dtype of logits",
    ),
    Mutant(
        "topk-softmax-place-of-a-byte", _OF_ALL, _in_the_header(("each.place);", "(uint8_t)each.place);")),
        _NATIVE, "one of the largest beyond place 255", _VALUE, "places of 8 bits",
    ),
    Mutant(
        "topk-softmax-tail-of-experts-lost", _OF_ALL,
        _in_the_header(("i < r->n;", "i < (r->n < 9 ? r->n : r->n / 8 * 8);")),
        _NATIVE, "n > 8, one of the largest in the last n mod 8", _VALUE, "experts after the last whole vector",
    ),
    Mutant(
        "topk-softmax-nan-is-zero", _OF_ALL,
        _in_the_header(
            ("expf(each.value - greatest) / mass / kept", "fmaxf(expf(each.value - greatest) / mass / kept, 0.0f)"),
        ),
        _NATIVE, "a NaN in a row, or all minus infinity", ("FAIL_NONFINITE",), "W20: a maximum passes over NaN",
    ),
    Mutant(
        "softmax-of-topk-of-all", _OF_TOP,
        (("j < weight->shape[weight->rank - 1]; j++) {\n            each", "j < r.n; j++) {\n            each"),),
        _NATIVE, "k < n", _VALUE, "the softmax of all logits for that of the largest",
    ),
    Mutant(
        "softmax-of-topk-last-of-equals", _OF_TOP,
        _in_the_header(
            ("place > before.place", "place < before.place"), ("{INFINITY, -1}", "{INFINITY, INT64_MAX}"),
            ("value > found.value", "value >= found.value"),
        ),
        _NATIVE, "two equal elements among the largest", ("FAIL_NUMERIC",), "of equal ones the last comes first",
    ),
    Mutant(
        "triton-topk-softmax-lanes-beyond", _TRITON,
        (('tl.load(x_ptr + row * x_pitch + column, mask=inside, other=float("-inf"))',
          "tl.load(x_ptr + row * x_pitch + column, mask=inside, other=0.0)"),
         ("tl.where(inside, tl.exp(x - greatest), 0.0)", "tl.exp(x - greatest)")),
        _INTERPRETED, "n is no power of two", _VALUE, "lanes beyond the row count as logits of 0",
    ),
    Mutant(
        "triton-softmax-of-topk-taken-as-low", "softmax-of-topk-whole-row",
        (("left = left & (column != place)", "x = tl.where(column == place, -10000.0, x)"),),
        _INTERPRETED, "the k-th largest element at or below -10000", _VALUE,
        "what is taken is marked by a number that others are below",
    ),
    Mutant(
        "torch-softmax-of-topk-equals-turned", "softmax-of-topk-eager",
        (("movedim(axis, -1).sort(", "movedim(axis, -1).flip(-1).sort("),
         ("expert.copy_(found[", "expert.copy_(x.shape[axis] - 1 - found[")),
        ("torch-*@cpu",), "two equal elements among the largest", ("FAIL_NUMERIC",),
        "a sort that has equal ones from the last",
    ),
    Mutant(
        "torch-topk-softmax-renormalised-over-tokens", "topk-softmax-eager",
        (("largest.sum(-1, keepdim=True)", "largest.sum(0, keepdim=True)"),),
        ("torch-*@cpu",), "renormalise and several rows", _VALUE, "weights are divided by the sum of another axis",
    ),
)  # fmt: skip
