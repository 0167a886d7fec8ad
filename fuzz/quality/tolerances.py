"""Tolerances of others: what is noticed within them is what conformance sets are compared with."""

from __future__ import annotations

from collections.abc import Mapping

from fuzz.uses.tolerance.others import TORCH, Tolerance


def _quack(relative: float | None, *absolute: float) -> Mapping[str, Tolerance]:
    return {
        dtype: Tolerance("quack", each, each if relative is None else relative)
        for dtype, each in zip(("f32", "f16", "bf16"), absolute, strict=True)
    }


_RMS_NORM = _quack(1e-3, 1e-4, 1e-2, 1e-1)
_SOFTMAX = _quack(None, 1e-4, 1e-3, 1e-2)
_LOG_SOFTMAX = {dtype: Tolerance("FlagGems", 1e-4, TORCH[dtype].relative) for dtype in ("f32", "f16", "bf16")}
_LIGER = {"f32": Tolerance("Liger", 1e-5, 1e-5), "bf16": Tolerance("Liger", 1e-2, 1e-2)}
_ROPE = {
    dtype: Tolerance("Liger", each, each)
    for dtype, each in zip(("f32", "f16", "bf16"), (1e-5, 1e-2, 1e-1), strict=True)
}
SUITES: Mapping[str, Mapping[str, Tolerance]] = {
    "rms_norm": _RMS_NORM,
    "fused_add_rms_norm": _RMS_NORM,
    "rms_norm_backward": _RMS_NORM,
    "fused_add_rms_norm_backward": _RMS_NORM,
    "layer_norm": _SOFTMAX,
    "layer_norm_backward": _quack(None, 4e-4, 4e-3, 4e-2),
    "softmax": _SOFTMAX,
    "softmax_backward": _SOFTMAX,
    "log_softmax": _LOG_SOFTMAX,
    "log_softmax_backward": _LOG_SOFTMAX,
    "silu_mul": _LIGER,
    "rope": _ROPE,
    "rope_backward": _ROPE,
}
"""By op and dtype, those of a published suite: of Dao-AILab/quack tests/test_rmsnorm.py, test_layernorm.py and
test_softmax.py, the best of those looked at, and of FlagOpen/FlagGems tests/accuracy_utils.py for what quack has no
test of, where gradients of log_softmax have n times that absolute tolerance, which is left out here; of linkedin/
Liger-Kernel test/transformers/test_swiglu.py, the functional one, and test_rope.py."""


def suite(op: str, dtype: str) -> Tolerance | None:
    """Return the tolerance of a published suite, where there is one."""
    return SUITES.get(op, {}).get(dtype)
