"""Planted defects in rope of either pairing and its gradients, modelled on documented bugs of such kernels."""

from __future__ import annotations

from pathlib import Path

from fuzz import Mutant

__all__ = ["MUTANTS"]

_VALUE = ("FAIL_NUMERIC", "FAIL_NONFINITE")
_MEMORY = ("FAIL_MEMORY", "CRASH")
_NATIVE = ("*@native:*-O2",)
_INTERPRETED = ("triton-*@interpret",)
_HEADER = (Path(__file__).resolve().parents[1] / "c" / "rope.h").read_text(encoding="utf-8")
_COS = "const float c = load(cos, t * cos->strides[0] + i * cos->strides[1]);"
_SIN = "load(sin, t * sin->strides[0] + i * sin->strides[1]);"
_PLACE = "const int64_t t = r->index[p.place];"
_HIGH = "v_store(high + i, left, v_add(v_multiply(y, c), v_multiply(x, s)));"
_APART = "first, apart = head * width + pair, pairs"
_REST = "range(2 * pairs, width, REST)"


def _in_the_header(*edits: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    """The edit of a source that has the loops over pairs with edits of its own."""
    text = _HEADER
    for old, new in edits:
        before, behind = text.split(old)
        text = f"{before}{new}{behind}"
    return (('#include "rope.h"\n', text),)


def _in_16_bits(dtype: str) -> str:
    """The place of a head, rounded to a dtype that lacks most large ones."""
    return (
        f"const float last = (float)(cos->shape[0] - 1), place = rounded({dtype}, (float)r->index[p.place]);\n"
        "    const int64_t t = (int64_t)fminf(place, last);"
    )


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "rope-half-of-head", "rope-generic",
        _in_the_header(
            ("from + x->strides[p.pair]", "from + x->shape[p.piece] / 2 * x->strides[p.pair]"),
            ("to + y->strides[p.pair]", "to + x->shape[p.piece] / 2 * y->strides[p.pair]"),
            (
                "if (r.index[p.piece] >= p.pieces)",
                "if (r.index[p.piece] != 0 && r.index[p.piece] != x.shape[p.piece] / 2)",
            ),
        ),
        _NATIVE, "w > 3: more is left as it is than half of what is rotated", _VALUE,
        "W10, E071: half of the head's dimension in place of half of what is rotated",
    ),
    Mutant(
        "rope-place-in-bf16", "rope-generic",
        _in_the_header((_PLACE, _in_16_bits("KF_BF16"))),
        _NATIVE, "more than 257 places: an odd one beyond 256", _VALUE, "W09, E072: positions held in bf16",
    ),
    Mutant(
        "rope-tables-in-dtype-of-x", "rope-generic",
        _in_the_header(
            (_COS, _COS.replace("load(", "rounded(x->dtype, load(").replace(";", ");")),
            (f"direction * {_SIN}", f"direction * rounded(x->dtype, {_SIN[:-1]});"),
        ),
        _NATIVE, "x of 16 bits and tables of f32", _VALUE, "E072: tables of f32 cast to the dtype of x",
    ),
    Mutant(
        "rope-avx2-left-half-first", "rope-avx2",
        (
            (
                _HIGH,
                "const vector again = left < v_lanes() ? v_load(a + i, left, 0.0f) : x;\n"
                f"        {_HIGH.replace('(x, s)', '(again, s)')}",
            ),
        ),
        _NATIVE, "in place and r mod 8 != 0", _VALUE,
        "W11: the left half of the tail is written before the right half is formed of it",
    ),
    Mutant(
        "rope-avx2-pieces-of-x", "rope-avx2",
        (("to, to + y->strides[run - 1]", "to, to + x->strides[run - 1]"),),
        _NATIVE, "x and y whose pieces lie differently far apart", (*_VALUE, *_MEMORY, "FAIL_UNWRITTEN"),
        "E089: the output addressed as if it lay as the input does",
    ),
    Mutant(
        "rope-sve-rest-by-fours", "rope-sve",
        (("(size_t)r.n * sizeof *to);", "(size_t)(r.n > 4 ? r.n & ~(int64_t)3 : r.n) * sizeof *to);"),),
        ("*@qemu:vl=*-O2",), "w > 2, r > 4 and r mod 4 != 0, not in place", ("FAIL_UNWRITTEN", *_VALUE),
        "E071: channels that are not rotated, moved four at a time and the last few not at all",
    ),
    Mutant(
        "triton-rope-padded-half", "rope-heads",
        ((_APART, "first, apart = head * width + pair, BLOCK"),),
        _INTERPRETED, "r that is no power of two", (*_VALUE, *_MEMORY, "FAIL_UNWRITTEN"),
        "E075: the second half addressed behind the padding of the first",
    ),
    Mutant(
        "triton-rope-other-pairing", "rope-heads",
        (("    if NEIGHBOURS:\n", "    if not NEIGHBOURS:\n"),),
        _INTERPRETED, "r > 1", _VALUE, "E076: neighbours rotated where halves were meant",
    ),
    Mutant(
        "rope-interleaved-table-by-columns", "rope-interleaved-generic",
        _in_the_header((_COS, _COS.replace("+ i *", "+ 2 * i *")), (_SIN, _SIN.replace("+ i *", "+ 2 * i *"))),
        _NATIVE, "r > 1", (*_VALUE, *_MEMORY), "E070: tables of half the length read at the place of the column",
    ),
    Mutant(
        "rope-interleaved-products-rounded", "rope-interleaved-generic",
        _in_the_header(("a * c - b * s);", "rounded(y->dtype, a * c) - rounded(y->dtype, b * s));")),
        _NATIVE, "x of 16 bits whose products cancel", _VALUE, "E074: products rounded to 16 bits before they cancel",
    ),
    Mutant(
        "triton-rope-interleaved-order-of-heads", "rope-interleaved-heads",
        (("place = head % places", "place = head // (tl.num_programs(0) // places)"),),
        _INTERPRETED, "more than one place and more than one batch", _VALUE,
        "E077: the stride of the batch misread: heads counted as if places came first",
    ),
    Mutant(
        "rope-backward-not-turned-back", "rope-backward-generic",
        (("halves(&call->dy), -1.0f)", "halves(&call->dy), 1.0f)"),),
        _NATIVE, "nearly every pair", _VALUE, "a control: the sign of the sine",
    ),
    Mutant(
        "rope-backward-first-read-again", "rope-backward-generic",
        _in_the_header(("b * c + a * s);", "b * c + load(x, from) * s);")),
        _NATIVE, "in place", _VALUE, "W11: the first of a pair written before the second is formed of it",
    ),
    Mutant(
        "rope-backward-copied-one-way", "rope-backward-generic",
        _in_the_header(
            (
                "void *copy;\n    if (!detach",
                "void *copy = NULL;\n    if ((char *)y->data >= (char *)x.data && !detach",
            ),
        ),
        _NATIVE, "dx overlaps dy in part and begins before it", _VALUE,
        "the rule of memmove, that going up is safe where the output begins first: halves are not read going up",
    ),
    Mutant(
        "triton-rope-backward-rest-of-one-block", "rope-backward-heads",
        ((_REST, "range(2 * pairs, 2 * pairs + REST, REST)"),),
        _INTERPRETED, "more than 64 channels that are not rotated", ("FAIL_UNWRITTEN", *_VALUE),
        "W10: of the channels that are not rotated, those of a first block only",
    ),
    Mutant(
        "rope-interleaved-backward-pitch-of-cos", "rope-interleaved-backward-generic",
        _in_the_header((_SIN, _SIN.replace("sin->", "cos->"))),
        _NATIVE, "cos and sin of different strides", (*_VALUE, *_MEMORY),
        "E077: a table read by the strides of another",
    ),
    Mutant(
        "triton-rope-interleaved-backward-padded-tables", "rope-interleaved-backward-heads",
        (("cos_ptr + place * pairs + pair", "cos_ptr + place * BLOCK + pair"),),
        _INTERPRETED, "r that is no power of two, more than one place", (*_VALUE, *_MEMORY),
        "E075: rows of a table taken to be as long as the padded block",
    ),
    # Not in Triton: interpreted kernels are given no case of so many places.
    Mutant(
        "rope-interleaved-backward-place-in-f16", "rope-interleaved-backward-generic",
        _in_the_header((_PLACE, _in_16_bits("KF_F16"))),
        _NATIVE, "more than 2049 places: an odd one beyond 2048", _VALUE, "E072: positions held in f16",
    ),
)  # fmt: skip
