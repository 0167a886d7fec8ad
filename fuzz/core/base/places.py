"""Values of integer inputs that should be places along a dimension but are outside of it."""

from __future__ import annotations

import numpy as np

from fuzz.core.base.case import Case
from fuzz.core.base.draw import Frame
from fuzz.core.base.dtypes import NUMPY_DTYPE
from oracles.ops import OPS


def stray_places(case: Case) -> dict[str, str]:
    """Return a sentence about the first wrong value, for each input that has any."""
    op, found = OPS[case.op], dict[str, str]()
    for name in op.integers:
        operand = op.operand(name)
        dim, missing, kind = (
            operand.index,
            operand.missing,
            "places" if not operand.is_bound else operand.values.split()[0],
        )
        if not dim or name not in case.inputs:
            continue
        values = np.frombuffer(case.inputs[name].bits, NUMPY_DTYPE[case.inputs[name].dtype])
        _, highest = operand.span(Frame(case).whole)
        wrong = values[((values < 0) | (values > highest)) & (values != missing)]
        if wrong.size:
            may = f"{kind} along {dim}, which are 0 to {highest}" if highest >= 0 else f"no places: {dim} is empty"
            found[name] = f"{wrong[0]} is none of {may}{'' if missing is None else f', or {missing}'}"
    return found
