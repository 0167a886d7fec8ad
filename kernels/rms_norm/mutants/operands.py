"""Planted defects in the kernels with optional tensors, mixed dtypes and any strides, each modelled on a real one."""

from __future__ import annotations

from fuzz import Mutant

_VALUE = ("FAIL_NUMERIC", "FAIL_NONFINITE")
_PLACE = (*_VALUE, "FAIL_MEMORY")
"""Reads at a wrong place are caught as one of these: what lies there is another element, poison, or nothing."""

_MISSING = ("FAIL_UNWRITTEN", *_VALUE)
"""An output that is not written is caught as one of these: in the memory of an input it still holds that input."""


def _planted(
    name: str,
    base: str,
    old: str,
    new: str,
    trigger: str,
    provenance: str,
    caught_as: tuple[str, ...] = _VALUE,
    big: bool = False,
    explained_as: tuple[str, ...] = (),
) -> Mutant:
    where = ("*@native:*-O2",)
    return Mutant(
        name, base, ((old, new),), where, trigger, caught_as, provenance, None, big, explained_as=explained_as
    )


_X = "        const real x = load(&call->x, at(r, &call->x, i));\n        total += x * x;"
_SCALED = "real y = load(&call->x, at(r, &call->x, i)) * rstd;"
_STORED = "        store(&call->y, at(r, &call->y, i), y);\n"
_STORED_RSTD = "if (is_present(&call->rstd)) store("
_TIMES_WEIGHT = "y *= scale_of(r, &call->weight, i, call->weight_offset);"
_WEIGHTED = "    const real dy = load(&call->dy, at(r, &call->dy, i));\n"
_H = "        const real h = load(&call->x, at(r, &call->x, i)) * rstd;\n"
_DX = "real dx = rstd * (weighted_dy(call, r, i) - h * projection);"
_DW = "        if (dw != NULL) dw[i] += load(&call->dy, at(r, &call->dy, i)) * h;\n"
_STORED_DX = "        store(&call->dx, at(r, &call->dx, i), dx);\n"

FORWARD: tuple[Mutant, ...] = (
    _planted(
        "weighted-writes-into-gaps", "weighted", _STORED,
        _STORED + "        if (call->y.rank == 1 && call->y.strides[0] == 2 && i + 1 < r->n)\n"
        "            store(&call->y, at(r, &call->y, i) + 1, 0);\n",
        "y of rank 1 with a gap after every element", "a store of two lanes where one is wanted", ("FAIL_MEMORY",),
        explained_as=("step of y = 2", "rank"),
    ),
    _planted(
        "weighted-second-pass-ignores-stride", "weighted", _SCALED,
        "real y = load(&call->x, at(r, &call->x, 0) + i) * rstd;",
        "x whose elements are not neighbours along the row", "M30, B030: the second pass takes the row as contiguous",
        _PLACE,
        explained_as=("passes at layout of x = contiguous",),
    ),
    _planted(
        "weighted-offset-in-16-bits", "weighted", _SCALED,
        "real y = load(&call->x, (int16_t)at(r, &call->x, i)) * rstd;",
        "an element more than 32767 elements from the first one", "M17, B057, scaled down: offsets that wrap around",
        (*_PLACE, "CRASH"),
        explained_as=("furthest element of x >= 32768",),
    ),
    _planted(
        "weighted-offset-in-32-bits", "weighted", _SCALED,
        "real y = load(&call->x, (int32_t)at(r, &call->x, i)) * rstd;",
        "an element more than 2^31 elements from the first one", "M17, B057: row times pitch in int",
        _PLACE, big=True,
    ),
    _planted(
        "weighted-rows-of-a-grid", "weighted", "while (next_row(&r));", "while (next_row(&r) && r.index[0] < 65535);",
        "more than 65535 rows", "M18, B060: the second dimension of a launch grid ends at 65535",
        ("FAIL_UNWRITTEN",), big=True,
    ),
    _planted(
        "weighted-rstd-unwritten", "weighted", _STORED_RSTD, "if (is_present(&call->rstd) && r.n > 4) store(",
        "a stored rstd of rows of at most 4", "a small-row path that forgets the optional output", ("FAIL_UNWRITTEN",),
        explained_as=("n <= 4",),
    ),
    _planted(
        "weighted-reads-weight-as-x", "weighted", _TIMES_WEIGHT,
        "{\n            kf_tensor weight = call->weight;\n            weight.dtype = call->x.dtype;\n"
        "            y *= scale_of(r, &weight, i, call->weight_offset);\n        }",
        "a weight of another dtype than x", "C9: one pointer type for all tensors", _PLACE,
        explained_as=("dtype of weight and that of x = differ",),
    ),
    _planted(
        "weighted-ignores-weight-stride", "weighted", _TIMES_WEIGHT,
        "{\n            kf_tensor weight = call->weight;\n            if (weight.rank == 1) weight.strides[0] = 1;\n"
        "            y *= scale_of(r, &weight, i, call->weight_offset);\n        }",
        "a weight of rank 1 whose elements are not neighbours", "a weight sliced out of a larger parameter", _PLACE,
        explained_as=("step of weight != 1",),
    ),
    _planted(
        "weighted-first-row-of-weights", "weighted", _TIMES_WEIGHT,
        "{\n            kf_tensor weight = call->weight;\n            if (weight.rank == 2) weight.shape[0] = 1;\n"
        "            y *= scale_of(r, &weight, i, call->weight_offset);\n        }",
        "a weight of several rows", "C3, B044: the first row of the weight serves every row",
        explained_as=("rows of weight >= 2",),
    ),
    _planted(
        "weighted-llama-takes-any-weight", "weighted-llama", "weight.rank <= WEIGHT_RANK", "weight.rank <= 2",
        "a weight of rank 2, which is declared to be rejected", "B064: a weight's shape that nobody checks",
        ("FAIL_ACCEPTED_INVALID",),
        explained_as=("rank of weight",),
    ),
    _planted(
        "weighted-eps-as-x", "weighted", "(real)call->eps", "rounded(call->x.dtype, (real)call->eps)",
        "f16, eps below the smallest subnormal or far from a number of f16, small rows",
        "tract's graph rewrite: eps in the dtype of the input, 1e-8 becomes 0", (*_VALUE, "FAIL_LAW"),
        explained_as=("rounding eps to the dtype of x",),
    ),
    _planted(
        "weighted-overlap-forgotten", "weighted",
        "if (!detach(&call.x, &call.y, &call.y, &copy)) return KF_REJECTED;", "copy = NULL;",
        "y that overlaps x in part", "B053: memcpy where memmove is wanted, on a larger scale", _PLACE,
        explained_as=("y overlaps x in part, over elements that come later",),
    ),
    _planted(
        "add-same-buffer-added-once", "add-generic", "x + load(&call->residual, at(r, &call->residual, i))",
        "x + (call->x.data == call->residual.data ? 0 : load(&call->residual, at(r, &call->residual, i)))",
        "x and residual one buffer", "a pointer comparison that stands for 'there is no residual'",
        explained_as=("residual and x are one buffer",),
    ),
    _planted(
        "add-residual-at-pitch-of-x", "add-generic", "at(r, &call->residual, i)", "at(r, &call->x, i)",
        "x and residual with different strides", "C8: one pitch for two tensors", _PLACE,
        explained_as=("passes at layout of x = ", "passes at layout of residual = "),
    ),
    _planted(
        "add-sum-unwritten", "add-generic", "if (is_present(&call->sum)) store",
        "if (is_present(&call->sum) && is_present(&call->weight)) store",
        "a stored sum without a weight", "an optional output tied to an optional input", _MISSING,
        explained_as=("sum = there",),
    ),
    _planted(
        "add-modifies-residual", "add-generic", "        if (is_present(&call->sum)) store",
        "        if (!is_present(&call->sum)) store(&call->residual, at(r, &call->residual, i), sums[i]);\n"
        "        if (is_present(&call->sum)) store",
        "no stored sum", "kernels that are always in place keep the sum in the residual", ("FAIL_INPUT_MODIFIED",),
    ),
)  # fmt: skip

