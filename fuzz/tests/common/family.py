"""Kernels of all ops in float32, with sums in order: every law holds for them. The four of RMSNorm are written out, and
round the sum of two tensors as kernels do; the others are read from their formulas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.core.base.case import Case
from fuzz.core.base.dtypes import NUMPY_DTYPE, from_bits, quantise
from oracles.algorithm import traced
from oracles.elementary.function import Elementary
from oracles.formula.exact.arithmetic import Float64, along
from oracles.formula.exact.centre import Inputs, evaluate
from oracles.formula.exact.contraction import Axes
from oracles.operand import AXIS
from oracles.ops import OPS
from oracles.problem import Arrangement

F32 = NDArray[np.float32]


def family(case: Case) -> Mapping[str, bytes]:
    """The outputs of an honest kernel."""
    with np.errstate(all="ignore"):
        own = _backward if case.op.endswith("backward") else _forward
        results = own(case) if "rms_norm" in case.op else _by_formula(case)
        return {
            name: quantise(results[name].astype(np.float64), output.dtype).tobytes()
            for name, output in case.outputs.items()
        }


def _read(case: Case, name: str) -> F32 | None:
    """An input in float32; grids with the normalised axis last."""
    if name not in case.inputs:
        return None
    tensor = case.inputs[name]
    values = from_bits(tensor.bits, tensor.dtype, tensor.layout.shape).astype(np.float32)
    grid = tensor.layout.shape == case.inputs["x"].layout.shape and name not in ("weight", "rstd")
    return np.moveaxis(values, int(case.params["axis"]), -1) if grid else values


def _grid(case: Case, values: F32) -> F32:
    return np.moveaxis(values, -1, int(case.params["axis"]))


def _in_order(values: F32) -> F32:
    return np.cumsum(values, axis=-1, dtype=np.float32)[..., -1:]


def _x(case: Case) -> F32:
    x = _read(case, "x")
    assert x is not None
    return x


def _rstd(case: Case, x: F32) -> F32:
    mean = _in_order(x * x) / np.float32(x.shape[-1])
    root: F32 = np.float32(1) / np.sqrt(mean + np.float32(case.params["eps"]))
    return root


def _weighted(case: Case, values: F32) -> F32:
    weight = _read(case, "weight")
    return values if weight is None else values * (np.float32(case.params.get("weight_offset", 0.0)) + weight)


def _forward(case: Case) -> dict[str, F32]:
    x, residual = _x(case), _read(case, "residual")
    if residual is not None:
        held = case.outputs["sum"].dtype if "sum" in case.outputs else case.inputs["x"].dtype
        x = (x + residual).astype(NUMPY_DTYPE[held]).astype(np.float32)
    rstd = _rstd(case, x)
    return {"y": _grid(case, _weighted(case, x * rstd)), "sum": _grid(case, x), "rstd": rstd[..., 0]}


def _backward(case: Case) -> dict[str, F32]:
    x, dy, given, dsum = _x(case), _read(case, "dy"), _read(case, "rstd"), _read(case, "dsum")
    assert dy is not None
    rstd = _rstd(case, x) if given is None else given[..., None]
    h, m = x * rstd, _weighted(case, dy)
    dx = rstd * (m - h * (_in_order(h * m) / np.float32(x.shape[-1])))
    dx = dx if dsum is None else dx + dsum
    dw = np.cumsum((dy * h).reshape(-1, x.shape[-1]), axis=0, dtype=np.float32)[-1]
    return {"dx": _grid(case, dx), "dresidual": _grid(case, dx), "dw": dw}


class _InOrder(Float64):
    """float32, where sums are in order."""

    def lift(self, values: Any) -> Any:
        return values.astype(np.float32)

    def apply(self, function: Elementary, values: Any) -> Any:
        return super().apply(function, values.astype(np.float64)).astype(np.float32)

    def total(self, values: Any, axis: int) -> Any:
        zero = np.zeros_like(values, shape=[1 if at == axis else size for at, size in enumerate(values.shape)])
        return np.cumsum(np.concatenate([zero, values], axis), axis=axis, dtype=np.float32).take([-1], axis)

    def greatest(self, values: Any, axis: int) -> Any:
        return super().greatest(values, axis) + np.float32(0)  # of zeros of both signs NumPy takes any

    def dot(self, a: Any, b: Any, axes: Axes) -> Any:
        return along(self.total, a * b, axes)


def _by_formula(case: Case) -> dict[str, NDArray[Any]]:
    op = OPS[case.op]
    given = {name: from_bits(each.bits, each.dtype, each.layout.shape) for name, each in case.inputs.items()}
    arranged = Arrangement(op, {name: values.shape for name, values in given.items()}, int(case.params[AXIS]))
    tensors = {name: arranged.collapsed(name, values.astype(np.float64)) for name, values in given.items()}
    graph = traced(op, {*case.inputs, *case.outputs, *case.params})
    found = evaluate(Inputs(graph, tensors, case.params), _InOrder())
    sizes = {dim: arranged.sizes[dim] for dim in graph.dims}
    return {name: arranged.returned(name, found[node], sizes) for name, node in graph.outputs.items()}
