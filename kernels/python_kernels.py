"""Kernels in Triton and torch, as the pack declares them.

Triton adds a row in an order that its compiler chooses: each thread its own elements, at most 64, then a tree over the
threads. `Pairwise(64)` bounds every such order for rows of up to 32,768 elements.
"""

from __future__ import annotations

from pathlib import Path

from fuzz import Any, Capabilities, Numerics, Pairwise, PythonKernel

__all__ = ["KERNELS"]

_HERE = Path(__file__).resolve().parent
_FLOATS = ("f32", "f16", "bf16")
_TILED = Numerics(summation=Pairwise(64))
_MAX_ROW = 32768

_FORWARD = Capabilities(
    dtypes=_FLOATS, strides="pitched", aliases=(("y", "x"),), takes=("weight", "rstd"),
    mixed=(("weight", _FLOATS),), offset=True, max_n=_MAX_ROW,
)  # fmt: skip
_SMALL = Capabilities(
    dtypes=_FLOATS, strides="pitched", aliases=(("y", "x"),), takes=("weight", "rstd"),
    mixed=(("weight", _FLOATS),), offset=True, max_n=2048,
)  # fmt: skip
_TILES = Capabilities(
    dtypes=("f32",), strides="pitched", aliases=(("y", "x"),), takes=("weight", "rstd"),
    mixed=(("weight", _FLOATS),), offset=True, max_n=_MAX_ROW, multiple_of=1024,
)  # fmt: skip
_ADD_ALIASES = (("y", "x"), ("sum", "residual"), ("sum", "x"), ("y", "residual"))
_ADD = Capabilities(
    dtypes=_FLOATS, strides="pitched", aliases=_ADD_ALIASES, takes=("weight", "sum", "rstd"),
    mixed=(("weight", _FLOATS),), offset=True, max_n=_MAX_ROW,
)  # fmt: skip
# Triton adds bf16 in float32 whatever it is told, so that mode 'none' is what it says in f16 and f32 only.
_ADD_NONE = Capabilities(
    dtypes=("f32", "f16"), strides="pitched", aliases=_ADD_ALIASES, takes=("weight", "sum", "rstd"),
    mixed=(("rstd", ("x",)),), offset=True, max_n=_MAX_ROW,
)  # fmt: skip
_BACKWARD = Capabilities(
    dtypes=_FLOATS, strides="pitched", aliases=(("dx", "dy"), ("dx", "x")), takes=("weight", "rstd", "dw"),
    mixed=(("weight", _FLOATS),), offset=True, max_n=_MAX_ROW,
)  # fmt: skip
_ADD_BACKWARD = Capabilities(
    dtypes=_FLOATS, strides="pitched",
    aliases=(("dx", "dy"), ("dx", "dsum"), ("dresidual", "dsum"), ("dresidual", "dy")),
    takes=("dsum", "weight", "rstd", "dresidual", "dw"), mixed=(("weight", _FLOATS),), offset=True, max_n=_MAX_ROW,
)  # fmt: skip
_TORCH = Capabilities(
    dtypes=_FLOATS, axis="any", strides="any", takes=("weight", "rstd"), mixed=(("weight", _FLOATS),), offset=True
)


def _triton(
    name: str, op: str, file: str, able: Capabilities, summary: str, numerics: Numerics = _TILED,
    **options: str | bool,
) -> PythonKernel:  # fmt: skip
    return PythonKernel(
        name, op, _HERE / "triton" / file, "triton", numerics, able, options=tuple(options.items()), summary=summary
    )


_PATHS, _MODES, _FUSED, _GRADIENTS = (
    "rms_norm.py", "rms_norm_modes.py", "fused_add_rms_norm.py", "rms_norm_backward.py"
)  # fmt: skip

KERNELS: tuple[PythonKernel, ...] = (
    _triton("dual", "rms_norm", _PATHS, _FORWARD, "short rows together, whole tiles, or vectors and a tail, by shape"),
    _triton("small", "rms_norm", _PATHS, _SMALL, "several short rows in registers", path="small"),
    _triton("tile-fast", "rms_norm", _PATHS, _TILES, "whole tiles, two passes, no mask", path="tile_fast"),
    _triton("vector-generic", "rms_norm", _PATHS, _FORWARD, "vectors and a tail, any length", path="vector_generic"),
    _triton("modes", "rms_norm", _MODES, _FORWARD, "one of the three modes, by shape"),
    _triton(
        "static-persistent", "rms_norm", _MODES, _FORWARD, "programs that stride over row tiles",
        mode="static_persistent",
    ),
    _triton(
        "multi-wave-reload", "rms_norm", _MODES, _FORWARD, "a program per row, x read twice by tiles",
        mode="multi_wave_reload",
    ),
    _triton(
        "multi-wave-cached", "rms_norm", _MODES, _FORWARD, "a program per row, the row in registers",
        mode="multi_wave_cached",
    ),
    _triton(
        "add-whole-row", "fused_add_rms_norm", _FUSED, _ADD, "whole rows, one cast at the end",
        path="whole_row", cast="gemma",
    ),
    _triton(
        "add-whole-row-llama", "fused_add_rms_norm", _FUSED, _ADD, "whole rows, cast before the weight",
        Numerics(summation=Pairwise(64), cast="llama"), path="whole_row", cast="llama",
    ),
    _triton(
        "add-whole-row-none", "fused_add_rms_norm", _FUSED, _ADD_NONE, "whole rows, all in the dtype of x",
        Numerics(accumulate="input", summation=Pairwise(64), cast="none"), path="whole_row", cast="none",
    ),
    _triton(
        "add-whole-row-unrounded", "fused_add_rms_norm", _FUSED, _ADD, "whole rows, the sum as it was calculated",
        Numerics(summation=Pairwise(64), residual="unrounded"), path="whole_row", cast="gemma", unrounded=True,
    ),
    _triton(
        "add-chunked", "fused_add_rms_norm", _FUSED, _ADD, "two passes over chunks of columns",
        path="column_chunked", cast="gemma",
    ),
    _triton(
        "add-chunked-llama", "fused_add_rms_norm", _FUSED, _ADD, "two passes over chunks, cast before the weight",
        Numerics(summation=Pairwise(64), cast="llama"), path="column_chunked", cast="llama",
    ),
    _triton(
        "backward-persistent", "rms_norm_backward", _GRADIENTS, _BACKWARD, "partial sums of dw kept by few programs",
        design="persistent",
    ),
    _triton(
        "backward-row-temporary", "rms_norm_backward", _GRADIENTS, _BACKWARD, "every row's share of dw in memory",
        design="row_temporary",
    ),
    _triton(
        "add-backward-persistent", "fused_add_rms_norm_backward", _GRADIENTS, _ADD_BACKWARD,
        "the same with the gradient of the residual sum", design="persistent",
    ),
    PythonKernel(
        "eager", "rms_norm", _HERE / "torch" / "eager.py", "torch", Numerics(summation=Any(), rsqrt_ulp=2.0), _TORCH,
        summary="square, mean, rsqrt, multiply, as torch runs them one by one",
    ),
    PythonKernel(
        "functional", "rms_norm", _HERE / "torch" / "functional.py", "torch",
        Numerics(summation=Any(), rsqrt_ulp=2.0),
        Capabilities(dtypes=_FLOATS, strides="any", takes=("weight",)), summary="torch.nn.functional.rms_norm",
    ),
)  # fmt: skip
