"""The oracle of a replay. Its op is one in form alone: a reference of which no formula is read has names and dtypes for
workers, and what outputs must be is found by running it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fuzz.core.base.case import Case, Origin, Output, Tensor, contiguous
from fuzz.core.base.dtypes import NUMPY_DTYPE, from_bits, quantise
from fuzz.core.judge.values import Bits, CaseOracle, Query
from fuzz.references.replay.cases import Comparison, Meant, ReplayCase, ReplayError, compared, judged_in
from fuzz.references.rerun import Replayed
from oracles.dtypes import FORMATS, INDICES, SPELLED
from oracles.elementary import FormulaError
from oracles.formula.contract import Contract
from oracles.formula.made import Counts
from oracles.lazy import lazy
from oracles.op import Op
from oracles.operand import CODES, FLAGS, Operand, OpError
from oracles.truth import OutputCheck, Result

Shapes = Mapping[str, tuple[tuple[int, ...], str]]
"""The shape and the dtype of each output, as torch calls that."""


SPARE = "spare"
"""An input of one float that no kernel is given: an op must have one that has dimensions."""


class _Nameless(Op):
    """An op whose cases state every extent, since no formula says how extents follow from each other."""

    @lazy
    def made(self) -> Counts:
        return {}


def op_of(meant: Meant, outputs: Shapes, name: str) -> Op:
    """Return the op. Each axis of its inputs is a dimension of its own: shapes are said by cases. Where no float has
    dimensions, its first input is a `SPARE` one. Raises ReplayError."""

    def unknown(**given: Any) -> Mapping[str, Any]:
        raise FormulaError(f"{name} has no formula: it is replayed")

    unknown.__name__ = name
    dims = {each: " ".join(f"d{at}_{axis}" for axis in range(len(some)))
            for at, (each, some) in enumerate(meant.asked.dims.items())}  # fmt: skip
    floats = sorted((each for each in dims if "float" in meant.dtypes[each]), key=lambda each: -len(dims[each]))
    inputs = [Operand(each, dims[each]) for each in floats]
    if not floats or not dims[floats[0]]:
        inputs.insert(0, Operand(SPARE, SPARE))
    row = inputs[0].axes[-1]
    for each in (each for each in dims if each not in floats):
        dtype = meant.dtypes[each]
        values = FLAGS if dtype == "bool" else CODES
        are_places = dtype in INDICES and (meant.own is not None or meant.spans[each].high is None)
        inputs.append(
            Operand(each, dims[each], dtype=dtype, index=row) if are_places
            else Operand(each, dims[each], dtype=dtype, values=values)
        )  # fmt: skip
    returned = [Operand(each, row, dtype=_dtype(each, dtype)) for each, (_, dtype) in outputs.items()]
    try:
        return _Nameless(unknown, tuple(inputs), tuple(returned))
    except OpError as error:
        raise ReplayError(str(error)) from error


def case_of(case: ReplayCase, outputs: Shapes, op: Op, seed: int, number: int) -> Case:
    """Return a case as workers are given it: all tensors are contiguous."""
    inputs = dict[str, Tensor]()
    for each in op.inputs:
        array = case.arrays.get(each.name, np.zeros(1))
        dtype = case.dtype if array.dtype.kind == "f" else each.dtype
        values = quantise(array, dtype) if dtype in FORMATS else array.astype(NUMPY_DTYPE[dtype])
        inputs[each.name] = Tensor(dtype, contiguous(array.shape), values.tobytes())
    made = {name: Output(_dtype(name, dtype), contiguous(shape)) for name, (shape, dtype) in outputs.items()}
    return Case(op.name, {}, inputs, made, origin=Origin("replay", "contiguous", seed, number, shard=0))


def arrays_of(case: Case) -> Mapping[str, np.ndarray[Any, Any]]:
    """Return what a case holds for its reference, floats as float64."""
    inputs = {name: each for name, each in case.inputs.items() if name != SPARE}
    found = {name: from_bits(each.bits, each.dtype, each.layout.shape) for name, each in inputs.items()}
    return {name: each.astype(np.float64) if case.inputs[name].dtype in FORMATS else each.copy()
            for name, each in found.items()}  # fmt: skip


class ReplayOracle(CaseOracle):
    """Judges outputs of one case by what its reference returns in float64, and where it rounds at random."""

    def __init__(self, case: Case, meant: Meant) -> None:
        super().__init__(case)
        self._meant = meant
        self._compared = dict[Bits, Comparison]()

    @lazy
    def replays(self) -> Sequence[Replayed] | None:
        """What the outputs are; None where the reference raises."""
        return self._meant.replays(arrays_of(self.case))

    @property
    def dtype(self) -> str:
        """The dtype of its floats."""
        return next(iter(self.case.inputs.values())).dtype

    def compared(self, bits: Bits) -> Comparison:
        """Return what outputs come to, in words too."""
        if bits not in self._compared:
            wanted = self.replays
            outputs = zip(self.case.outputs.values(), bits, strict=True)
            arrays = [from_bits(each, of.dtype, of.layout.shape).astype(np.float64) for of, each in outputs]
            names = [*self.case.outputs]
            self._compared[bits] = Comparison("") if wanted is None else compared(wanted, arrays, self.dtype, names)
        return self._compared[bits]

    def check(self, query: Query) -> OutputCheck:
        found = self.compared(query[1])
        result: Result = "numeric" if found.wrong else "pass" if found.judged else "gave_up"
        return OutputCheck(next(iter(self.case.outputs)), result, None, found.ratio)

    def decided(self, contract: Contract) -> Mapping[str, bool]:
        named = zip(self.case.outputs, self.replays or (), strict=False)
        return {name: judged_in(each, self.dtype) > 0 for name, each in named if each.value.size}


def _dtype(name: str, torch: str) -> str:
    if torch not in SPELLED:
        raise ReplayError(f"its output {name} is of {torch}, which is not compared")
    return SPELLED[torch].name
