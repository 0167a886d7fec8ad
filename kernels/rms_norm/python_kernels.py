"""The RMSNorm family in Triton and torch, as declared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from fuzz import Capabilities, Contract, Pairwise, PythonKernel

__all__ = ["KERNELS"]

_TRITON = Path(__file__).resolve().parent / "triton"
_TORCH = Path(__file__).resolve().parent / "torch"

# A thread adds up to 16 (32) elements of a row that registers hold, one after the other, and then a tree adds threads;
# the interpreter adds blocks of 128 with eight accumulators, then a tree. Where a row is read in tiles, every tile adds
# one more to the chain: up to 32 of them in the longest row that is declared. They divide with div_rn, and roots are
# those of sqrt_rn.
_CORRECT = {"divide": 0.5, "rsqrt": 1.0}
_SHORT, _ROW, _TILED = (Contract(sums={"n": Pairwise(block)}, accuracy=_CORRECT) for block in (16, 32, 64))

# Which way a row goes depends on its length alone, and the order in which it is added on the program that it is given:
# the compiler lays rows out over the threads by how wide it may load. rows.py sees to it that a subset of rows has the
# program of its batch. When that followed the address of rstd too, of which a subset may begin at any element, up to 12
# of 33 rows changed their last bit on an H200.
_ROWS = ("rerun", "row_permutation", "batch_subset", "batch_append", "scaling", "sign_flip", "surroundings")
_AUTO = ("rerun", "scaling", "sign_flip", "surroundings")
_SUMS = ("rerun", "surroundings")

_WEIGHT = ("weight", ("x", "f32"))
_LONGEST, _KEPT = 131072, 16384
_LONGEST_F16 = 32768
"""The longest row where f16 has to hold the length too."""
_FORWARD = Capabilities(
    dtypes=("f32", "f16", "bf16"), strides="pitched", aliases=(("y", "x"),), takes=("weight", "rstd"),
    mixed=(_WEIGHT, ("y", ("x", "f32"))), params=("weight_offset",), max={"n": _LONGEST},
)  # fmt: skip
_ADD = replace(
    _FORWARD, takes=("weight", "sum", "rstd"), mixed=(_WEIGHT,), max={"n": _KEPT},
    aliases=(("y", "x"), ("sum", "residual"), ("sum", "x"), ("y", "residual")),
)  # fmt: skip
_NONE = replace(_ADD, mixed=(("rstd", ("x",)),))
_BACKWARD = replace(
    _FORWARD, takes=("weight", "rstd", "dw"), mixed=(_WEIGHT, ("dw", ("x", "f32"))), max={"n": _KEPT},
    aliases=(("dx", "dy"), ("dx", "x")),
)  # fmt: skip
_ADD_BACKWARD = replace(
    _BACKWARD, takes=("dsum", "weight", "rstd", "dresidual", "dw"),
    aliases=(("dx", "dy"), ("dx", "dsum"), ("dresidual", "dsum"), ("dresidual", "dy")),
)  # fmt: skip


def _dual(
    name: str, path: str, contract: Contract, laws: tuple[str, ...], summary: str, **able: Mapping[str, int]
) -> PythonKernel:
    return PythonKernel(
        name, "rms_norm", _TRITON / "rms_norm.py", "triton", contract, replace(_FORWARD, **able),
        options=(("path", path),), laws=laws, summary=summary,
    )  # fmt: skip


def _mode(name: str, mode: str, contract: Contract, laws: tuple[str, ...], longest: int, summary: str) -> PythonKernel:
    return PythonKernel(
        name, "rms_norm", _TRITON / "rms_norm_modes.py", "triton", contract, replace(_FORWARD, max={"n": longest}),
        options=(("mode", mode),), laws=laws, summary=summary,
    )  # fmt: skip


def _add(name: str, path: str, cast: str, contract: Contract, summary: str) -> PythonKernel:
    able, longest = (_NONE, _LONGEST_F16) if cast == "none" else (_ADD, _LONGEST)
    # In f16 a scaled mean of squares soon has fewer bits, or none.
    laws = tuple(law for law in _ROWS if cast != "none" or law != "scaling")
    return PythonKernel(
        name, "fused_add_rms_norm", _TRITON / "fused_add_rms_norm.py", "triton", contract,
        able if path == "whole_row" else replace(able, max={"n": longest}),
        options=(("path", path), ("cast", cast)), laws=laws, summary=summary,
    )  # fmt: skip


def _backward(name: str, op: str, design: str, summary: str) -> PythonKernel:
    return PythonKernel(
        name, op, _TRITON / "rms_norm_backward.py", "triton", _ROW, _ADD_BACKWARD if "add" in op else _BACKWARD,
        options=(("design", design),), laws=_SUMS, summary=summary,
    )  # fmt: skip


_ROUNDED = {"added": "sum"}
_GEMMA = replace(_ROW, points=_ROUNDED)
_LLAMA = replace(_ROW, points={**_ROUNDED, "h": "input"})
_INPUT = replace(_ROW, points=_ROUNDED, compute="input")


def _tiled(contract: Contract) -> Contract:
    return replace(contract, sums=_TILED.sums)


_TRITON_KERNELS = (
    _dual("small", "small", _SHORT, _ROWS, "dual path: short rows, several to a program", max={"n": 2048}),
    _dual(
        "tile-fast", "tile_fast", _TILED, _ROWS, "dual path: whole tiles, no masks, read twice",
        multiple_of={"n": 2048},
    ),
    _dual("vector-generic", "vector_generic", _TILED, _ROWS, "dual path: vectors and a tail; any row"),
    _dual("dual", "", _TILED, _ROWS, "dual path: the way that the row's length picks"),
    _mode("static-persistent", "static_persistent", _ROW, _ROWS, _KEPT, "modes: programs stay, rows loaded ahead"),
    _mode("multi-wave-reload", "multi_wave_reload", _TILED, _ROWS, _LONGEST, "modes: a row in tiles, read twice"),
    _mode("multi-wave-cached", "multi_wave_cached", _ROW, _ROWS, _KEPT, "modes: a row in registers"),
    _mode("modes", "", _TILED, _AUTO, _LONGEST, "modes: the one that the shape picks"),
    _add("add-whole-row", "whole_row", "gemma", _GEMMA, "rows in registers; one cast, at the end"),
    _add("add-whole-row-llama", "whole_row", "llama", _LLAMA, "rows in registers; cast before the weight"),
    _add("add-whole-row-none", "whole_row", "none", _INPUT, "rows in registers; everything in the dtype of x"),
    replace(
        _add("add-whole-row-unrounded", "whole_row", "gemma", _ROW, "normalises the sum as it was calculated"),
        options=(("path", "whole_row"), ("unrounded", True)),
    ),
    _add(
        "add-chunked", "column_chunked", "gemma", _tiled(_GEMMA),
        "chunks of columns, two passes; one cast, at the end",
    ),
    _add("add-chunked-llama", "column_chunked", "llama", _tiled(_LLAMA), "chunks; cast before the weight"),
    _add("add-chunked-none", "column_chunked", "none", _tiled(_INPUT), "chunks; everything in the dtype of x"),
    _add("add-auto", "", "gemma", _tiled(_GEMMA), "the way that the row's length picks"),
    _backward("backward-persistent", "rms_norm_backward", "persistent", "programs stay; dw in registers until the end"),
    _backward("backward-row-temporary", "rms_norm_backward", "row_temporary", "a row per program; dw through memory"),
    _backward("add-backward-persistent", "fused_add_rms_norm_backward", "persistent", "with the sum's gradient"),
    _backward("add-backward-row-temporary", "fused_add_rms_norm_backward", "row_temporary", "a row per program"),
)  # fmt: skip

# torch adds in an order that depends on device, layout and, for one row of 32768 elements or more, thread count.
_FREE = Contract(mean="reciprocal")
# From float64 torch rounds to 16 bits by way of float32.
_DOUBLE = replace(_FREE, compute="f64", algorithm={"dx": "rstd3"}, points={"dx": "f32", "dw": "f32"})
_TORCH_FORWARD = replace(_FORWARD, axis="any", strides="any", max={}, mixed=(_WEIGHT, ("y", ("x", "f32"))))
_TORCH_ADD = replace(_TORCH_FORWARD, takes=("weight", "sum", "rstd"), mixed=(_WEIGHT,), aliases=_ADD.aliases)
_TORCH_BACKWARD = replace(
    _TORCH_FORWARD, takes=("weight", "dw"), mixed=(_WEIGHT, ("dw", ("x", "f32"))), aliases=_BACKWARD.aliases
)
_FUNCTIONAL = replace(_TORCH_FORWARD, axis="last", takes=("weight",), mixed=(), params=())
_SOURCE = _TORCH / "rms_norm.py"

_TORCH_KERNELS = (
    PythonKernel("eager", "rms_norm", _SOURCE, "torch", _FREE, _TORCH_FORWARD, summary="four operations"),
    PythonKernel(
        "functional", "rms_norm", _SOURCE, "torch", _FREE, _FUNCTIONAL, entry="functional",
        devices=("cpu",), summary="torch.nn.functional.rms_norm",
    ),
    PythonKernel(
        # corpora/historical, torch-infinity: inf - inf in its running mean makes NaN of a row with an infinity. A
        # squared distance from it overflows in rows whose squares do not, such as 9.22e18, 1.44e18, -9.22e18 in f32.
        "functional-running-mean", "rms_norm", _SOURCE, "torch",
        replace(_FREE, nonfinite="unspecified", algorithm={"rstd": ("formula", "running mean")}), _FUNCTIONAL,
        entry="functional", devices=("cuda",), summary="the same, as it is on a GPU",
    ),
    PythonKernel(
        # Only elementwise operations, each rounded correctly: nothing about a row depends on anything but the row.
        "fixed-order", "rms_norm", _SOURCE, "torch", Contract(sums={"n": Pairwise()}), _TORCH_FORWARD,
        laws=(*_ROWS, "batch_subset", "layout", "in_place", "alignment", "threads"), devices=("cpu",),
        entry="fixed_order", summary="squares added in an order that the length alone decides",
    ),
    PythonKernel(
        "compiled", "rms_norm", _SOURCE, "torch", _FREE, _TORCH_FORWARD,
        options=(("compiled", True),), slow=True, programs=("g++",), summary="torch.compile of the composition",
    ),
    PythonKernel(
        "add-eager", "fused_add_rms_norm", _SOURCE, "torch", replace(_FREE, points=_ROUNDED), _TORCH_ADD,
        summary="the sum, then it",
    ),
    PythonKernel("autograd", "rms_norm_backward", _SOURCE, "torch", _DOUBLE, _TORCH_BACKWARD, summary="by autograd"),
    PythonKernel(
        "add-autograd", "fused_add_rms_norm_backward", _SOURCE, "torch",
        replace(_DOUBLE, points={"dx": "f32", "dsummed": "f32", "dw": "f32"}),
        replace(_TORCH_BACKWARD, takes=("dsum", "weight", "dresidual", "dw"), aliases=_ADD_BACKWARD.aliases),
        summary="by autograd, with the sum's gradient",
    ),
)  # fmt: skip

KERNELS: tuple[PythonKernel, ...] = (*_TRITON_KERNELS, *_TORCH_KERNELS)
