"""Ops with rounding points, contracts that have some, and problems of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.formula.contract import Contract
from oracles.formula.trace import Node, Outputs
from oracles.op import Op
from oracles.ops import rms_norm
from oracles.problem import Problem
from oracles.rounding import STORAGE


def scaled(x: Node, weight: Node | None = None, *, eps: Node, weight_offset: Node | float = 0.0) -> Outputs:
    """The formula of rms_norm."""
    return rms_norm.rms_norm(x, weight, eps=eps, weight_offset=weight_offset)


def added_and_scaled(
    x: Node, residual: Node, weight: Node | None = None, *, eps: Node, weight_offset: Node | float = 0.0
) -> Outputs:
    """Return the outputs of fused_add_rms_norm."""
    return rms_norm.fused_add_rms_norm(x, residual, weight, eps=eps, weight_offset=weight_offset)


SCALED = replace(rms_norm.RMS_NORM, formula=scaled)
ADDED = replace(rms_norm.FUSED_ADD_RMS_NORM, formula=added_and_scaled)
IN_X = {"h": "input", "w": "input", "y": "input"}
LLAMA = Contract("f32", points={"h": "input"})
CONTRACTS: Mapping[str, Contract] = {
    "f32 after the point": LLAMA,
    "all in the dtype of x": Contract("f32", points={"h": "input"}, dtypes=IN_X),
    "the weight in the dtype of x": Contract("f32", points={"h": "input"}, dtypes={"w": "input", "y": "input"}),
    "everything": Contract("input", points={"h": "input"}),
}


def problem(
    dtype: str, shape: tuple[int, int], rng: np.random.Generator, *, op: Op = SCALED, eps: float = 1e-5,
    scale: float = 1.0, offset: float = 0.0, weight: str = "", out: str = "", without: Sequence[str] = (),
) -> Problem:  # fmt: skip
    inputs: dict[str, NDArray[Any]] = {}
    for each in op.inputs:
        if each.name not in without:
            values = rng.normal(size=op.shape(each.name, shape, 1)) * (1.0 if each.name == "weight" else scale)
            kept = weight if each.name == "weight" and weight else dtype
            inputs[each.name] = values.astype(STORAGE[kept])
    outputs = {each.name: out or dtype for each in op.outputs if each.name != "rstd"}
    parameters = {"eps": eps, **({"weight_offset": offset} if "weight" not in without else {})}
    return Problem(op.name, parameters, inputs, outputs, structured=True)
