"""Whether a case from a file fits its op."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

import numpy as np

from fuzz.core.base.case import THREADS, Case, CaseError
from fuzz.core.base.dtypes import NUMPY_DTYPE
from fuzz.core.base.fill import FILL, is_fill
from fuzz.core.base.memory import contradicts_itself, overlaps_itself
from fuzz.core.base.probe import MOST, PROBE, WAS
from oracles.dtypes import FLOATS, ITEMSIZE
from oracles.op import Op
from oracles.operand import AXIS, Operand
from oracles.ops import OPS

_MOST_THREADS = 64


class UnknownOpError(CaseError):
    """A case for an op that no loaded pack has."""


def unknown_op(op: str) -> str:
    """Return the message about an unknown op, given its quoted name."""
    near = get_close_matches(op.strip("'\""), OPS)
    hint = f": did you mean {' or '.join(near)}?" if near else ";"
    return f"unknown op {op}{hint} kernelfuzz list ops names all {len(OPS)}; an op of a pack needs --pack FOLDER"


def check_case(case: Case) -> None:
    """Raise CaseError, which names the field, if a case does not fit its op."""
    if case.op not in OPS:
        raise UnknownOpError(f"op: {unknown_op(repr(case.op))}")
    op = OPS[case.op]
    _check_names(op, "inputs", case.inputs, op.inputs)
    _check_names(op, "outputs", case.outputs, op.outputs)
    grid = case.inputs[op.main].layout.shape
    _check_params(op, case.params, len(grid))
    if not op.any_axis and case.params[AXIS] != len(grid) - 1:
        dims = op.inputs[0].dims
        raise CaseError(f"params.{AXIS}: {case.params[AXIS]!r}, must be the last of {op.main}, which is {dims!r}")
    extents = op.extents({name: tensor.layout.shape for name, tensor in case.tensors.items()})
    for name, tensor in case.tensors.items():
        kind = "inputs" if name in case.inputs else "outputs"
        wanted = op.possible_shapes(name, grid, int(case.params[AXIS]), extents)
        known = op.operand(name).integers or (*FLOATS, op.operand(name).dtype)
        if tensor.dtype not in known:
            raise CaseError(f"{kind}.{name}.dtype: {tensor.dtype}, must be {' or '.join(filter(None, known))}")
        if tensor.layout.shape not in wanted:
            choice = " or ".join(str(shape) for shape in dict.fromkeys(wanted))
            raise CaseError(f"{kind}.{name}: shape {tensor.layout.shape}, must be {choice or op.operand(name).dims}")
    for name, given in case.inputs.items():
        _check_integers(op, name, case)
        if contradicts_itself(given.layout, given.bits, ITEMSIZE[given.dtype]):
            raise CaseError(f"inputs.{name}.bits: two elements at one place differ")
    for name, output in case.outputs.items():
        if overlaps_itself(output.layout):
            raise CaseError(f"outputs.{name}.strides: two elements of an output are at one place")
    _check_aliases(op, case)


def _check_integers(op: Op, name: str, case: Case) -> None:
    """Raise CaseError for flags and codes outside the op's range. Numbers that are no places are invalid input instead,
    which kernels may promise to reject."""
    if name not in op.integers or op.operand(name).index:
        return
    given = case.inputs[name]
    values = np.frombuffer(given.bits, NUMPY_DTYPE[given.dtype])
    lowest, highest = op.operand(name).span({})
    wrong = values[(values < lowest) | (values > highest)]
    if wrong.size:
        raise CaseError(f"inputs.{name}.bits: {wrong[0]} is none of flags, which are 0 or 1")


def _check_names(op: Op, kind: str, found: Mapping[str, object], operands: Sequence[Operand]) -> None:
    known = [operand.name for operand in operands]
    wanted = [operand.name for operand in operands if not operand.optional]
    if not {*wanted} <= {*found} <= {*known}:
        optional = [name for name in known if name not in wanted]
        may = f" and may have {', '.join(optional)}" if optional else ""
        raise CaseError(f"{kind}: {op.name} has {', '.join(wanted)}{may}, not {', '.join(found) or 'none'}")


def _check_params(op: Op, params: Mapping[str, float | int], rank: int) -> None:
    unknown = sorted({*params} - {*op.params, THREADS, PROBE, WAS, FILL})
    if unknown:
        raise CaseError(f"params.{unknown[0]}: {op.name} has {', '.join(op.params)}")
    axis = params.get(AXIS)
    if not isinstance(axis, int) or not 0 <= axis < rank:
        raise CaseError(f"params.{AXIS}: {axis!r} is not an axis of a tensor of rank {rank}")
    for parameter in op.parameters:
        value = params.get(parameter.name, parameter.neutral)
        if not isinstance(value, float) or not (value >= parameter.least and _is_float32(value)):
            least = "" if parameter.least == -math.inf else f" of {parameter.least:g} or more"
            raise CaseError(f"params.{parameter.name}: {value!r} is not a finite float32 number{least}")
    threads = params.get(THREADS, 1)
    if not isinstance(threads, int) or not 1 <= threads <= _MOST_THREADS:
        raise CaseError(f"params.{THREADS}: {threads!r} is not an integer from 1 to {_MOST_THREADS}")
    probe = params.get(PROBE, 0)
    if not isinstance(probe, int) or not 0 <= probe < MOST or (WAS in params and PROBE not in params):
        raise CaseError(f"params.{PROBE}: {probe!r} is no probe")
    if not is_fill(params.get(FILL, 0)):
        raise CaseError(f"params.{FILL}: {params[FILL]!r} is no fill")


def _is_float32(value: float) -> bool:
    with np.errstate(over="ignore"):
        return math.isfinite(value) and float(np.float32(value)) == value


def _check_aliases(op: Op, case: Case) -> None:
    seen: set[str] = set()
    for name, output in case.outputs.items():
        if output.alias is None:
            continue
        if (name, output.alias) not in op.aliases:
            raise CaseError(f"outputs.{name}.alias: {op.name} never writes {name} in the memory of {output.alias}")
        if output.alias in seen:
            raise CaseError(f"outputs.{name}.alias: another output is in the memory of {output.alias} already")
        seen.add(output.alias)
