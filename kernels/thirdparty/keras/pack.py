"""keras, by its torch and NumPy backends: `pip install keras`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fuzz import AnyOrder, Capabilities, Contract, PythonKernel

__all__ = ["KERNELS"]

_HERE = Path(__file__).resolve().parent
# What keras documents of its layers is their formula, and that 16 bits are computed in f32.
_LAST = Capabilities(dtypes=("f32", "f16", "bf16"))
_ANYWHERE = Capabilities(axis="any", strides="any")
# NumPy has no maximum of an empty axis, and says so.
_FILLED = replace(_ANYWHERE, empty=False)
# Of NumPy's functions the longest error that is documented is four ulp; nobody says in which order a row is added.
_NUMPY = Contract(sums={"n": AnyOrder()}, mean="reciprocal", accuracy={"exp": 4.0, "log": 4.0, "rsqrt": 2.0})
_OPS = ("rms_norm", "layer_norm", "softmax", "log_softmax")


# keras.ops.logsumexp: the logarithm of the sum of exponentials, which of a row with infinity is infinity.
_LIMITS = {"most": "finite"}


def _torch(op: str, able: Capabilities, suffix: str = "", contract: Contract = Contract()) -> PythonKernel:  # noqa: B008
    return PythonKernel(
        f"keras-torch-{op.replace('_', '-')}{suffix}", op, _HERE / "on_torch.py", "torch", contract, able,
        devices=("cpu",), packages=("keras",), environment={"KERAS_BACKEND": "torch"},
    )  # fmt: skip


def _numpy(op: str, contract: Contract = _NUMPY) -> PythonKernel:
    return PythonKernel(
        f"keras-numpy-{op.replace('_', '-')}", op, _HERE / "on_numpy.py", "numpy", contract,
        _ANYWHERE if op.endswith("_norm") else _FILLED,
        packages=("keras",), environment={"KERAS_BACKEND": "numpy"},
    )  # fmt: skip


KERNELS = (
    *(_torch(op, _LAST) for op in ("rms_norm", "layer_norm")),
    *(_torch(op, _ANYWHERE, "-any-axis") for op in _OPS),
    *(_numpy(op) for op in _OPS),
    _torch("logsumexp", _ANYWHERE, "-any-axis", Contract(algorithm=_LIMITS)),
    _numpy("logsumexp", replace(_NUMPY, algorithm=_LIMITS)),
)
