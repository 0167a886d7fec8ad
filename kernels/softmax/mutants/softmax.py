"""Planted defects in softmax, log_softmax and their gradients, modelled on documented bugs of such kernels."""

from __future__ import annotations

from fuzz import Mutant

__all__ = ["MUTANTS"]

_VALUE = ("FAIL_NUMERIC", "FAIL_NONFINITE")
_NATIVE = ("*@native:*-O2",)
_INTERPRETED = ("triton-*@interpret",)
_ROW = "    const float greatest = greatest_of(x, r), mass = mass_of(x, r, greatest);\n"
_LOG_ROW = "    const float greatest = greatest_of(x, r), logarithm = logf(mass_of(x, r, greatest));\n"
_EXP = "expf(load(x, at(r, x, i)) - greatest) / mass"
_GREATEST = "v_all(greatest_of(x, n))"
_CUT = "v_cut(v_exp(v_subtract(v_load(x + i, n - i, 0.0f), greatest)), n - i)"
_COUNT = "({ int64_t rows = 1; for (int a = 0; a < r->x->rank; a++) if (a != r->axis) rows *= r->x->shape[a]; rows; })"
_SHIFT = 'tl.where(greater == float("-inf"), 0.0, greater)'
_WHOLE_SUM = "tl.sum(tl.where(inside, tl.exp(x - greatest), 0.0), axis=0)"
_RESCALED = "mass = mass * tl.exp(greatest - shift) +"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "softmax-finite-sentinel", "softmax-generic",
        ((_ROW, _ROW.replace("greatest_of(x, r)", "fmaxf(greatest_of(x, r), -5e4f)")),),
        _NATIVE, "all elements of a row less than -5e4", _VALUE,
        "E001: the maximum starts at a finite number that stands for minus infinity",
    ),
    Mutant(
        "softmax-clamped-exponent", "softmax-generic",
        ((_EXP, "expf(fmaxf(load(x, at(r, x, i)) - greatest, -87.68f)) / mass"),),
        _NATIVE, "an element more than 88 below the greatest, or minus infinity", _VALUE,
        "an exponential whose argument is clamped: never 0, also where the row is masked",
    ),
    Mutant(
        "softmax-last-row-of-chunk-lost", "softmax-generic",
        ((_ROW, f"    if ({_COUNT} % 4 == 3 && r->number == {_COUNT} - 1) return;\n{_ROW}"),),
        _NATIVE, "rows mod 4 = 3", ("FAIL_UNWRITTEN", *_VALUE),
        "W02, E064: rows shared by programs, the last one's share one short",
    ),
    Mutant(
        "softmax-folded-base", "softmax-generic",
        ((_EXP, "exp2f(load(x, at(r, x, i)) * 0x1.715476p+0f - greatest * 0x1.715476p+0f) / mass"),),
        _NATIVE, "elements that are large beside their differences", _VALUE,
        "2^(x log2 e - max log2 e) built without contraction: the rounding of two large products does not cancel",
    ),
    Mutant(
        "softmax-avx2-padding-counts", "softmax-avx2",
        (
            (_CUT, "v_exp(v_subtract(v_load(x + i, n - i, -0x1.fffffep+127f), greatest))"),
            (_GREATEST, "v_max(v_all(greatest_of(x, n)), v_all(n % 8 != 0 ? -0x1.fffffep+127f : -INFINITY))"),
        ),
        _NATIVE, "n mod 8 != 0, a row all of minus infinity or near the lowest number", _VALUE,
        "E010: lanes beyond the row hold the lowest number, whose exponential is 1 where the row has nothing greater",
        fails_when=lambda n: n % 8 != 0,
    ),
    Mutant(
        "softmax-avx2-tail-not-in-maximum", "softmax-avx2",
        ((_GREATEST, "v_all(greatest_of(x, n > 8 ? n - n % 8 : n))"),),
        _NATIVE, "n > 8, n mod 8 != 0, an element of the tail more than 88 above all others", _VALUE,
        "E058: part of a row left out of the maximum, harmless until its elements are 88 greater",
        fails_when=lambda n: n > 8 and n % 8 != 0,
    ),
    Mutant(
        "softmax-avx2-rows-aligned-down", "softmax-avx2",
        (
            (
                "    const vector greatest = v_all(greatest_of(x, n));\n",
                "    if (n > 512 && n < 1024) x = (const float *)((uintptr_t)x & ~(uintptr_t)7);\n"
                "    const vector greatest = v_all(greatest_of(x, n));\n",
            ),
        ),
        _NATIVE, "512 < n < 1024, a row at an odd multiple of 4 bytes", (*_VALUE, "FAIL_MEMORY", "CRASH"),
        "E052, E054: rows after the first are not aligned as the first is; their first elements are wrong",
        fails_when=lambda n: 512 < n < 1024,
    ),
    Mutant(
        "softmax-sve-tail-in-sum", "softmax-sve",
        ((_CUT, _CUT.removeprefix("v_cut(").removesuffix(", n - i)")),),
        ("*@qemu:vl=*-O2",), "n no multiple of the vector, a greatest element that is not far above 0", _VALUE,
        "E120: lanes that the row does not have take part in its sum",
    ),
    Mutant(
        "log-softmax-added-first", "log-softmax-generic",
        (
            ("load(x, at(r, x, i)) - greatest - logarithm", "load(x, at(r, x, i)) - (greatest + logarithm)"),
        ),
        _NATIVE, "elements that are large beside their differences", _VALUE,
        "E053: the maximum added to the logarithm, which loses its last bits",
    ),
    Mutant(
        "log-softmax-of-softmax", "log-softmax-generic",
        (
            (_LOG_ROW, _LOG_ROW.replace("logarithm = logf(mass_of(x, r, greatest))", "mass = mass_of(x, r, greatest)")),
            (
                "load(x, at(r, x, i)) - greatest - logarithm",
                "logf(expf(load(x, at(r, x, i)) - greatest) / mass)",
            ),
        ),
        _NATIVE, "an element more than 88 below the greatest", _VALUE,
        "the logarithm of the finished softmax, minus infinity below -104: so does a published reference",
    ),
    Mutant(
        "log-softmax-logarithm-twice", "log-softmax-avx2",
        (("v_all(logf(v_sum(sum)))", "v_all(n > 2000 ? logf(logf(v_sum(sum))) : logf(v_sum(sum)))"),),
        _NATIVE, "n > 2000", _VALUE, "E061: the logarithm taken twice for wide rows",
        fails_when=lambda n: n > 2000,
    ),
    Mutant(
        "softmax-backward-layout-of-dx", "softmax-backward-generic",
        (
            (
                "const float dx = load(&g->y, at(r, &g->y, i)) *",
                "const float dx = load(&g->y, at(r, &g->dx, i)) *",
            ),
        ),
        _NATIVE, "y and dx of different strides", (*_VALUE, "FAIL_MEMORY", "CRASH"),
        "E056: a stored output that is not contiguous, read as if it were",
    ),
    Mutant(
        "log-softmax-backward-of-softmax", "log-softmax-backward-generic",
        (
            (
                "mass += load(&g->dy, at(r, &g->dy, i));",
                "mass += load(&g->dy, at(r, &g->dy, i)) * expf(load(&g->y, at(r, &g->y, i)));",
            ),
        ),
        _NATIVE, "nearly every row", _VALUE, "E059: the sum of the products, as softmax has it, for the sum of dy",
    ),
    Mutant(
        "triton-softmax-leading-mask", "softmax-online",
        ((_SHIFT, "greater"),),
        _INTERPRETED, "n > 1024 and a first block all of minus infinity", _VALUE,
        "E003, E009: minus infinity less itself in the sum's scaling",
        fails_when=lambda n: n > 1024,
    ),
    Mutant(
        "triton-softmax-small-steps-not-scaled", "softmax-online",
        ((_RESCALED, "mass = mass * tl.where(greatest - shift > -0.01, 1.0, tl.exp(greatest - shift)) +"),),
        _INTERPRETED, "n > 1024 and a greatest element that grows by less than 0.01 from block to block", _VALUE,
        "E043: a scaling left out where the maximum grows by little, and never made up for",
        fails_when=lambda n: n > 1024,
    ),
    Mutant(
        "triton-log-softmax-padding-counts", "log-softmax-whole-row",
        ((_WHOLE_SUM, "tl.sum(tl.exp(tl.maximum(x, -1e4) - greatest), axis=0)"),),
        _INTERPRETED, "all elements of a row less than about -9900, or minus infinity among them", _VALUE,
        "E002: -1e4 for minus infinity, which is not less than everything",
    ),
)  # fmt: skip
