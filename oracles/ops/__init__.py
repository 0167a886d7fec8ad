"""All known ops: the built-in ones, one file each, and those that packs and tests add."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import ParamSpec, TypeVar

from oracles.op import Op
from oracles.operand import OpError
from oracles.ops import (
    attention,
    attention_backward,
    conv1d,
    cross_entropy,
    cross_entropy_backward,
    cumsum,
    dequantize_matmul,
    embedding,
    embedding_backward,
    fused_add_rms_norm,
    fused_add_rms_norm_backward,
    gelu,
    gelu_backward,
    gelu_tanh,
    gelu_tanh_backward,
    group_norm,
    group_norm_backward,
    grouped_matmul,
    grouped_rows_matmul,
    int4_matmul,
    layer_norm,
    layer_norm_backward,
    linear_recurrence,
    log_softmax,
    log_softmax_backward,
    logsumexp,
    logsumexp_backward,
    matmul,
    paged_attention,
    quantize_mxfp8,
    quantize_mxfp8_e5m2,
    quantize_nvfp4,
    quantize_rows,
    quantize_rows_e4m3,
    rms_norm,
    rms_norm_backward,
    rope,
    rope_backward,
    rope_interleaved,
    rope_interleaved_backward,
    row_max,
    row_max_backward,
    row_mean,
    row_mean_backward,
    row_sum,
    row_sum_backward,
    row_var,
    row_var_backward,
    scaled_matmul,
    silu_mul,
    silu_mul_backward,
    softmax,
    softmax_backward,
    softmax_of_topk,
    topk_softmax,
)  # fmt: skip

_P = ParamSpec("_P")
_T = TypeVar("_T")
_BUILT_IN: Mapping[str, Op] = {}
"""The built-in ops."""
_MEANT: dict[str, Op] = {}
"""What each name meant last, also of ops that are no longer known."""
_FORGET: list[Callable[[], None]] = []
"""Called when a name comes to mean another op, to clear caches."""


class _Known(dict[str, Op]):
    """Ops by name. If a name comes to mean another op, caches by name are cleared."""

    def __setitem__(self, name: str, op: Op) -> None:
        if _MEANT.setdefault(name, op) != op:
            _MEANT[name] = op
            for forget in _FORGET:
                forget()
        super().__setitem__(name, op)


OPS = _Known()
"""Every op by name, in the order of listings. One name at a time is set: `update` forgets nothing."""


def remembered(size: int) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """`lru_cache` for what follows from the name of an op: forgotten once a name comes to mean another op, which
    happens where a pack is edited and read again in one process."""

    def of(function: Callable[_P, _T]) -> Callable[_P, _T]:
        cached = lru_cache(size)(function)
        _FORGET.append(cached.cache_clear)
        return cached  # type: ignore[return-value]  # lru_cache drops the types of the parameters

    return of


def register(op: Op) -> Op:
    """Make an op known. One of that name whose formula stands in the same file gives way to it: that file was read
    again; and so does a built-in one. Raises OpError where any other has its name."""
    known = OPS.get(op.name, op)
    if known != op and _file(known) != _file(op) and known is not _BUILT_IN.get(op.name):
        raise OpError(f"{op.name}: there is another op of that name")
    OPS[op.name] = op
    return op


def _file(op: Op) -> str:
    code = getattr(op.formula, "__code__", None)
    return code.co_filename if code is not None else ""


for _module in (
    rms_norm, fused_add_rms_norm, rms_norm_backward, fused_add_rms_norm_backward, layer_norm, layer_norm_backward,
    softmax, softmax_backward, log_softmax, log_softmax_backward, gelu, gelu_backward, gelu_tanh, gelu_tanh_backward,
    silu_mul, silu_mul_backward, rope, rope_backward, rope_interleaved, rope_interleaved_backward, matmul,
    scaled_matmul, row_sum, row_mean, row_max, row_var, logsumexp, row_sum_backward, row_mean_backward,
    row_max_backward, row_var_backward, logsumexp_backward, cross_entropy, cross_entropy_backward, group_norm,
    group_norm_backward, embedding, embedding_backward, attention, attention_backward, paged_attention,
    quantize_rows, quantize_rows_e4m3, quantize_mxfp8, quantize_mxfp8_e5m2, quantize_nvfp4, dequantize_matmul,
    int4_matmul, grouped_matmul, grouped_rows_matmul, cumsum, linear_recurrence, conv1d, topk_softmax, softmax_of_topk,
):  # fmt: skip
    register(_module.OP)
_BUILT_IN = dict(OPS)
