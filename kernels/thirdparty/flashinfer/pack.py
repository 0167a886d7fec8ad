"""FlashInfer's Triton kernels, held to what Triton documents: `pip install --no-deps flashinfer-python`, of which
they need nothing but their own files."""

from __future__ import annotations

from pathlib import Path

from fuzz import Capabilities, Contract, PythonKernel

from .ops import OPS

__all__ = ["KERNELS", "OPS"]

_SOURCE = Path(__file__).resolve().parent / "functions.py"
_ROWS = Capabilities(dtypes=("f32", "f16", "bf16"), max={"n": 65536})
# A loop of scalars, one for each element.
_MERGED = Capabilities(dtypes=("f32", "f16", "bf16"), max={"n": 256})

_FUNCTIONS: dict[str, tuple[str, Contract, Capabilities]] = {
    # A comment there says that what is normalised is rounded before it is multiplied; neither the code nor its
    # documentation does so.
    "rms_norm": ("rms_norm", Contract(), _ROWS),
    # A sum is rounded before it is normalised.
    "fused_add_rms_norm": ("fused_add_rms_norm", Contract(points={"added": "input"}), _ROWS),
    "silu_mul": ("silu_mul", Contract(), _ROWS),
    "merge_state": ("merge_state", Contract(), _MERGED),
    "merge_state_in_place": ("merge_state", Contract(), _MERGED),
}

KERNELS = tuple(
    PythonKernel(
        f"flashinfer-{entry.replace('_', '-')}", op, _SOURCE, "triton", contract, able, entry=entry,
        packages=("flashinfer",),
    )
    for entry, (op, contract, able) in _FUNCTIONS.items()
)  # fmt: skip
