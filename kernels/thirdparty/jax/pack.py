"""JAX's and Flax's functions on a processor: `pip install jax flax`."""

from __future__ import annotations

from pathlib import Path

from fuzz import AnyOrder, Capabilities, Contract, PythonKernel

__all__ = ["KERNELS"]

_SOURCE = Path(__file__).resolve().parent / "functions.py"
# XLA documents neither the order of its sums nor how accurate its functions are; on a processor it flushes subnormals.
_FREE = Contract(
    sums={"n": AnyOrder()}, mean="reciprocal", platform="none", denormals="flush",
    accuracy={"exp": 4.0, "log": 4.0, "rsqrt": 2.0, "erf": 4.0, "tanh": 4.0}, absolute={"erf": 4.0},
)  # fmt: skip
_SINGLE = Capabilities(max={"n": 4096})
_OPS = ("rms_norm", "layer_norm", "softmax", "log_softmax", "gelu", "gelu_tanh", "row_sum", "row_var", "cumsum")

KERNELS = tuple(
    PythonKernel(
        f"jax-{op.replace('_', '-')}", op, _SOURCE, "numpy", _FREE, _SINGLE, packages=("jax", "flax"), slow=True,
        environment={"JAX_PLATFORMS": "cpu"},
    )
    for op in _OPS
)  # fmt: skip
