"""MLX's fast functions and layers on a processor: `pip install "mlx[cpu]"`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fuzz import AnyOrder, Capabilities, Contract, PythonKernel, Within

__all__ = ["KERNELS"]

_SOURCE = Path(__file__).resolve().parent / "functions.py"
# MLX documents that its normalisations accumulate in f32; not in which order, nor how accurate its functions are. Its
# source says that it makes e^x as 2^(x / ln 2), which errs as on a GPU, and of that the whole power by a shift of bits:
# below the least normal number that is zero.
_FREE = Contract(
    sums={"n": AnyOrder()}, mean="reciprocal", platform="none",
    accuracy={
        "exp": Within(4.0, growth=0.62, flushes=True), "log": 4.0, "rsqrt": 2.0, "erf": 4.0, "tanh": 4.0,
    },
    absolute={"erf": 4.0},
)  # fmt: skip
_SINGLE = Capabilities()
# What takes a maximum first says that it takes no empty array.
_FILLED = Capabilities(empty=False)
_OPS = ("rms_norm", "layer_norm", "softmax", "gelu", "gelu_tanh", "row_sum", "row_var")

# mx.logsumexp: log(sum(exp(x))), which of a row with infinity is infinity.
_LIMITS = replace(_FREE, algorithm={"most": "finite"})
# Its sigmoid is made of that exponential, whose error grows with the argument.
_GATED = replace(_FREE, algorithm={"s": "quotient"})


def _kernel(op: str, contract: Contract = _FREE, able: Capabilities = _SINGLE) -> PythonKernel:
    return PythonKernel(f"mlx-{op.replace('_', '-')}", op, _SOURCE, "numpy", contract, able, packages=("mlx",))


KERNELS = (
    *map(_kernel, _OPS), _kernel("silu_mul", _GATED), _kernel("log_softmax", able=_FILLED),
    _kernel("logsumexp", _LIMITS, _FILLED),
)  # fmt: skip
