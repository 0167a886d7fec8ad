"""The ops that are known: the built-in ones, one file each, and those that packs and tests add."""

from __future__ import annotations

from oracles.op import Op, OpError
from oracles.ops import (
    fused_add_rms_norm,
    fused_add_rms_norm_backward,
    layer_norm,
    layer_norm_backward,
    log_softmax,
    log_softmax_backward,
    rms_norm,
    rms_norm_backward,
    softmax,
    softmax_backward,
)  # fmt: skip

OPS: dict[str, Op] = {}
"""Every op by name, in the order of listings."""


def register(op: Op) -> Op:
    """Make an op known. One of that name whose formula stands in the same file gives way to it: that file was read
    again. Raises OpError where any other has its name."""
    known = OPS.get(op.name, op)
    if known != op and _file(known) != _file(op):
        raise OpError(f"{op.name}: there is another op of that name")
    OPS[op.name] = op
    return op


def _file(op: Op) -> str:
    code = getattr(op.formula, "__code__", None)
    return code.co_filename if code is not None else ""


for _module in (
    rms_norm, fused_add_rms_norm, rms_norm_backward, fused_add_rms_norm_backward,
    layer_norm, layer_norm_backward, softmax, softmax_backward, log_softmax, log_softmax_backward,
):  # fmt: skip
    register(_module.OP)
