"""Planted defects in layer_norm and its gradients, modelled on documented bugs of such kernels."""

from __future__ import annotations

from fuzz import Mutant

__all__ = ["MUTANTS"]

_VALUE = ("FAIL_NUMERIC", "FAIL_NONFINITE")
_NATIVE = ("*@native:*-O2",)
_CENTRED = (
    "        const real centred = load(&call->x, at(r, &call->x, i)) - mean;\n        total += centred * centred;\n"
)
_ROOT = "    return 1 / root(total / (real)r->n + (real)call->eps);\n"
_SCALED = "(load(&call->x, at(r, &call->x, i)) - mean) * rstd;"
_CUT = "v_cut(v_subtract(v_load(x + i, n - i, 0.0f), v_all(mean)), n - i)"
_COUNT = "({ int64_t rows = 1; for (int a = 0; a < r->x->rank; a++) if (a != r->axis) rows *= r->x->shape[a]; rows; })"
_INTERPRETED = ("triton-*@interpret",)

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "layer-norm-moments", "layer-norm-generic",
        (
            (_CENTRED, "        const real x = load(&call->x, at(r, &call->x, i));\n        total += x * x;\n"),
            (_ROOT, "    return 1 / root(total / (real)r->n - mean * mean + (real)call->eps);\n"),
        ),
        _NATIVE, "rows whose mean is large beside their spread", _VALUE,
        "E136: mean(x^2) - mean(x)^2, which cancels, and may be negative where a row is constant",
    ),
    Mutant(
        "layer-norm-mean-off-twice", "layer-norm-generic",
        ((_SCALED, "(load(&call->x, at(r, &call->x, i)) - (r->n > 1024 ? 2 : 1) * mean) * rstd;"),),
        _NATIVE, "n > 1024", _VALUE, "E137: the mean subtracted again from rows that are read in blocks",
        fails_when=lambda n: n > 1024,
    ),
    Mutant(
        "layer-norm-apart", "layer-norm-generic",
        ((_SCALED, "load(&call->x, at(r, &call->x, i)) * rstd - mean * rstd;"),),
        _NATIVE, "rows whose mean is large beside their spread", _VALUE,
        "x rstd - mean rstd for (x - mean) rstd: correct by another contract, and off by u |mean| rstd",
    ),
    Mutant(
        "layer-norm-statistics-in-dtype-of-x", "layer-norm-generic",
        (
            ("at_row(&r, &call->mean), mean);", "at_row(&r, &call->mean), rounded(call->x.dtype, mean));"),
            ("at_row(&r, &call->rstd), rstd);", "at_row(&r, &call->rstd), rounded(call->x.dtype, rstd));"),
        ),
        _NATIVE, "x of 16 bits, mean or rstd wanted", _VALUE,
        "stored statistics rounded to 16 bits: y is right, and gradients made of them are not",
    ),
    Mutant(
        "layer-norm-eps-in-dtype-of-x", "layer-norm-generic",
        ((_ROOT, _ROOT.replace("(real)call->eps", "rounded(call->x.dtype, call->eps)")),),
        _NATIVE, "x of 16 bits, a variance comparable to eps", _VALUE,
        "eps cast to the dtype of x: 1e-8 is zero in f16",
    ),
    Mutant(
        "layer-norm-block-of-mean-lost", "layer-norm-generic",
        (
            (
                "i < r->n; i++) total += load(&call->x, at(r, &call->x, i));",
                "i < (r->n > 256 ? r->n - r->n % 256 : r->n); i++) total += load(&call->x, at(r, &call->x, i));",
            ),
        ),
        _NATIVE, "n > 256, no multiple of it", _VALUE, "E137: the last, partial block of wide rows left out of a mean",
        fails_when=lambda n: n > 256 and n % 256 != 0,
    ),
    Mutant(
        "layer-norm-avx2-padding-counts", "layer-norm-avx2",
        ((_CUT, "v_subtract(v_load(x + i, n - i, 0.0f), v_all(mean))"),),
        ("*@native:*-O2",), "n mod 8 != 0 and a mean that is not small beside the spread", _VALUE,
        "lanes beyond the row are zeros, and each adds the square of the mean to the variance: unseen at mean 0",
        fails_when=lambda n: n % 8 != 0,
    ),
    Mutant(
        "layer-norm-sve-padding-counts", "layer-norm-sve",
        ((_CUT, "v_subtract(v_load(x + i, n - i, 0.0f), v_all(mean))"),),
        ("*@qemu:vl=*-O2",), "n no multiple of the vector, and a mean that is not small beside the spread", _VALUE,
        "E120: what a predicate leaves out counts all the same",
    ),
    Mutant(
        "layer-norm-avx2-bias-of-whole-vectors", "layer-norm-avx2",
        (("if (bias != NULL) value", "if (bias != NULL && left >= v_lanes()) value"),),
        ("*@native:*-O2",), "a bias, n mod 8 != 0", _VALUE, "an epilogue whose tail forgets one of its operands",
        fails_when=lambda n: n % 8 != 0,
    ),
    Mutant(
        "layer-norm-backward-last-group-lost", "layer-norm-backward-generic",
        (
            (
                "        if (dw != NULL) dw[i] += dy * h;\n        if (db != NULL) db[i] += dy;\n",
                f"        const int64_t rows = {_COUNT};\n"
                "        const bool lost = rows % 8 < 4 && r->number >= rows - rows % 8;\n"
                "        if (dw != NULL && !lost) dw[i] += dy * h;\n        if (db != NULL && !lost) db[i] += dy;\n",
            ),
        ),
        _NATIVE, "dw or db, rows mod 8 in 1..3", _VALUE,
        "W01: rows in groups, of which a last one of fewer than 4 is left out",
    ),
    Mutant(
        "layer-norm-backward-mean-of-g-dropped", "layer-norm-backward-generic",
        (("(weighted_dy(call, r, i) - f.of_g - h * f.of_gh)", "(weighted_dy(call, r, i) - h * f.of_gh)"),),
        _NATIVE, "dy times weight whose mean is not small", _VALUE,
        "the gradient of rms_norm taken for that of layer_norm: alike where dy has no mean",
    ),
    Mutant(
        "layer-norm-backward-given-mean-ignored", "layer-norm-backward-generic",
        (("    if (is_present(&call->mean)) return load(&call->mean, at_row(r, &call->mean));\n", ""),),
        _NATIVE, "a mean that is given, and not that of the row to the last bit", _VALUE,
        "statistics formed again where the forward's were given",
    ),
    Mutant(
        "layer-norm-backward-db-of-weighted-dy", "layer-norm-backward-generic",
        (("if (db != NULL) db[i] += dy;", "if (db != NULL) db[i] += weighted_dy(call, r, i);"),),
        _NATIVE, "db with a weight that is not 1", _VALUE, "the gradient of the bias multiplied by the weight",
    ),
    Mutant(
        "triton-layer-norm-padding-counts", "layer-norm-whole-row",
        (
            (
                "    # Beyond the row are zeros, which lie beside the mean.\n"
                "    centred = tl.where(inside, x - mean, 0.0)\n",
                "    centred = x - mean\n",
            ),
        ),
        _INTERPRETED, "n no power of two, and a mean that is not small beside the spread", _VALUE,
        "a masked load without a mask on what is made of it: unseen at mean 0",
        fails_when=lambda n: n & (n - 1) != 0,
    ),
    Mutant(
        "triton-layer-norm-backward-last-rows-lost", "layer-norm-backward-persistent",
        (("range(tl.program_id(0), rows, tl.num", "range(tl.program_id(0), rows - rows % tl.num_programs(0), tl.num"),),
        _INTERPRETED, "rows that are no multiple of the programs", ("FAIL_UNWRITTEN", *_VALUE),
        "E064: rows shared by programs, those of the last incomplete round lost",
    ),
    Mutant(
        "triton-layer-norm-backward-partials-in-dtype", "layer-norm-backward-persistent",
        (("        dw += dy * h\n", "        dw = (dw + dy * h).to(x_ptr.dtype.element_ty).to(tl.float32)\n"),),
        _INTERPRETED, "dw of 16 bits over several rows, or of f32 beside x of 16 bits", _VALUE,
        "partial gradients of the weight held in 16 bits",
    ),
)  # fmt: skip
