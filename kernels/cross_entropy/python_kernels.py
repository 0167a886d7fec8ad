"""cross_entropy and its gradient in Triton and torch, as declared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fuzz import Capabilities, Contract, Pairwise, PythonKernel

__all__ = ["KERNELS"]

_TRITON = Path(__file__).resolve().parent / "triton" / "cross_entropy.py"
_TORCH = Path(__file__).resolve().parent / "torch" / "cross_entropy.py"

# A block of 1024 is added by 8 in each thread and a tree, and each of up to 32 blocks adds one more to the chain.
_GRADIENT = Contract(sums={"n": Pairwise(48)})
_ONLINE = replace(_GRADIENT, algorithm={"mass": "online"}, accuracy={"divide": 0.5})  # it divides with div_rn
# It takes the logarithm of a sum off. Of a mean it adds what is spread evenly over all classes and rows before it
# divides, which overflows where no loss does.
_NATIVE = Contract(algorithm={"nll": "shifted", "even": "summed", "mean": "apart"})

# On a processor torch raises at a label that is none; on a GPU its assertion ends all that the process could do there,
# and the kernels in Triton look at none. So only what runs on processors alone says that labels are checked.
_LABEL = ("label", ("int32", "int64"))
_ROWS = Capabilities(
    dtypes=("f32", "f16", "bf16"), strides="pitched", mixed=(_LABEL, ("loss", ("x", "f32"))), max={"n": 32768},
)  # fmt: skip
_GRADIENTS = replace(_ROWS, mixed=(_LABEL,), aliases=(("dx", "x"),))
_LAWS = ("rerun", "surroundings")
_ROW_LAWS = (*_LAWS, "row_permutation", "batch_subset", "batch_append", "scaling", "sign_flip")

KERNELS: tuple[PythonKernel, ...] = (
    PythonKernel(
        "cross-entropy-online", "cross_entropy", _TRITON, "triton", _ONLINE, _ROWS, laws=_LAWS,
        summary="a row by blocks, the sum scaled again as it goes",
    ),
    PythonKernel(
        "cross-entropy-backward-blocks", "cross_entropy_backward", _TRITON, "triton", _GRADIENT, _GRADIENTS,
        laws=_ROW_LAWS, summary="a row by blocks, with the lse that is given, or is formed again",
    ),
    PythonKernel(
        "cross-entropy-eager", "cross_entropy", _TORCH, "torch", Contract(),
        replace(_ROWS, axis="any", strides="any", max={}), summary="elementary operations",
    ),
    PythonKernel(
        "cross-entropy-native", "cross_entropy", _TORCH, "torch", _NATIVE,
        replace(_ROWS, dtypes=("f32",), axis="any", strides="any", max={}, checks=("label",)),
        entry="native", devices=("cpu",), summary="torch.nn.functional.cross_entropy",
    ),
    PythonKernel(
        "cross-entropy-backward-eager", "cross_entropy_backward", _TORCH, "torch", Contract(),
        replace(_GRADIENTS, axis="any", strides="any", max={}), summary="elementary operations",
    ),
)  # fmt: skip
