"""An op that nobody else knows, registered for one test. Its tensors and parameters have names of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from fuzz.core.base.case import Case, Output, Tensor, contiguous
from oracles.formula.trace import Node, Outputs
from oracles.op import Op
from oracles.operand import Operand, Parameter
from oracles.ops import OPS, register


def blend(given: Node, other: Node, scale: Node | None = None, *, share: Node, shift: Node | float = 3.0) -> Outputs:
    """result = given + share other, times scale where there is one; edge = the first of each row + shift."""
    result = given + share * other
    return {"result": result if scale is None else result * scale}


OP = Op(
    blend,
    inputs=(Operand("given", "... k"), Operand("other", "... k"), Operand("scale", "k", optional=True)),
    outputs=(Operand("result", "... k"), Operand("edge_of_each_row", "...", optional=True)),
    parameters=(Parameter("share", (0.5, 2.0)), Parameter("shift", (3.0, 1.0), neutral=3.0)),
    summary="two tensors, added in parts",
)
C_KERNEL = """
#include "kernelfuzz.h"
int kf_blend(const kf_blend_call *call) {
    const int64_t rows = call->given.shape[0], n = call->given.shape[1];
    if (call->axis != 1) return KF_REJECTED;
    const float *given = call->given.data, *other = call->other.data, *scale = call->scale.data;
    float *result = call->result.data, *edge = call->edge_of_each_row.data;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < n; j++)
            result[i * n + j] = (given[i * n + j] + call->share * other[i * n + j]) * (scale ? scale[j] : 1.0f);
        if (edge) edge[i] = given[i * n] + call->shift;
    }
    return KF_OK;
}
"""
PYTHON_KERNEL = """
import numpy as np
def blend(given, other, scale=None, *, share{more}, result, edge_of_each_row=None):
    result[...] = (given + np.float32(share) * other) * (1 if scale is None else scale)
    if edge_of_each_row is not None:
        edge_of_each_row[...] = given[..., 0] + np.float32({shift})
"""


@contextmanager
def registered(op: Op = OP) -> Iterator[Op]:
    """Known as long as this lasts."""
    try:
        yield register(op)
    finally:
        OPS.pop(op.name, None)


def cases() -> tuple[Case, Case]:
    """The plainest one, and one with all that is optional."""
    given, other = (np.arange(6, dtype="<f4") * step for step in (1, 4))
    grid = contiguous((2, 3))
    inputs = {"given": Tensor("f32", grid, given.tobytes()), "other": Tensor("f32", grid, other.tobytes())}
    plain = Case("blend", {"share": 0.5, "axis": 1}, inputs, {"result": Output("f32", grid)})
    scale = Tensor("f32", contiguous((3,)), np.array([1, 2, 4], "<f4").tobytes())
    outputs = {**plain.outputs, "edge_of_each_row": Output("f32", contiguous((2,)))}
    return plain, Case("blend", {"share": 2.0, "axis": 1, "shift": 1.0}, {**inputs, "scale": scale}, outputs)


RESULTS: tuple[dict[str, list[float]], ...] = (
    {"result": [0, 3, 6, 9, 12, 15]},
    {"result": [0, 18, 72, 27, 72, 180], "edge_of_each_row": [1, 4]},
)
"""What the two cases give."""
