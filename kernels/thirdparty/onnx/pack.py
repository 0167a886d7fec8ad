"""ONNX's operators by three evaluators: the reference one of the ONNX project, ONNX Runtime and tract.

`pip install onnx onnxruntime tract`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fuzz import AnyOrder, Capabilities, Contract, PythonKernel

__all__ = ["KERNELS"]

_MODELS = Path(__file__).resolve().parent / "models.py"
# onnx.ai/onnx/operators: RMSNormalization and LayerNormalization compute their first stage in f32 (stash_type 1), cast
# that back to the dtype of X, and then scale it. No operator promises an order of sums or accurate functions.
_FREE = Contract(
    sums={"n": AnyOrder()}, mean="reciprocal", accuracy={"exp": 4.0, "log": 4.0, "rsqrt": 2.0, "erf": 4.0, "tanh": 4.0},
    absolute={"erf": 4.0}, platform="none",
)  # fmt: skip
_SINGLE = Capabilities()
_WEIGHTED = Capabilities(dtypes=("f32", "f16"), needs=("weight",))

_ROUNDS = replace(_FREE, points={"h": "input"})
_OPS = {
    "rms_norm": (_ROUNDS, _WEIGHTED),
    "layer_norm": (_FREE, replace(_WEIGHTED, dtypes=("f32",))),
    "softmax": (_FREE, _SINGLE),
    "log_softmax": (_FREE, _SINGLE),
    "gelu": (_FREE, _SINGLE),
    "gelu_tanh": (_FREE, _SINGLE),
}

# ONNX Runtime keeps a mean up to date with each element, as its means of subnormal rows show to the last bit.
_UPDATED = {"mean": "welford", "var": "welford"}
# tract documents nothing of Erf, whose error was measured at 200,001 numbers from -5 to 5: 1.65e-6 at most, at -0.0384.
_ERF_OF_TRACT = {"erf": 28.0}


def _kernel(evaluator: str, package: str, op: str) -> PythonKernel:
    contract, able = _OPS[op]
    if evaluator == "onnxruntime" and op == "layer_norm":
        contract = replace(contract, algorithm=_UPDATED)
    if evaluator == "tract" and op == "gelu":
        contract = replace(contract, absolute=_ERF_OF_TRACT)
    if evaluator == "onnxruntime" and able.needs:
        able = replace(able, empty=False)  # it says that an axis to be normalised must have an element
    if evaluator == "tract" and op == "layer_norm":
        able = replace(able, empty=False)  # it panics as its other norm does, of which that is kept
    return PythonKernel(
        f"{evaluator}-{op.replace('_', '-')}", op, _MODELS, "numpy", contract, able,
        options=(("evaluator", evaluator),), packages=tuple(sorted({"onnx", package})),
    )  # fmt: skip


_EVALUATORS = {"reference": "onnx", "onnxruntime": "onnxruntime", "tract": "tract"}
KERNELS = tuple(_kernel(name, package, op) for name, package in _EVALUATORS.items() for op in _OPS)
