"""Models of one node each, and what evaluates them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

Array = np.ndarray
_DTYPES = {np.dtype("f4"): TensorProto.FLOAT, np.dtype("f2"): TensorProto.FLOAT16}
_OPSET, _IR = 23, 11
"""The first opset with RMSNormalization, and the first version of the format that has it."""


def rms_norm(x: Array, weight: Array, *, eps: float, y: Array, evaluator: str) -> None:
    """Write RMSNormalization."""
    y[...] = _run(evaluator, "RMSNormalization", [x, weight], axis=-1, epsilon=eps)


def layer_norm(x: Array, weight: Array, bias: Array | None = None, *, eps: float, y: Array, evaluator: str) -> None:
    """Write LayerNormalization."""
    given = [x, weight] if bias is None else [x, weight, bias]
    y[...] = _run(evaluator, "LayerNormalization", given, axis=-1, epsilon=eps)


def softmax(x: Array, *, y: Array, evaluator: str) -> None:
    """Write Softmax."""
    y[...] = _run(evaluator, "Softmax", [x], axis=-1)


def log_softmax(x: Array, *, y: Array, evaluator: str) -> None:
    """Write LogSoftmax."""
    y[...] = _run(evaluator, "LogSoftmax", [x], axis=-1)


def gelu(x: Array, *, y: Array, evaluator: str) -> None:
    """Write Gelu."""
    y[...] = _run(evaluator, "Gelu", [x])


def gelu_tanh(x: Array, *, y: Array, evaluator: str) -> None:
    """Write Gelu in its tanh form."""
    y[...] = _run(evaluator, "Gelu", [x], approximate="tanh")


def _run(evaluator: str, operator: str, arrays: Sequence[Array], **attributes: Any) -> Array:
    wanted = tuple(sorted(attributes.items()))
    shapes = tuple(each.shape for each in arrays) if evaluator == "tract" else (None,) * len(arrays)
    return _EVALUATORS[evaluator](operator, arrays[0].dtype, shapes, wanted)(arrays)


def _model(operator: str, dtype: np.dtype[Any], shapes: Sequence[Any], attributes: Sequence[tuple[str, Any]]) -> Any:
    kind = _DTYPES[dtype]
    names = [f"i{number}" for number in range(len(shapes))]
    node = helper.make_node(operator, names, ["o"], **dict(attributes))
    given = [helper.make_tensor_value_info(name, kind, shape) for name, shape in zip(names, shapes, strict=True)]
    made = helper.make_tensor_value_info("o", kind, shapes[0])
    graph = helper.make_graph([node], "one", given, [made])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR)


Evaluator = Callable[[Sequence[Array]], Array]


@lru_cache(256)
def _reference(*described: Any) -> Evaluator:
    from onnx.reference import ReferenceEvaluator

    ready = ReferenceEvaluator(_model(*described))
    return lambda arrays: ready.run(None, {f"i{k}": each for k, each in enumerate(arrays)})[0]


@lru_cache(256)
def _onnxruntime(*described: Any) -> Evaluator:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    model = _model(*described).SerializeToString()
    ready = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda arrays: ready.run(None, {f"i{k}": each for k, each in enumerate(arrays)})[0]


@lru_cache(256)
def _tract(*described: Any) -> Evaluator:
    import tract

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "one.onnx"
        onnx.save(_model(*described), file)
        ready = tract.onnx().load(str(file)).into_model().into_runnable()
    return lambda arrays: ready.run(list(arrays))[0].to_numpy()


_EVALUATORS: dict[str, Callable[..., Evaluator]] = {
    "reference": _reference, "onnxruntime": _onnxruntime, "tract": _tract
}  # fmt: skip