BACKWARD: tuple[Mutant, ...] = (
    _planted(
        "backward-rstd-of-first-row", "backward-generic", "at_row(r, &call->rstd)",
        "r->index[0] == 0 ? 0 : at_row(r, &call->rstd) - call->rstd.strides[0]",
        "rstd given, two rows or more", "rstd of the neighbour row, by an index that lags one row behind", _PLACE,
        explained_as=("rstd = there", "rows >= 2"),
    ),
    _planted(
        "backward-takes-any-weight", "backward-generic",
        "return !is_present(&call->weight) || call->weight.rank == 1;", "return true;",
        "a weight of rank 2, which gradients do not have", "B064: a weight's shape that nobody checks",
        ("FAIL_ACCEPTED_INVALID",),
    ),
    _planted(
        "backward-projection-dropped", "backward-generic", _DX, "real dx = rstd * weighted_dy(call, r, i);",
        "dy that is not orthogonal to x", "gradients that forget that the scale depends on x",
    ),
    _planted(
        "backward-projection-halved", "backward-generic", "- h * projection)", "- h * projection * (real)0.5)",
        "dy that is not orthogonal to x", "the factor 2 of d(x^2) lost or counted twice",
    ),
    _planted(
        "backward-weight-twice", "backward-generic", "total += h * weighted_dy(call, r, i);",
        "total += h * weighted_dy(call, r, i) * scale_of(r, &call->weight, i, call->weight_offset);",
        "a weight that is not 1", "M06, B113: the projection multiplied once more by the weight",
    ),
    _planted(
        "backward-mean-over-n-plus-1", "backward-generic", "return total / (real)r->n;",
        "return total / (real)(r->n + 1);", "dy that is not orthogonal to x", "padded rows counted in the mean",
    ),
    _planted(
        "backward-dw-loses-last-row", "backward-generic", "if (dw != NULL) dw[i]",
        "if (dw != NULL && r->index[0] + 1 < call->x.shape[0]) dw[i]",
        "dw with a last row that matters", "the last rows of a grid-stride loop", _VALUE,
    ),
    _planted(
        "backward-dw-unwritten", "backward-generic", "i < call->dw.shape[0]; i++", "i < (call->dw.shape[0] & ~7); i++",
        "dw, n no multiple of 8", "a tail of dw that nobody stores", ("FAIL_UNWRITTEN",),
        explained_as=("dw = there", "n mod 8 != 0"),
    ),
    Mutant(
        "backward-dx-over-dy-too-early", "backward-generic", ((_DW, ""), (_STORED_DX, _STORED_DX + _DW)),
        ("*@native:*-O2",), "dx in the memory of dy, with dw", _VALUE,
        "M23, B031, B053: dx is stored into dy, which dw still needs",
        explained_as=("dx in place of dy = yes", "dw = there"),
    ),
    _planted(
        "add-backward-dsum-left-out", "add-backward-generic", ".dsum = call->dsum, ", "", "dsum",
        "the gradient of the residual sum left out", _VALUE,
    ),
    _planted(
        "add-backward-dresidual-unwritten", "add-backward-generic", ".dresidual = call->dresidual, ", "", "dresidual",
        "an output that only one of two callers asks for", _MISSING,
    ),
)  # fmt: skip

MUTANTS = (*FORWARD, *BACKWARD)
