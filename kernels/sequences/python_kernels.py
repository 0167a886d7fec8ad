"""cumsum, linear_recurrence and conv1d in Triton and torch, as declared."""

from __future__ import annotations

from pathlib import Path

from fuzz import AnyOrder, Capabilities, Contract, PythonKernel, Sequential

__all__ = ["KERNELS"]

_TRITON = Path(__file__).resolve().parent / "triton" / "sequences.py"
_TORCH = Path(__file__).resolve().parent / "torch" / "sequences.py"

_DTYPES = ("f32", "f16", "bf16")
_GATES = tuple((name, ("x", "f32")) for name in ("gate", "h0", "hs"))
_TAPS = tuple((name, ("x", "f32")) for name in ("weight", "bias", "y"))
_TREE = Contract(sums={"n": AnyOrder()}, zeros="any")
_LAWS = ("rerun", "surroundings")
_SILU = Contract(algorithm={"gate": "quotient"}, zeros="any")

KERNELS: tuple[PythonKernel, ...] = (
    PythonKernel(
        "cumsum-whole-row", "cumsum", _TRITON, "triton", _TREE,
        Capabilities(_DTYPES, strides="pitched", max={"n": 4096}, empty=False, mixed=(("y", ("x", "f32")),)),
        laws=_LAWS, summary="a row in registers, summed as a tree",
    ),
    PythonKernel(
        "linear-recurrence-whole-row", "linear_recurrence", _TRITON, "triton", _TREE,
        Capabilities(_DTYPES, strides="pitched", max={"n": 4096}, empty=False, takes=("h0",), mixed=_GATES),
        laws=_LAWS, summary="a row in registers, its pairs joined as a tree",
    ),
    PythonKernel(
        "conv1d-blocks", "conv1d", _TRITON, "triton", _SILU,
        Capabilities(_DTYPES, strides="pitched", takes=("bias",), params=("silu",), mixed=_TAPS), laws=_LAWS,
        summary="a block of 128 elements of a row in each program",
    ),
    PythonKernel(
        "cumsum-native", "cumsum", _TORCH, "torch", _TREE,
        Capabilities(_DTYPES, axis="any", strides="any", mixed=(("y", ("x", "f32")),)),
        laws=(), summary="torch.cumsum, which a GPU adds in another order each time",
    ),
    PythonKernel(
        "linear-recurrence-eager", "linear_recurrence", _TORCH, "torch", Contract(sums={"n": Sequential()}),
        Capabilities(_DTYPES, axis="any", strides="any", takes=("h0",), mixed=_GATES), devices=("cpu",),
        summary="one state after the other, of all rows at once",
    ),
    PythonKernel(
        "conv1d-native", "conv1d", _TORCH, "torch",
        Contract(algorithm={"gate": ("formula", "quotient")}, sums={"k": AnyOrder()}, addend="either", zeros="any"),
        Capabilities(_DTYPES, strides="any", takes=("bias",), params=("silu",), mixed=_TAPS), devices=("cpu",),
        summary="torch's convolution of groups",
    ),
)  # fmt: skip
