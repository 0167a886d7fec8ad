"""liger-kernel's Triton kernels, held to what Triton documents: `pip install liger-kernel`."""

from __future__ import annotations

from pathlib import Path

from fuzz import Capabilities, Contract, PythonKernel

__all__ = ["KERNELS"]

_SOURCE = Path(__file__).resolve().parent / "functions.py"
_FLOATS = ("f32", "f16", "bf16")
_ROWS = Capabilities(dtypes=_FLOATS, max={"n": 65536})
# Its casting modes: Llama's norm rounds what is normalised, Gemma's computes all in f32. A sum is rounded before it is
# normalised.
_MODES = {
    "rms_norm": {"llama": Contract(points={"h": "input"}), "gemma": Contract()},
    "fused_add_rms_norm": {
        "llama": Contract(points={"h": "input", "added": "input"}), "gemma": Contract(points={"added": "input"})
    },
}  # fmt: skip


def _kernel(op: str, contract: Contract, able: Capabilities, mode: str = "") -> PythonKernel:
    name = "-".join(("liger", op.replace("_", "-"), *filter(None, [mode])))
    options = (("mode", mode),) if mode else ()
    # Of Python's own numbers, which the interpreter passes on, swiglu wants a method that they have on a device alone.
    devices = ("cuda",) if op == "silu_mul" else ()
    return PythonKernel(
        name, op, _SOURCE, "triton", contract, able, options=options, devices=devices, packages=("liger_kernel",)
    )


KERNELS = (
    *(_kernel(op, contract, _ROWS, mode) for op, modes in _MODES.items() for mode, contract in modes.items()),
    *(_kernel(op, Contract(), _ROWS) for op in ("layer_norm", "softmax")),
    # The gate is rounded before it is multiplied.
    _kernel("silu_mul", Contract(points={"h": "input"}), _ROWS),
)
