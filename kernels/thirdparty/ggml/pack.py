"""The functions of ggml-cpu that rows are calculated with, built from their source: `sh .ci/fetch ggml`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fuzz import AnyOrder, Capabilities, CKernel, Contract

from .ops import OPS

__all__ = ["KERNELS", "OPS"]

_HERE = Path(__file__).resolve().parent
_GGML = _HERE / "fetched"
_CPU = _GGML / "src" / "ggml-cpu"
_FETCH = "sh .ci/fetch ggml"

# ggml documents none of this. Its source adds lanes of f32, and says that its exponential errs by 1.46 ulp and half of
# one; what it has no vectors for is C's.
_FREE = Contract(
    sums={"n": AnyOrder()}, mean="reciprocal", accuracy={"exp": 2.0, "tanh": 2.5, "erf": 1.0, "log": 1.0},
)  # fmt: skip
# Its macro GGML_GELU_FP16 has gelu of f32 looked up in a table of f16.
_TABLE = replace(_FREE, compute="f16")
# As its own build does where nobody asks for a debug build.
_RELEASED = "-DNDEBUG"
_FORMATS = ("f32", "f16", "bf16")
_ROWS = Capabilities(strides="rows")

# The functions by what they are called here: the op, the contract, what they take, and what chooses them.
_FUNCTIONS: dict[str, tuple[str, Contract, Capabilities, tuple[str, ...]]] = {
    "dot": ("dot", _FREE, replace(_ROWS, dtypes=_FORMATS), ()),
    "scale": ("scaled", _FREE, replace(_ROWS, dtypes=("f32", "f16")), ()),
    "scale-widely": ("scaled_widely", _FREE, replace(_ROWS, dtypes=("f16",)), ()),
    "mad": ("scaled_add", _FREE, replace(_ROWS, dtypes=("f32", "f16")), ()),
    "soft-max": ("softmax", replace(_FREE, algorithm={"y": "reciprocal"}), _ROWS, ()),
    "log-soft-max": ("log_softmax", _FREE, _ROWS, ()),
    "max": ("row_max", _FREE, _ROWS, ()),
    "sum": ("row_sum", _FREE, replace(_ROWS, dtypes=_FORMATS, mixed=(("y", ("f32",)),)), ()),
    "cumsum": ("cumsum", _FREE, _ROWS, ()),
    "cvar": ("row_var", _FREE, _ROWS, ()),
    "silu": ("silu_mul", replace(_FREE, algorithm={"h": "quotient"}), _ROWS, ("-DSILU_ALONE",)),
    "swiglu": ("silu_mul", replace(_FREE, algorithm={"h": "quotient"}), replace(_ROWS, dtypes=_FORMATS), ()),
    "gelu-erf": ("gelu", _FREE, replace(_ROWS, dtypes=_FORMATS), ()),
    "gelu": ("gelu_tanh", _FREE, replace(_ROWS, dtypes=("f16", "bf16")), ()),
    "gelu-of-table": ("gelu_tanh", _TABLE, _ROWS, ()),
}
# Beside the extensions that make an instruction set, those that ggml asks for before it uses it.
_ISAS = {
    "any": (), "avx2": (), "avx512": ("-mavx512dq", "-mavx512bw", "-mavx512vl"), "neon": (), "sve": (),
    "sve2": (), "rvv": (), "rvv-fp16": (), "vsx": (),
}  # fmt: skip

_BLOCKS = Contract(sums={"g": AnyOrder()}, zeros="any")
_CODES = Capabilities(dtypes=("f16",), strides="any")
# What blocks of 32 codes are multiplied by.
_OF_BLOCKS: dict[str, tuple[str, Contract, Capabilities]] = {
    "blocks": ("block_dot", _BLOCKS, _CODES),
    # The second part of a block of q8_1 is stored as f16.
    "blocks-above": ("block_dot_above", replace(_BLOCKS, points={"s": "f16"}), _CODES),
    # Blocks of 256 codes, whose scales are codes too: q4_K, q5_K and q6_K, by q8_K.
    "super-blocks": ("super_block_dot", _BLOCKS, _CODES),
    "super-blocks-six": ("super_block_dot_six", _BLOCKS, _CODES),
    # What they stand for, and what q8_K leaves of a number.
    "super-values": ("super_block", Contract(zeros="any"), _CODES),
    "super-values-six": ("super_block_six", Contract(zeros="any"), _CODES),
    # Of a row of subnormal numbers the reciprocal of a step overflows.
    "q8-k": ("q8_k", Contract(zeros="any", nonfinite="overflow"), replace(_ROWS, empty=False)),
    "q8-0": ("q8_0", Contract(points={"step": "f16"}), replace(_ROWS, empty=False)),
}  # fmt: skip
# What is in a file that takes seconds to compile.
_VALUES = ("super_block", "super_block_six", "q8_k")
# The files have formats that are not asked for here, and what those call is in others.
_FEW = ("-ffunction-sections", "-Wl,--gc-sections")
# That of RISC-V has assembly which clang does not take, and no compiler of Debian's else has its vectors.
_ARCHES = {"avx2": "x86", "avx512": "x86", "neon": "arm", "sve": "arm", "vsx": "powerpc"}


def _of_blocks(name: str, isa: str) -> CKernel:
    op, contract, able = _OF_BLOCKS[name]
    own = (_CPU / "arch" / _ARCHES[isa] / "quants.c",) if isa in _ARCHES else ()
    source = "blocks.c" if op.startswith("block") or op == "q8_0" else "supers.c"
    values = (_GGML / "src" / "ggml-quants.c",) if op in _VALUES else ()
    return CKernel(
        f"ggml-{name}-{isa}", op, _HERE / source, isa, contract, able,
        (_RELEASED, *_FEW, *_ISAS[isa], *(() if own else ("-DGGML_CPU_GENERIC",))),
        sources=(_CPU / "quants.c", *values, *own), include=(_GGML / "include", _GGML / "src", _CPU), fetch=_FETCH,
    )  # fmt: skip


def _kernel(name: str, isa: str) -> CKernel:
    op, contract, able, chosen = _FUNCTIONS[name]
    return CKernel(
        f"ggml-{name}-{isa}", op, _HERE / "vectors.c", isa, contract, able, (_RELEASED, *_ISAS[isa], *chosen),
        sources=(_CPU / "vec.cpp",), include=(_GGML / "include", _GGML / "src", _CPU), fetch=_FETCH,
    )  # fmt: skip


# Operators as a graph of one of them has them, on the backend of processors that `sh .ci/fetch ggml` builds.
_ONCE = Capabilities(empty=False)
_OPERATORS: dict[str, tuple[str, Contract, Capabilities, tuple[str, ...]]] = {
    "rms-norm": ("rms_norm", _FREE, replace(_ONCE, takes=("weight",)), ()),
    "norm": ("layer_norm", _FREE, replace(_ONCE, takes=("weight", "bias")), ()),
    "soft-max": ("softmax", replace(_FREE, algorithm={"y": "reciprocal"}), _ONCE, ()),
    "silu": ("silu_mul", replace(_FREE, algorithm={"h": "quotient"}), _ONCE, ("-DSILU_ALONE",)),
    "swiglu": ("silu_mul", replace(_FREE, algorithm={"h": "quotient"}), _ONCE, ()),
    "gelu-erf": ("gelu", _FREE, _ONCE, ()),
    "sum-rows": ("row_sum", _FREE, _ONCE, ()),
    "mean": ("row_mean", _FREE, _ONCE, ()),
}


def _operator(name: str) -> CKernel:
    op, contract, able, chosen = _OPERATORS[name]
    return CKernel(
        f"ggml-graph-{name}", op, _HERE / "graph.c", "any", contract, able, chosen, include=(_GGML / "include",),
        libraries=(_GGML / "x86_64" / "libggml.so",), fetch=_FETCH,
    )  # fmt: skip


KERNELS = (
    *map(_operator, _OPERATORS),
    *(_kernel(name, isa) for isa in _ISAS for name in _FUNCTIONS),
    *(_of_blocks(name, isa) for isa in ("any", *_ARCHES) for name in _OF_BLOCKS if isa != "any" or name != "q8-0"),
)
