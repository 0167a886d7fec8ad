"""All known ops: the built-in ones, a file for ops of one kind, and those that packs and tests add."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import ParamSpec, TypeVar

from oracles.lazy import ReadWhenAsked
from oracles.op import Op
from oracles.operand import OpError

_P = ParamSpec("_P")
_T = TypeVar("_T")
_FILES = (
    ("rms_norm", "rms_norm fused_add_rms_norm rms_norm_backward fused_add_rms_norm_backward"),
    ("layer_norm", "layer_norm layer_norm_backward"),
    ("softmax", "softmax softmax_backward log_softmax log_softmax_backward"),
    ("activations", "gelu gelu_backward gelu_tanh gelu_tanh_backward silu_mul silu_mul_backward"),
    ("rope", "rope rope_backward rope_interleaved rope_interleaved_backward"),
    ("matmul", "matmul scaled_matmul"),
    ("rows", "row_sum row_mean row_max row_var logsumexp"),
    ("rows", "row_sum_backward row_mean_backward row_max_backward row_var_backward logsumexp_backward"),
    ("cross_entropy", "cross_entropy cross_entropy_backward"),
    ("group_norm", "group_norm group_norm_backward"),
    ("embedding", "embedding embedding_backward"),
    ("attention", "attention attention_backward paged_attention"),
    ("quantize_rows", "quantize_rows quantize_rows_e4m3"),
    ("quantize_mxfp8", "quantize_mxfp8 quantize_mxfp8_e5m2"),
    ("quantize_nvfp4", "quantize_nvfp4"),
    ("matmul", "dequantize_matmul int4_matmul grouped_matmul grouped_rows_matmul"),
    ("scans", "cumsum linear_recurrence"),
    ("matmul", "conv1d"),
    ("topk", "topk_softmax softmax_of_topk"),
)
"""The files of the built-in ops, with the names of their ops in the order of listings. An op's record is the constant
with its name in capitals, such as `ROW_SUM` for "row_sum"."""
_BUILT_IN = {name: file for file, names in _FILES for name in names.split()}
_MEANT: dict[str, Op] = {}
"""The last op of each name, including ops that are no longer known."""
_FORGET: list[Callable[[], None]] = []
"""Functions that clear caches by op name. They are called when a name gets another op."""


class _Known(ReadWhenAsked[Op]):
    """Ops by name. If a name gets another op, caches by name are cleared."""

    def __setitem__(self, name: str, op: Op) -> None:
        if _MEANT.setdefault(name, op) != op:
            _MEANT[name] = op
            for forget in _FORGET:
                forget()
        super().__setitem__(name, op)


def _built_in(name: str) -> Op:
    op: Op = getattr(import_module(f"oracles.ops.{_BUILT_IN[name]}"), name.upper())
    _MEANT.setdefault(name, op)
    return op


OPS = _Known(_BUILT_IN, _built_in)
"""Every op by name, in the order of listings. The module of a built-in op is imported when it is first asked for."""


def remembered(size: int) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Return an `lru_cache` for functions whose results depend on the name of an op. It is cleared when a name gets
    another op, as happens if a pack is edited and read again in one process."""

    def of(function: Callable[_P, _T]) -> Callable[_P, _T]:
        cached = lru_cache(size)(function)
        _FORGET.append(cached.cache_clear)
        return cached  # type: ignore[return-value]  # lru_cache drops the types of the parameters

    return of


def register(op: Op) -> Op:
    """Add an op to the known ones, and return it. It replaces a built-in op of its name, or one from the same file,
    which may have been read again. Raises OpError if any other op has its name."""
    known = OPS.get(op.name, op)
    is_built_in = op.name in _BUILT_IN and known is _built_in(op.name)
    if known != op and _file(known) != _file(op) and not is_built_in:
        raise OpError(f"{op.name}: there is another op of that name")
    OPS[op.name] = op
    return op


def _file(op: Op) -> str:
    code = getattr(op.formula, "__code__", None)
    return code.co_filename if code is not None else ""
