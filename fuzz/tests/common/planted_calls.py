"""What a kernel of the planted bugs sees of a case, without running it."""

from __future__ import annotations

import numpy as np

from fuzz.core.base.case import Case, Tensor
from fuzz.core.base.dtypes import NUMPY_DTYPE
from fuzz.quality.planted.bug import Bug, CallTensor, PlantedCall
from oracles.dtypes import ITEMSIZE
from oracles.operand import AXIS
from oracles.ops import OPS


def call_of(case: Case) -> PlantedCall:
    """Return the call in which a kernel is given this case."""
    seen = dict[str, CallTensor]()
    for name, each in case.tensors.items():
        layout, dtype = each.layout, NUMPY_DTYPE[each.dtype]
        bits = np.frombuffer(each.bits, dtype) if isinstance(each, Tensor) else np.zeros(layout.size, dtype)
        address = layout.alignment(ITEMSIZE[each.dtype])
        with np.errstate(all="ignore"):
            values = bits.reshape(layout.shape).astype(np.float64)
        seen[name] = CallTensor(each.dtype, layout.shape, layout.strides, address, values)
    rank = len(case.inputs[OPS[case.op].main].layout.shape)
    numbers = {name: value for name, value in case.params.items() if name in OPS[case.op].params and name != AXIS}
    in_place = any(each.alias is not None and each.layout.size for each in case.outputs.values())
    axis = int(case.params.get(AXIS, -1)) % max(rank, 1)
    return PlantedCall(case.op, seen, {**OPS[case.op].neutral, **numbers}, axis, in_place)


def fails(bug: Bug, case: Case) -> bool:
    """Return the truth that an explanation has to tell."""
    return bool(bug.struck(call_of(case)).any())
