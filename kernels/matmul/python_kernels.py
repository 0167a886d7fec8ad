"""matmul in Triton and torch, as declared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fuzz import AnyOrder, Blocks, Capabilities, Contract, PythonKernel

__all__ = ["KERNELS"]

_TRITON = Path(__file__).resolve().parent / "triton" / "matmul.py"
_TORCH = Path(__file__).resolve().parent / "torch" / "matmul.py"
_SCALED = Path(__file__).resolve().parent / "triton" / "scaled_matmul.py"
_SCALED_TORCH = Path(__file__).resolve().parent / "torch" / "scaled_matmul.py"

_ANYWHERE = Capabilities(
    dtypes=("f32", "f16", "bf16", "f64"), strides="any",
    mixed=(("bias", ("a", "f32")), ("c", ("a", "f32"))),
)  # fmt: skip
_F32 = Capabilities(strides="any")
_HALVES = Capabilities(
    dtypes=("f16", "bf16"), strides="any", mixed=(("bias", ("a", "f32")), ("c", ("a", "f32"))),
)  # fmt: skip
# A library adds in an order that depends on the shape, the processor and the number of threads.
_FREE = Contract(sums={"k": AnyOrder()}, zeros="any")
# Tensor cores of Ampere add 8 terms at once to what there is, all cut off a bit below the last one of f32; later ones
# add more, and cut off less.
_CORES = Contract(sums={"k": Blocks(8, truncates=True, extra=1)}, denormals="flush", zeros="any")
# Of TF32 they add 4. Whether they round f32 to it or cut it off is their affair; an interpreter does neither.
_FOURS = replace(_CORES, sums={"k": Blocks(4, truncates=True, extra=1)})
_MAYBE_TF32 = dict.fromkeys("ab", "maybe tf32 towards zero")
_TF32 = dict.fromkeys("ab", "tf32")
# Sums of whole numbers are exact as integers, and so in f64.
_WHOLE = Contract(dtypes={"count": "f64"}, zeros="any")
_SCALES = Capabilities(
    dtypes=("f32", "f16", "bf16"), strides="any", takes=("bias",),
    mixed=tuple((name, ("scale_a", "f32")) for name in ("scale_b", "bias", "c")),
)  # fmt: skip
_STARTED = Contract(sums={"k": AnyOrder()}, addend="either", zeros="any")

KERNELS: tuple[PythonKernel, ...] = (
    PythonKernel(
        "matmul-tiled", "matmul", _TRITON, "triton", _FREE, _F32, laws=("rerun", "surroundings"),
        summary="a tile of 32 rows and columns in each program",
    ),
    PythonKernel(
        "matmul-tensor-cores", "matmul", _TRITON, "triton", _CORES, _HALVES, laws=("rerun", "surroundings"),
        summary="the same of 16 bits, by tensor cores",
    ),
    PythonKernel(
        "matmul-tf32-cores", "matmul", _TRITON, "triton", replace(_FOURS, points=_MAYBE_TF32), _F32, entry="by_cores",
        laws=("rerun", "surroundings"), summary="the same of f32, by tensor cores, as TF32",
    ),
    PythonKernel(
        "matmul-tf32-rounded", "matmul", _TRITON, "triton", replace(_FOURS, points=_TF32), _F32, entry="rounded",
        laws=("rerun", "surroundings"), summary="the same of f32 that is rounded to TF32 first",
    ),
    PythonKernel(
        "matmul-split-k", "matmul", _TRITON, "triton", _STARTED, _F32, entry="split_k",
        summary="k in up to 4 parts, which atomic additions join",
    ),
    PythonKernel("matmul-torch", "matmul", _TORCH, "torch", _FREE, _ANYWHERE, summary="torch.matmul, then the bias"),
    PythonKernel(
        "matmul-added", "matmul", _TORCH, "torch", _STARTED, _F32, entry="added", devices=("cpu",),
        summary="torch.addmm, torch.baddbmm",
    ),
    PythonKernel(
        "scaled-matmul-tiled", "scaled_matmul", _SCALED, "triton", _WHOLE, _SCALES, laws=("rerun", "surroundings"),
        summary="a tile of 32 rows and columns in each program, its terms added as int32",
    ),
    PythonKernel(
        "scaled-matmul-torch", "scaled_matmul", _SCALED_TORCH, "torch",
        replace(_WHOLE, algorithm={"scaled": "scales first"}), _SCALES, devices=("cpu",),
        summary="a product of int32, times the product of the scales",
    ),
)  # fmt: skip
