"""Planted defects in attention, modelled on documented bugs of such kernels."""

from __future__ import annotations

from pathlib import Path

from fuzz import Mutant

__all__ = ["MUTANTS"]

_VALUE = ("FAIL_NUMERIC", "FAIL_NONFINITE")
_MEMORY = (*_VALUE, "FAIL_MEMORY", "CRASH")
_NATIVE = ("*@native:*-O2",)
_INTERPRETED = ("triton-*@interpret",)
_C = Path(__file__).resolve().parents[1] / "c"
_HEADERS = {name: (_C / name).read_text(encoding="utf-8") for name in ("scores.h", "forward.h")}
_AHEAD = "if (at->causal > 0 && ahead > 0) return false;"
_BEHIND = "if (at->window >= 0 && (float)ahead + at->window < 0) return false;"
_FLAG = (
    "return ((const uint8_t *)mask->data)[at->b * mask->strides[0] + at->i * mask->strides[1] + j * mask->strides[2]];"
)
_HIDDEN = "if (!sees(at, j)) return -INFINITY;"
_GROUP = "at->b * t->strides[0] + at->g * t->strides[1] + j * t->strides[2]"
_SHARE = "const real used = share(c, p[j]);"
_ZEROED = """const kf_tensor *mask = &c->mask;
        const int64_t flag = at->b * mask->strides[0] + at->i * mask->strides[1] + j * mask->strides[2];
        const bool is_seen = !is_present(mask) || ((const uint8_t *)mask->data)[flag];
        const real used = is_seen ? share(c, p[j]) : 0;"""
_CAP = "    if CAP:\n        s = cap * (1.0 - 2.0 / (tl.exp(2.0 * (s / cap)) + 1.0))\n"
_SEEN = "    s = seen(s, rows, keys, i, j, causal, window)\n"


