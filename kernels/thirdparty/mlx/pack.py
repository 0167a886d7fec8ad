"""MLX's fast functions and layers on a processor: `pip install "mlx[cpu]"`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fuzz import Any, Capabilities, Contract, PythonKernel

__all__ = ["KERNELS"]

_SOURCE = Path(__file__).resolve().parent / "functions.py"
# MLX documents that its normalisations accumulate in f32; not in which order, nor how accurate its functions are.
_FREE = Contract(
    sums={"n": Any()}, mean="reciprocal", platform="none",
    accuracy={"exp": 4.0, "log": 4.0, "rsqrt": 2.0, "erf": 4.0, "tanh": 4.0}, absolute={"erf": 4.0},
)  # fmt: skip
_SINGLE = Capabilities()
_OPS = ("rms_norm", "layer_norm", "softmax", "log_softmax", "gelu", "gelu_tanh", "silu_mul", "row_sum", "row_var")

# mx.logsumexp: log(sum(exp(x))), which of a row with infinity is infinity. It says that it takes no empty array.
_LIMITS = replace(_FREE, algorithm={"most": "finite"})


def _kernel(op: str, contract: Contract = _FREE, able: Capabilities = _SINGLE) -> PythonKernel:
    return PythonKernel(f"mlx-{op.replace('_', '-')}", op, _SOURCE, "numpy", contract, able, packages=("mlx",))


KERNELS = (*map(_kernel, _OPS), _kernel("logsumexp", _LIMITS, Capabilities(empty=False)))
