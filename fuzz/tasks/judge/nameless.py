"""An op in form alone: a reference of which no formula is read has names and dtypes for workers, and no meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fuzz.core.base.case import Case, Origin, Output, Tensor, contiguous
from fuzz.core.base.dtypes import NUMPY_DTYPE, from_bits, quantise
from fuzz.tasks.check.replay_cases import Meant, ReplayCase
from fuzz.tasks.judge.source import ProblemError
from oracles.dtypes import FORMATS, INDICES, SPELLED
from oracles.elementary import FormulaError
from oracles.formula.made import Counts
from oracles.lazy import lazy
from oracles.op import Op
from oracles.operand import CODES, FLAGS, Operand

Shapes = Mapping[str, tuple[tuple[int, ...], str]]
"""The shape and the dtype of each output, as torch calls that."""


class _Nameless(Op):
    """An op whose cases say all extents: none of them follows from others."""

    @lazy
    def made(self) -> Counts:
        return {}


def op_of(meant: Meant, outputs: Shapes, name: str) -> Op:
    """Return the op. Each axis of its inputs is a dimension of its own: shapes are said by cases. Raises
    ProblemError."""

    def unknown(**given: Any) -> Mapping[str, Any]:
        raise FormulaError(f"{name} has no formula: it is replayed")

    unknown.__name__ = name
    dims = {each: " ".join(f"d{at}_{axis}" for axis in range(len(some)))
            for at, (each, some) in enumerate(meant.asked.dims.items())}  # fmt: skip
    floats = sorted((each for each in dims if "float" in meant.dtypes[each]), key=lambda each: -len(dims[each]))
    if not floats or not dims[floats[0]]:
        raise ProblemError(f"{name}: it takes no tensor of floats that has dimensions")
    inputs = [Operand(each, dims[each]) for each in floats]
    row = dims[floats[0]].split()[-1]
    for each in (each for each in dims if each not in floats):
        dtype = meant.dtypes[each]
        values = FLAGS if dtype == "bool" else CODES
        are_places = dtype in INDICES and (meant.own is not None or meant.spans[each].high is None)
        inputs.append(
            Operand(each, dims[each], dtype=dtype, index=row) if are_places
            else Operand(each, dims[each], dtype=dtype, values=values)
        )  # fmt: skip
    returned = [Operand(each, row, dtype=_dtype(each, dtype)) for each, (_, dtype) in outputs.items()]
    return _Nameless(unknown, tuple(inputs), tuple(returned))


def case_of(case: ReplayCase, outputs: Shapes, op: Op, seed: int, number: int) -> Case:
    """Return a case as workers are given it: all tensors are contiguous."""
    inputs = dict[str, Tensor]()
    for each in op.inputs:
        array = case.arrays[each.name]
        dtype = case.dtype if array.dtype.kind == "f" else each.dtype
        values = quantise(array, dtype) if dtype in FORMATS else array.astype(NUMPY_DTYPE[dtype])
        inputs[each.name] = Tensor(dtype, contiguous(array.shape), values.tobytes())
    made = {name: Output(_dtype(name, dtype), contiguous(shape)) for name, (shape, dtype) in outputs.items()}
    return Case(op.name, {}, inputs, made, origin=Origin("replay", "contiguous", seed, number, shard=0))


def arrays_of(case: Case) -> Mapping[str, np.ndarray[Any, Any]]:
    """Return what a case holds, floats as float64."""
    found = {name: from_bits(each.bits, each.dtype, each.layout.shape) for name, each in case.inputs.items()}
    return {name: each.astype(np.float64) if case.inputs[name].dtype in FORMATS else each.copy()
            for name, each in found.items()}  # fmt: skip


def returned(case: Case, bits: Mapping[str, bytes]) -> Sequence[np.ndarray[Any, Any]]:
    """Return outputs as float64."""
    return [from_bits(bits[name], each.dtype, each.layout.shape).astype(np.float64)
            for name, each in case.outputs.items()]  # fmt: skip


def _dtype(name: str, torch: str) -> str:
    if torch not in SPELLED:
        raise ProblemError(f"its output {name} is of {torch}, which is not compared")
    return SPELLED[torch].name
