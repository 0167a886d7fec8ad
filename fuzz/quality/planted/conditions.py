"""Thirty planted bugs, each with one condition. They were written from the lists of documented bugs alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fuzz.quality.planted.bug import ANY, WHOLE, Bug, Condition, Rows, far, nan, raises, unwritten, zero
from fuzz.quality.planted.call import Call

_BARE = replace(ANY, takes=())
"""Without optional tensors: a weight of 0 hides a row of zeros."""
_WITH_DW = replace(ANY, needs=("weight", "dw"))


def _other_strides(call: Call) -> bool:
    return call.seen["x"].steps != call.seen["residual"].steps


def _below_eps(call: Call) -> Rows:
    return np.asarray((call.grid("x") ** 2).sum(-1) / call.n < call.parameters["eps"])


def _far_from_zero(call: Call) -> Rows:
    x = call.grid("x")
    return np.asarray(np.abs(x.mean(-1)) > 100.0 * x.std(-1))


def _nan_at_the_end(call: Call) -> Rows:
    return np.asarray(np.isnan(call.grid("x")[:, (call.n - 1) // 64 * 64 :]).any(-1))


def _wide(call: Call) -> Rows:
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
