"""ncnn's layers on NumPy arrays, rows one by one or packed by several."""

from __future__ import annotations

from collections.abc import Mapping

import ncnn
import numpy as np

Array = np.ndarray


def rms_norm(x: Array, weight: Array | None = None, *, eps: float, y: Array, packing: int) -> None:
    """Write the layer RMSNorm."""
    given = [] if weight is None else [weight]
    _run("RMSNorm", x, y, {0: x.shape[-1], 1: float(eps), 2: int(bool(given))}, given, packing)


def layer_norm(x: Array, *, eps: float, y: Array, packing: int) -> None:
    """Write the layer LayerNorm without factors: in Python it cannot be given both of them."""
    _run("LayerNorm", x, y, {0: x.shape[-1], 1: float(eps), 2: 0}, [], packing)


def softmax(x: Array, *, y: Array, packing: int) -> None:
    """Write the layer Softmax along the last axis."""
    _run("Softmax", x, y, {0: 1, 1: 1}, [], packing)


def gelu_of_clone(x: Array, *, y: Array) -> None:
    """Write the layer GELU of a matrix that was cloned, as ncnn's examples do."""
    layer, described = ncnn.create_layer("GELU"), ncnn.ParamDict()
    layer.load_param(described)
    matrix = ncnn.Mat(np.ascontiguousarray(x).reshape(-1, x.shape[-1])).clone()
    layer.forward_inplace(matrix, ncnn.Option())
    y[...] = np.array(matrix).reshape(y.shape)


def gelu(x: Array, *, y: Array, packing: int) -> None:
    """Write the layer GELU."""
    _run("GELU", x, y, {0: 0}, [], packing)


def gelu_tanh(x: Array, *, y: Array, packing: int) -> None:
    """Write the layer GELU of the fast form."""
    _run("GELU", x, y, {0: 1}, [], packing)


def _run(name: str, x: Array, y: Array, params: Mapping[int, float], weights: list[Array], packing: int) -> None:
    option = ncnn.Option()
    option.num_threads = 1
    option.use_fp16_storage = option.use_fp16_packed = option.use_fp16_arithmetic = False
    option.use_bf16_storage = False
    layer, described = ncnn.create_layer(name), ncnn.ParamDict()
    for key, value in params.items():
        described.set(key, value)
    assert layer.load_param(described) == 0
    kept = [np.ascontiguousarray(each) for each in weights]
    for matrix in map(ncnn.Mat, kept):
        assert layer.load_model(ncnn.ModelBinFromMatArray(matrix)) == 0
    assert layer.create_pipeline(option) == 0
    rows = np.ascontiguousarray(x).reshape(-1, x.shape[-1])
    matrix = ncnn.Mat(*reversed(rows.shape))
    np.array(matrix, copy=False)[...] = rows  # clone() of a matrix that is an array's memory reads past its end
    packed = packing > 1 and rows.shape[0] % packing == 0
    if packed:
        matrix = _packed(matrix, packing, option)
    assert layer.forward_inplace(matrix, option) == 0
    if packed:
        matrix = _packed(matrix, 1, option)
    y[...] = np.array(matrix).reshape(y.shape)
    layer.destroy_pipeline(option)


def _packed(matrix: ncnn.Mat, packing: int, option: ncnn.Option) -> ncnn.Mat:
    made = ncnn.Mat()
    ncnn.convert_packing(matrix, made, packing, option)
    return made
