"""Kernels of the ops in float64, rounded once, that are correct but for a bug that may be planted by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from fuzz.core.base.dtypes import NUMPY_DTYPE
from fuzz.quality.planted.bug import Array, PlantedCall, of_rows
from fuzz.quality.planted.bugs import BUGS
from oracles.doubledouble import F64
from oracles.dtypes import form
from oracles.ops import OPS
from oracles.rounding import round_to

Values = Mapping[str, F64]
"""The values of tensors by name: row by row for one of the first input's shape, as a column for one with an element a
row."""


def planted(*, op: str, bug: str = "", axis: int = -1, **given: Array | float) -> None:
    """Calculate the outputs that are given, as all tensors and parameters of the op by their names."""
    tensors = {name: each for name, each in given.items() if isinstance(each, np.ndarray)}
    parameters = {name: each for name, each in given.items() if not isinstance(each, np.ndarray)}
    call = PlantedCall.of(op, tensors, {**OPS[op].neutral, **parameters}, axis)
    with np.errstate(all="ignore"):
        found = FORMULAS[op]({each.name: _values(call, each.name) for each in OPS[op].inputs if each.name in tensors},
                             call.parameters)  # fmt: skip
        for each in OPS[op].outputs:
            if each.name in tensors:
                _write(call, each.name, np.atleast_2d(found[each.name]), tensors[each.name], bug)


def _values(call: PlantedCall, name: str) -> F64:
    op, values = OPS[call.op], call.seen[name].values
    if name in op.alike:
        return call.grid(name)
    return values if name in op.columns else values.reshape(call.rows, 1)


def _write(call: PlantedCall, name: str, values: F64, output: Array, bug: str) -> None:
    written = np.ones(values.shape, dtype=bool)
    planted = BUGS[bug] if bug else None
    if planted is not None and name == (planted.output or OPS[call.op].outputs[0].name):
        struck = planted.struck(call)
        if struck.any():
            over = np.asarray([True]) if OPS[call.op].operand(name).axes == (OPS[call.op].row,) else struck
            values, written = planted.effect(values, over)
    dtype = call.seen[name].dtype
    rounded = round_to(values, form(dtype)).astype(NUMPY_DTYPE[dtype])
    if name in OPS[call.op].alike:
        np.copyto(output, of_rows(rounded, output.shape, call.axis), where=of_rows(written, output.shape, call.axis))
    else:
        np.copyto(output, rounded.reshape(output.shape), where=written.reshape(output.shape))


def _mean(values: F64) -> F64:
    found: F64 = values.sum(-1, keepdims=True) / np.float64(values.shape[-1])
    return found


def _rms_norm(given: Values, parameters: Mapping[str, float]) -> Values:
    root = 1.0 / np.sqrt(_mean(given["x"] ** 2) + parameters["eps"])
    return {"y": given["x"] * root * _factor(given, parameters), "rstd": root}


def _factor(given: Values, parameters: Mapping[str, float]) -> F64:
    return parameters["weight_offset"] + given["weight"] if "weight" in given else np.ones(1)


def _fused_add_rms_norm(given: Values, parameters: Mapping[str, float]) -> Values:
    added = given["x"] + given["residual"]
    return {**_rms_norm({**given, "x": added}, parameters), "sum": added}


def _rms_norm_backward(given: Values, parameters: Mapping[str, float]) -> Values:
    x, dy = given["x"], given["dy"]
    root = given.get("rstd", 1.0 / np.sqrt(_mean(x**2) + parameters["eps"]))
    h, g = x * root, dy * _factor(given, parameters)
    return {"dx": root * (g - h * _mean(h * g)), "dw": (dy * h).sum(0)}


def _layer_norm(given: Values, parameters: Mapping[str, float]) -> Values:
    mean = _mean(given["x"])
    centred = given["x"] - mean
    root = 1.0 / np.sqrt(_mean(centred**2) + parameters["eps"])
    scaled = centred * root * given.get("weight", np.ones(1))
    return {"y": scaled + given["bias"] if "bias" in given else scaled, "mean": mean, "rstd": root}


def _layer_norm_backward(given: Values, parameters: Mapping[str, float]) -> Values:
    centred, dy = given["x"] - given.get("mean", _mean(given["x"])), given["dy"]
    root = given.get("rstd", 1.0 / np.sqrt(_mean(centred**2) + parameters["eps"]))
    h, g = centred * root, dy * given.get("weight", np.ones(1))
    return {"dx": root * (g - _mean(g) - h * _mean(g * h)), "dw": (dy * h).sum(0), "db": dy.sum(0)}


def _softmax(given: Values, _: Mapping[str, float]) -> Values:
    e = np.exp(given["x"] - given["x"].max(-1, keepdims=True, initial=-np.inf))
    return {"y": e / e.sum(-1, keepdims=True)}


def _log_softmax(given: Values, _: Mapping[str, float]) -> Values:
    shifted = given["x"] - given["x"].max(-1, keepdims=True, initial=-np.inf)
    return {"y": shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))}


def _softmax_backward(given: Values, _: Mapping[str, float]) -> Values:
    y, dy = given["y"], given["dy"]
    return {"dx": y * (dy - (y * dy).sum(-1, keepdims=True))}


def _log_softmax_backward(given: Values, _: Mapping[str, float]) -> Values:
    return {"dx": given["dy"] - np.exp(given["y"]) * given["dy"].sum(-1, keepdims=True)}


FORMULAS: Mapping[str, Callable[[Values, Mapping[str, float]], Values]] = {
    "rms_norm": _rms_norm, "fused_add_rms_norm": _fused_add_rms_norm, "rms_norm_backward": _rms_norm_backward,
    "layer_norm": _layer_norm, "layer_norm_backward": _layer_norm_backward, "softmax": _softmax,
    "log_softmax": _log_softmax, "softmax_backward": _softmax_backward, "log_softmax_backward": _log_softmax_backward,
}  # fmt: skip
