"""vLLM's Triton kernels, held to what Triton documents: `pip install --no-deps vllm`, of which they need nothing but
their own files."""

from __future__ import annotations

from pathlib import Path

from fuzz import Blocks, Capabilities, Contract, PythonKernel

from .ops import OPS

__all__ = ["KERNELS", "OPS"]

_SOURCE = Path(__file__).resolve().parent / "functions.py"
_FLOATS = ("f32", "f16", "bf16")
_ROWS = Capabilities(dtypes=_FLOATS, max={"n": 65536})
# In the interpreter the first maximum is a number of Python's, and what follows is of f16, as it is on no GPU.
_SINGLE = Capabilities(max={"n": 65536}, empty=False)
# By default Triton has tensor cores take f32 as TF32, of which they add four terms at once, or eight.
_CORES = Contract(
    sums={"k": Blocks(4, truncates=True, extra=1)}, points=dict.fromkeys("ab", "maybe tf32 towards zero"),
    denormals="flush", zeros="any",
)  # fmt: skip

_FUNCTIONS: dict[str, tuple[str, Contract, Capabilities]] = {
    "rms_norm": ("rms_norm", Contract(), _ROWS),
    "softmax": ("softmax", Contract(), _SINGLE),
    "log_softmax": ("log_softmax", Contract(), _SINGLE),
    "row_mean": ("row_mean", Contract(), Capabilities(dtypes=_FLOATS, max={"n": 65536}, empty=False)),
    "matmul": ("matmul", _CORES, Capabilities(dtypes=_FLOATS, max={"k": 512}, empty=False)),
    "merge_attn_states": ("merge_attn_states", Contract(), Capabilities(dtypes=_FLOATS, max={"n": 256})),
}

KERNELS = tuple(
    PythonKernel(
        f"vllm-{entry.replace('_', '-')}", op, _SOURCE, "triton", contract, able, entry=entry, packages=("vllm",)
    )
    for entry, (op, contract, able) in _FUNCTIONS.items()
)
