"""Thirty planted bugs with one condition each, and thirty with two at once. They were written from the lists of
documented bugs alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fuzz.quality.planted.bug import ANY, WHOLE, Bug, Condition, PlantedCall, Rows, far, nan, raises, unwritten, zero

_BARE = replace(ANY, takes=())
"""Without optional tensors, since a weight of 0 hides a row of zeros."""
_WITH_DW = replace(ANY, needs=("weight", "dw"))


def _other_strides(call: PlantedCall) -> bool:
    return call.seen["x"].steps != call.seen["residual"].steps


def _below_eps(call: PlantedCall) -> Rows:
    return np.asarray((call.grid("x") ** 2).sum(-1) / call.n < call.parameters["eps"])


def _far_from_zero(call: PlantedCall) -> Rows:
    x = call.grid("x")
    return np.asarray(np.abs(x.mean(-1)) > 100.0 * x.std(-1))


def _nan_at_the_end(call: PlantedCall) -> Rows:
    return np.asarray(np.isnan(call.grid("x")[:, (call.n - 1) // 64 * 64 :]).any(-1))


def _wide(call: PlantedCall) -> Rows:
    x = call.grid("x")
    return np.asarray(np.isfinite(x).all(-1) & (x.max(-1) - x.min(-1) > 88.0))


def _has(condition: Rows) -> Rows:
    return np.asarray(condition.any(-1))


CONDITIONS = (
    Bug(
        "two-vector-leftover", "rms_norm", "B001: two vectors a step, one for all that is left over",
        (Condition("residue", "n mod 16 > 8", lambda call: call.n % 16 > 8),), unwritten(1),
    ),
    Bug(
        "trailing-warp", "rms_norm", "B022: the number of warps is rounded down",
        (Condition("residue", "n >= 128 and n mod 32 != 0", lambda call: call.n >= 128 and call.n % 32 != 0),),
        unwritten(1),
    ),
    Bug(
        "column-stride", "rms_norm", "B030: one of two passes ignores the stride along the row",
        (Condition("layout", "n > 1 and x's stride along the row is not 1",
                   lambda call: call.n > 1 and call.step != 1),), far(-1),
    ),
    Bug(
        "pointer-not-aligned", "rms_norm", "B049: the vectorised kernel is chosen by n only, whatever the address",
        (Condition("layout", "the address of x is no multiple of 16", lambda call: call.main.address % 16 != 0),),
        raises("misaligned address"),
    ),
    Bug(
        "half-squares", "rms_norm", "B069: squares are kept in half, so that rows with large elements become zero",
        (Condition("value", "an element of x is larger than 7600 in magnitude",
                   lambda call: _has(np.abs(call.grid("x")) > 7600.0)),), zero(), _BARE,
    ),
    Bug(
        "eps-outside", "rms_norm", "B084: eps is added after the root, which shows where the mean square is small",
        (Condition("parameter", "a row's mean square is below eps", _below_eps),), far(0),
    ),
    Bug(
        "many-rows", "fused_add_rms_norm", "B060: rows beyond the limit of a grid are not launched",
        (Condition("extent", "rows > 65535", lambda call: np.arange(call.rows) > 65534),), unwritten(WHOLE),
    ),
    Bug(
        "one-pitch", "fused_add_rms_norm", "B038: the strides of x are used for the residual too",
        (Condition("layout", "the residual's strides are not those of x", _other_strides),), far(-1),
    ),
    Bug(
        "overflowing-squares", "fused_add_rms_norm", "B073: x*x overflows float32, nothing is scaled",
        (Condition("value", "an element of x + residual is 2^64 or larger in magnitude",
                   lambda call: _has(np.abs(call.grid("x") + call.grid("residual")) >= 2.0**64)),), zero(), _BARE,
    ),
    Bug(
        "negative-zero", "fused_add_rms_norm", "E135: a negative zero is taken for another number",
        (Condition("value", "an element of x is -0.0",
                   lambda call: _has((call.grid("x") == 0.0) & np.signbit(call.grid("x")))),), far(0),
    ),
    Bug(
        "weight-of-zero", "rms_norm_backward", "B100: the normalised x is recovered by dividing by the weight",
        (Condition("value", "an element of the weight is 0", lambda call: _has(call.seen["weight"].values == 0.0)),),
        nan(0), replace(ANY, needs=("weight",)),
    ),
    Bug(
        "offset-twice", "rms_norm_backward", "B092: the offset of the weight is applied twice",
        (Condition("parameter", "weight_offset != 0", lambda call: call.parameters["weight_offset"] != 0.0),),
        nan(-1), replace(ANY, needs=("weight",)),
    ),
    Bug(
        "big-row-arm", "rms_norm_backward", "B065: the way for many rows sums a buffer that does not exist",
        (Condition("extent", "rows > 64", lambda call: call.rows > 64),), raises("no such buffer"), _WITH_DW,
    ),
    Bug(
        "padded-lanes", "layer_norm", "B014: lanes that only pad a block enter the variance",
        (Condition("residue", "n is not a power of two", lambda call: call.n & (call.n - 1) != 0),), unwritten(1),
    ),
    Bug(
        "mean-and-spread", "layer_norm", "B103: the mean of each lane is rounded before they are merged",
        (Condition("value", "a row's mean is over 100 times its standard deviation", _far_from_zero),),
        unwritten(WHOLE),
    ),
    Bug(
        "constant-row", "layer_norm", "E136: the variance of a constant row comes out negative",
        (Condition("value", "n > 1 and all elements of a row of x are equal",
                   lambda call: (call.n > 1) & (call.grid("x") == call.grid("x")[:, :1]).all(-1)),),
        raises("negative variance"),
    ),
    Bug(
        "eps-in-half", "layer_norm", "B086: a small eps is rounded to 0",
        (Condition("parameter", "eps < 6e-8", lambda call: call.parameters["eps"] < 6e-8),), unwritten(1),
    ),
    Bug(
        "rows-of-first-axis", "layer_norm_backward", "B042: the number of rows is taken to be the first extent",
        (Condition("extent", "rank >= 3 and rows > the first extent",
                   lambda call: (call.rank >= 3) & (np.arange(call.rows) >= call.main.shape[0])),),
        unwritten(WHOLE),
    ),
    Bug(
        "last-partial-group", "layer_norm_backward", "W01: the last group of rows is skipped where it is small",
        (Condition("residue", "rows mod 8 is 1, 2 or 3", lambda call: call.rows % 8 in (1, 2, 3)),), unwritten(1),
        _WITH_DW, "dw",
    ),
    Bug(
        "square", "layer_norm_backward", "E025: two extents are mistaken for one another where they are equal",
        (Condition("extent", "rows = n", lambda call: call.rows == call.n),), unwritten(1),
    ),
    Bug(
        "shared-memory-variant", "softmax", "E052: rows after the first are misaligned in the way for middle widths",
        (Condition("extent", "512 < n < 1024 and n is odd", lambda call: 512 < call.n < 1024 and call.n % 2 == 1),),
        far(0),
    ),
    Bug(
        "rows-over-programs", "softmax", "E064: the loop over rows rounds down when these are shared out",
        (Condition("residue", "rows mod 8 != 0",
                   lambda call: np.arange(call.rows) >= call.rows // 8 * 8),), unwritten(WHOLE),
    ),
    Bug(
        "masked-first-block", "softmax", "E009: the first block of a row is all -inf, and exp(-inf + inf) is taken",
        (Condition("value", "n >= 32 and the first 32 elements of a row are -inf",
                   lambda call: (call.n >= 32) & (call.grid("x")[:, :32] == -np.inf).all(-1)),), nan(-1),
    ),
    Bug(
        "finite-sentinel", "softmax", "E001, E002: a finite number stands for minus infinity",
        (Condition("value", "all elements of a row are below -10000",
                   lambda call: (call.grid("x") < -10000.0).all(-1)),), zero(),
    ),
    Bug(
        "long-row", "log_softmax", "E061: the logarithm is taken twice in the way for long rows",
        (Condition("extent", "n > 8192", lambda call: call.n > 8192),), far(0),
    ),
    Bug(
        "nan-dropped", "log_softmax", "E130: the last tile's maximum ignores NaN",
        (Condition("value", "a row has a NaN in its last tile of 64", _nan_at_the_end),), zero(),
    ),
    Bug(
        "halves-far-apart", "log_softmax", "E058: one half of a vector is stored twice into the maximum",
        (Condition("value", "the largest element of a finite row is more than 88 above the smallest", _wide),), far(0),
    ),
    Bug(
        "expanded-gradient", "softmax_backward", "B034, B035: the gradient of a sum has strides of 0",
        (Condition("layout", "dy has a stride of 0", lambda call: call.seen["dy"].is_expanded),), nan(-1),
    ),
    Bug(
        "probability-near-one", "log_softmax_backward", "E067: 1 - p cancels where p is close to 1",
        (Condition("value", "an element of y is above -0.01", lambda call: _has(call.grid("y") > -0.01)),), nan(0),
    ),
    Bug(
        "tiny-range", "softmax_backward", "E131, B075: what is scaled by a reciprocal underflows",
        (Condition("value", "an element of dy is subnormal and not 0",
                   lambda call: _has(call.subnormal("dy"))),), nan(0),
    ),
)  # fmt: skip
"""Each has one condition."""

_WEIGHTED = replace(ANY, needs=("weight",))
_MIXED = replace(_WEIGHTED, mixed=(("weight", ("x", "f32")),))
_IN_PLACE = replace(ANY, aliases=(("dx", "dy"),))


def _off_centre(call: PlantedCall) -> Rows:
    x = call.grid("x")
    return np.asarray(np.abs(x.mean(-1)) > 10.0 * x.std(-1))


def _tie(call: PlantedCall) -> Rows:
    y = call.grid("y")
    return np.asarray((y == y.max(-1, keepdims=True)).sum(-1) > 1)


_N_ODD = Condition("residue", "n is odd", lambda call: call.n % 2 == 1)
_SCATTERED = Condition("layout", "x is not contiguous", lambda call: not call.main.is_contiguous)
_F16 = Condition("dtype", "the dtype is f16", lambda call: call.main.dtype == "f16")
_BF16 = Condition("dtype", "the dtype is bf16", lambda call: call.main.dtype == "bf16")

PAIRS = (
    Bug(
        "wide-grid", "rms_norm", "B106: many threads and long rows, no barrier between them",
        (Condition("extent", "rows >= 17", lambda call: np.arange(call.rows) >= 16),
         Condition("extent", "n >= 1024", lambda call: call.n >= 1024)), far(-1),
    ),
    Bug(
        "tall-and-narrow", "softmax", "E062: the wrong dimension is walked",
        (Condition("extent", "rows > n", lambda call: call.rows > call.n),
         Condition("extent", "n > 16", lambda call: call.n > 16)), far(0),
    ),
    Bug(
        "short-rows-in-blocks", "log_softmax_backward", "B056: several short rows to a block",
        (Condition("extent", "n <= 4", lambda call: call.n <= 4),
         Condition("extent", "rows >= 64", lambda call: call.rows >= 64)), unwritten(1),
    ),
    Bug(
        "scalar-fallback", "layer_norm", "B061: many rows, and widths that no vector fits",
        (Condition("extent", "rows > 32", lambda call: np.arange(call.rows) >= 32),
         Condition("residue", "n mod 4 != 0", lambda call: call.n % 4 != 0)), unwritten(WHOLE),
    ),
    Bug(
        "long-row-one-over", "fused_add_rms_norm", "B026, W01: the tile after the last whole one",
        (Condition("extent", "n > 1000", lambda call: call.n > 1000),
         Condition("residue", "n mod 64 = 1", lambda call: call.n % 64 == 1)), unwritten(1),
    ),
    Bug(
        "long-and-odd", "softmax_backward", "E052: the block kernel takes odd widths for aligned ones",
        (Condition("extent", "n > 512", lambda call: call.n > 512), _N_ODD), nan(0),
    ),
    Bug(
        "single-row", "log_softmax", "E054: one row, whose width is a multiple of all vectors",
        (Condition("extent", "rows = 1", lambda call: call.rows == 1),
         Condition("residue", "n mod 64 = 0", lambda call: call.n % 64 == 0)), far(0),
    ),
    Bug(
        "both-tails", "rms_norm_backward", "B114: a mask for columns only",
        (Condition("residue", "rows mod 4 = 3", lambda call: call.rows % 4 == 3),
         Condition("residue", "n mod 8 != 0", lambda call: call.n % 8 != 0)), nan(-1),
    ),
    Bug(
        "odd-by-odd", "layer_norm_backward", "W01, B001: two leftovers meet",
        (Condition("residue", "rows is odd", lambda call: call.rows % 2 == 1),
         Condition("residue", "n mod 16 > 8", lambda call: call.n % 16 > 8)), unwritten(1),
    ),
    Bug(
        "pitch-gap", "rms_norm", "B039: the flat index ignores the gap between rows, in the way for long ones",
        (Condition("extent", "n > 256", lambda call: call.n > 256), _SCATTERED), far(0),
    ),
    Bug(
        "token-index", "layer_norm", "B037: the first stride times the index of a flattened row",
        (Condition("extent", "rank >= 3", lambda call: call.rank >= 3), _SCATTERED), unwritten(1),
    ),
    Bug(
        "other-axis-tail", "softmax", "E060: rows along another axis than the last, by vectors",
        (Condition("layout", "the axis is not the last", lambda call: call.axis != max(call.rank - 1, 0)),
         Condition("residue", "n mod 4 != 0", lambda call: call.n % 4 != 0)), unwritten(1), replace(ANY, axis="any"),
    ),
    Bug(
        "vectors-unaligned", "fused_add_rms_norm", "M25: the way by vectors is chosen by n only",
        (Condition("residue", "n mod 8 = 0", lambda call: call.n % 8 == 0),
         Condition("layout", "the address of x is no multiple of 16", lambda call: call.main.address % 16 != 0)),
        raises("misaligned address"),
    ),
    Bug(
        "expanded-and-odd", "rms_norm_backward", "B031, B035: a gradient with strides of 0, and a tail",
        (Condition("layout", "dy has a stride of 0", lambda call: call.seen["dy"].is_expanded), _N_ODD), nan(-1),
    ),
    Bug(
        "residual-alone", "fused_add_rms_norm", "B038: one pitch is used for two tensors",
        (Condition("layout", "x is contiguous", lambda call: call.main.is_contiguous),
         Condition("layout", "the residual is not contiguous", lambda call: not call.seen["residual"].is_contiguous)),
        far(-1),
    ),
    Bug(
        "both-scattered", "layer_norm_backward", "B033: the strides of two tensors are mixed up",
        (_SCATTERED, Condition("layout", "dy is not contiguous", lambda call: not call.seen["dy"].is_contiguous)),
        unwritten(1),
    ),
    Bug(
        "stalled-sum", "softmax", "B077: a running sum in half stops at 2048",
        (_F16, Condition("extent", "n > 2048", lambda call: call.n > 2048)), far(-1),
    ),
    Bug(
        "one-row-in-brain", "rms_norm", "B111: another way for small batches",
        (_BF16, Condition("extent", "rows < 4", lambda call: call.rows < 4)), far(0),
    ),
    Bug(
        "half-vector", "log_softmax", "E058: the second half of a vector of bf16",
        (_BF16, Condition("residue", "n mod 32 > 16", lambda call: call.n % 32 > 16)), far(-1),
    ),
    Bug(
        "odd-in-half", "layer_norm", "E068: an odd number of 16-bit elements",
        (_F16, _N_ODD), unwritten(1),
    ),
    Bug(
        "wide-weight", "rms_norm", "B094: a weight of another dtype than x, in the way for other layouts",
        (Condition("dtype", "the weight's dtype is not that of x",
                   lambda call: call.seen["weight"].dtype != call.main.dtype), _SCATTERED), nan(0), _MIXED,
    ),
    Bug(
        "saved-output", "softmax_backward", "E056: the saved output is not contiguous, in 16 bits",
        (_F16, Condition("layout", "y is not contiguous", lambda call: not call.main.is_contiguous)), nan(-1),
    ),
    Bug(
        "eps-vanishes", "rms_norm_backward", "B086: a small eps rounds to 0 in half",
        (_F16, Condition("parameter", "eps < 3e-8", lambda call: call.parameters["eps"] < 3e-8)), nan(0),
    ),
    Bug(
        "large-weight", "fused_add_rms_norm", "M21: the weight is formed in 16 bits",
        (_BF16, Condition("value", "an element of the weight is larger than 4 in magnitude",
                          lambda call: (np.abs(call.seen["weight"].values) > 4.0).any())), far(0), _WEIGHTED,
    ),
    Bug(
        "padding-off-centre", "layer_norm", "B010, B013: padding enters the variance, seen where the mean is not 0",
        (Condition("residue", "n mod 8 != 0", lambda call: call.n % 8 != 0),
         Condition("value", "a row's mean is over 10 times its standard deviation", _off_centre)), unwritten(WHOLE),
    ),
    Bug(
        "idle-lanes", "softmax", "B023: lanes beyond a short row count as 0 in the maximum",
        (Condition("extent", "n < 32", lambda call: call.n < 32),
         Condition("value", "all elements of a row are negative", lambda call: (call.grid("x") < 0.0).all(-1))),
        zero(),
    ),
    Bug(
        "masked-padding", "log_softmax", "E010: padding counts in a row that is -inf throughout",
        (Condition("residue", "n mod 32 != 0", lambda call: call.n % 32 != 0),
         Condition("value", "all elements of a row are -inf", lambda call: (call.grid("x") == -np.inf).all(-1))),
        zero(),
    ),
    Bug(
        "unguarded-root", "rms_norm", "M10: a step of Newton's method at 0 * inf",
        (Condition("parameter", "eps = 0", lambda call: call.parameters["eps"] == 0.0),
         Condition("value", "a row of x has a subnormal element", lambda call: call.subnormal("x").any(-1))), far(0),
    ),
    Bug(
        "tied-in-tail", "log_softmax_backward", "B018, E126: equal elements, in a row with a tail",
        (Condition("residue", "n mod 8 != 0", lambda call: call.n % 8 != 0),
         Condition("value", "the largest element of a row of y is there twice", _tie)), nan(0),
    ),
    Bug(
        "written-before-read", "softmax_backward", "W11: what is written in place is read again, in the tail",
        (Condition("layout", "dx is written in the memory of dy", lambda call: call.in_place),
         Condition("residue", "n mod 8 != 0", lambda call: call.n % 8 != 0)), nan(-1), _IN_PLACE,
    ),
)  # fmt: skip
"""Each has two conditions."""

BUGS: Mapping[str, Bug] = {bug.name: bug for bug in (*CONDITIONS, *PAIRS)}
"""Each planted bug, by its name."""