def _in_the_headers(*edits: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    """The edit of a source that has its headers in it, with edits of their own."""
    text = _HEADERS["forward.h"].replace('#include "scores.h"\n', _HEADERS["scores.h"])
    for old, new in edits:
        before, behind = text.split(old)
        text = f"{before}{new}{behind}"
    return (('#include "forward.h"\n', text),)


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "attention-shares-in-bf16", "attention-generic", ((_SHARE, "const real used = rounded(KF_BF16, p[j]);"),),
        _NATIVE, "several keys", _VALUE, "shares rounded to bf16 and declared as float32",
    ),
    Mutant(
        "attention-causal-one-ahead", "attention-generic",
        _in_the_headers((_AHEAD, _AHEAD.replace("ahead > 0)", "ahead > 1)"))),
        _NATIVE, "causal, and a key behind the diagonal", _VALUE, "every query sees one key too many",
    ),
    Mutant(
        "attention-corner-at-the-top", "attention-generic",
        _in_the_headers(("at->causal >= 1.5f ?", "at->causal >= 1.5f && at->k->shape[2] < at->q->shape[3] ?")),
        _NATIVE, "causal = 2 and more keys than queries", _VALUE, "E021, W07: one corner for the other",
    ),
    Mutant(
        "attention-window-without-its-end", "attention-generic",
        _in_the_headers((_BEHIND, _BEHIND.replace("window < 0", "window <= 0"))),
        _NATIVE, "a window, and a key at its end", _VALUE, "E032, W08: one key too few on the left",
    ),
    Mutant(
        "attention-mask-after-the-softmax", "attention-generic",
        (
            *_in_the_headers((_FLAG, "(void)j;\n    return true;")),
            (_SHARE, _ZEROED),
        ),
        _NATIVE, "a mask that hides a key", _VALUE, "shares of hidden keys left out of the product, and not of the sum",
    ),
    Mutant(
        "attention-hidden-far-below", "attention-generic",
        _in_the_headers((_HIDDEN, "if (!sees(at, j)) return -10000;")),
        _NATIVE, "a hidden key, and scores below -10,000 or no key at all", _VALUE,
        "E002, W06: -10,000 in place of minus infinity",
    ),
    Mutant(
        "attention-heads-in-turn", "attention-generic",
        _in_the_headers((_GROUP, _GROUP.replace("at->g *", "(at->g * at->q->shape[2] + at->h) % t->shape[1] *"))),
        _NATIVE, "several groups of several heads", _VALUE, "E027: keys of the groups in turn, head after head",
    ),
    Mutant(
        "attention-lse-to-the-base-2", "attention-generic",
        _in_the_headers(("most + logarithm(mass)", "(most + logarithm(mass)) * 1.44269504f")),
        _NATIVE, "lse", _VALUE, "E035: the logarithm to the base 2",
    ),
    Mutant(
        "attention-nothing-without-keys", "attention-generic",
        (("if (!has_queries(&call->q))", "if (!has_queries(&call->q) || !call->k.shape[2])"),),
        _NATIVE, "no keys", ("FAIL_UNWRITTEN", *_VALUE), "E045: without keys nothing is written",
    ),
    Mutant(
        "attention-double-last-key", "attention-double",
        (("    for (int64_t j = 0; j < keys; j++) {\n        const int64_t from",
          "    for (int64_t j = 0; j < keys - (keys > 64 && keys % 64 == 1); j++) {\n        const int64_t from"),),
        _NATIVE, "keys mod 64 = 1, and more than 64", _VALUE, "E011: the only key of a last block of 64 left out",
    ),
    Mutant(
        "attention-flash-not-rescaled", "attention-flash",
        (("e < width; e++) acc[e] *= again;", "e < width && start != 2 * KEYS; e++) acc[e] *= again;"),),
        _NATIVE, "more than 32 keys, and the maximum behind them", _VALUE,
        "what there is so far is not rescaled for the third block",
    ),
    Mutant(
        "triton-attention-tail-of-keys", "attention-blocks",
        (("for start in range(0, j, ROWS):", "for start in range(0, j - (j > 32) * (j % ROWS), ROWS):"),),
        _INTERPRETED, "j > 32 and no multiple of 16", _VALUE, "keys behind the last whole block left out",
    ),
    Mutant(
        "triton-attention-not-rescaled", "attention-blocks",
        (("acc * again[:, None]", "acc * tl.where(start == 2 * ROWS, 1.0, again)[:, None]"),),
        _INTERPRETED, "more than 32 keys, and the maximum behind them", _VALUE,
        "what there is so far is not rescaled for the third block",
    ),
    Mutant(
        "triton-attention-scale-of-long-heads", "attention-blocks",
        (("s = tl.dot(q, k, input_precision=\"ieee\") * softmax_scale",
          "s = tl.dot(q, k, input_precision=\"ieee\") * tl.where(d > 64, 1.0, softmax_scale)"),),
        _INTERPRETED, "d > 64 and a scale that is not 1", _VALUE, "the scale forgotten on the path of long heads",
    ),
    Mutant(
        "triton-attention-cap-of-hidden", "attention-blocks",
        ((_CAP, ""), (_SEEN, _SEEN + "    if CAP:\n        s = tl.where(s == float(\"-inf\"), -cap, cap * (1.0 - 2.0 / "
          "(tl.exp(2.0 * (s / cap)) + 1.0)))\n")),
        _INTERPRETED, "a cap and a key that is hidden", _VALUE, "E011, E012: hidden keys have the score -cap",
    ),
    Mutant(
        "triton-attention-first-block-hidden", "attention-blocks",
        (('shift = tl.where(largest == float("-inf"), 0.0, largest)', "shift = largest"),),
        _INTERPRETED, "a first block without a key that is seen", _VALUE, "E003: a difference of two infinities",
    ),
    Mutant(
        "triton-attention-groups-for-heads", "attention-blocks",
        (("*heads, hidden, added, found, logs, h, g * h, i, j", "*heads, hidden, added, found, logs, g, g * h, i, j"),),
        _INTERPRETED, "another number of groups than heads in each", _MEMORY, "E028: divided by the number of groups",
    ),
    Mutant(
        "torch-attention-mask-added", "attention-composed",
        (('s = s.masked_fill(~_seen(q, k.shape[2], mask, causal, window), float("-inf"))\n    most',
          's = s + (1.0 - _seen(q, k.shape[2], mask, causal, window).to(wide)) * torch.finfo(wide).min\n    most'),),
        ("torch-*@cpu",), "a hidden key, and NaN there, or no key at all", _VALUE,
        "E004, E005: the lowest number added to hidden scores",
    ),
)  # fmt: skip
