"""Cases of any op made by hand: which tensors, how large, where, of what."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from fuzz.core.base.case import Case, Layout, Output, Tensor, contiguous
from fuzz.core.base.dtypes import quantise
from oracles.operand import Operand
from oracles.ops import OPS

LayOut = Callable[[tuple[int, ...]], Layout]


def padded(shape: tuple[int, ...]) -> Layout:
    """Backwards, with a step along every axis: no two of them collapse, and nothing is contiguous."""
    strides, reach = [0] * len(shape), 2
    for axis in reversed(range(len(shape))):
        strides[axis] = -reach
        reach = reach * shape[axis] + 3
    return Layout(shape, tuple(strides))


def dense(shape: tuple[int, ...]) -> Layout:
    """C order without gaps."""
    return contiguous(shape)


def a_case(
    op_name: str,
    optional: tuple[str, ...] = (),
    grid: tuple[int, ...] = (3, 37),
    axis: int = -1,
    dtype: str = "f32",
    *,
    alias: Mapping[str, str] | None = None,
    layouts: Mapping[str, LayOut] | None = None,
    layout: LayOut = padded,
    mixed: Mapping[str, str] | None = None,
    offset: float = 0.0,
    eps: float = float(np.float32(1e-3)),
    scale: float = 1.0,
) -> Case:
    """Random values around 0.5 (around 2 for rstd), one seed for all; `layouts` and `mixed` are by tensor."""
    op, axis, rng = OPS[op_name], axis % len(grid), np.random.default_rng(7)
    inputs: dict[str, Tensor] = {}
    outputs: dict[str, Output] = {}

    def place(operand: Operand) -> tuple[str, Layout]:
        of = (mixed or {}).get(operand.name, "f32" if operand.dtype == "f32" else dtype)
        return of, (layouts or {}).get(operand.name, layout)(op.shape(operand.name, grid, axis))

    for operand in op.inputs:
        if operand.optional and operand.name not in optional:
            continue
        of, where = place(operand)
        values = rng.standard_normal(where.shape) + (2 if operand.name == "rstd" else 0.5)
        values = np.abs(values) if operand.name == "rstd" else values * scale
        inputs[operand.name] = Tensor(of, where, quantise(values, of).tobytes())
    for operand in op.outputs:
        if operand.optional and operand.name not in optional:
            continue
        of, where = place(operand)
        source = (alias or {}).get(operand.name)
        outputs[operand.name] = Output(of, inputs[source].layout if source else where, source)
    return Case(op_name, {"eps": eps, "axis": axis, "weight_offset": offset}, inputs, outputs)
