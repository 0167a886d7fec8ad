"""Plain cases for tests: one place, whatever a draw looks like."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice

import pytest
from hypothesis import strategies as st

from fuzz.core.base.case import Case
from fuzz.core.base.draw import Draw, Part
from fuzz.core.base.kernel import Kernel
from fuzz.core.generate.capabilities import anything
from fuzz.core.generate.drawing import draw_from
from fuzz.core.generate.realise import realise
from fuzz.core.generate.search import Search, batches
from fuzz.core.generate.sketch import sketches
from oracles.ops import OPS
from oracles.tests.common.whole import WHOLE

EACH_OP = (
    tuple(OPS) if WHOLE else ("rms_norm", "fused_add_rms_norm", "fused_add_rms_norm_backward", "layer_norm", "softmax")
)
"""The ops of tests about any op: in the gate one of each structure, at night all of them.

Optional tensors and none, one grid to fill and two, outputs of rows and of columns, parameters and none."""
each_op = pytest.mark.parametrize("op", EACH_OP)


def plain(
    n: int, rows: int = 2, dtype: str = "f32", recipe: str = "normal", eps: float = 0.0, op: str = "rms_norm"
) -> Case:
    """A contiguous case of all required tensors; always the same values."""
    spec = OPS[op]
    parts = [Part("x", dtype, recipe=recipe)]
    parts += [Part(each.name, dtype, recipe="normal") for each in spec.inputs[1:] if not each.optional]
    parts += [Part(each.name, dtype) for each in spec.outputs if not each.optional]
    return realise(Draw(op, n, (rows,), {"eps": eps, "axis": 1}, 3, tuple(parts)))


def any_case(op: str = "rms_norm") -> st.SearchStrategy[Case]:
    """Every case that the op allows."""
    return sketches([anything(op)]).map(draw_from).map(realise)


def searched(op: str, seed: int, kernels: Iterable[Kernel] = (), *, sequences: bool = True) -> Iterator[Case]:
    """The cases of a search, without an end."""
    return (made.case for made in chain.from_iterable(batches(Search(op, seed, kernels, sequences=sequences))))


def first_cases(op: str, seed: int, kernels: Iterable[Kernel] = (), *, count: int) -> list[Case]:
    """Return the first `count` cases of a search."""
    return list(islice(searched(op, seed, kernels), count))
