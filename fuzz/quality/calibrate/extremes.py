"""Problems at the ends of dtypes: one to three elements along each dimension, of zeros of both signs, the smallest
subnormal and normal numbers and their neighbours, ones, and the largest numbers. A search meets few of them together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.core.base.case import Case, Output, Tensor, contiguous
from oracles.dtypes import DTYPES, form
from oracles.formula.contract import Contract
from oracles.formula.made import grown
from oracles.op import Op
from oracles.operand import AXIS, OUTER, Operand
from oracles.ops import OPS
from oracles.problem import Problem
from oracles.rounding import STORAGE, name_of, round_to
from oracles.simulated.simulation import simulate
from oracles.truth import Truth

_LENGTHS = (1, 1, 2, 3)
_OUTER = 24
"""The number of rows, where an op may have any: each is drawn by itself."""
_ONE_KIND = 0.4
"""The share of rows that have one kind of number only, with random signs."""


def ends_of(dtype: str) -> NDArray[np.float64]:
    """Return the magnitudes at the ends of a dtype, and ones between whose products and squares are at the ends."""
    of = form(dtype)
    eta, root = of.tiny * 2 * of.u, 2.0 ** (of.emin // 2)
    near = [of.tiny - eta, of.tiny, of.tiny + eta, root, root * 0.75, 1.0, 1.0 + 2 * of.u, of.max / 2, of.max]
    return round_to(np.array([0.0, 0.0, eta, 3 * eta, *near]), of)


def problem(op: Op, dtype: str, without: frozenset[str], random: np.random.Generator) -> Problem:
    """Return a problem of an op in one dtype, with such numbers."""
    sizes = {dim: op.fixed.get(dim, int(random.choice(_LENGTHS))) for dim in op.named}
    sizes = grown(op.made, sizes, op.fixed, op.least)
    grid = [_OUTER if dim == OUTER else sizes[dim] for dim in op.inputs[0].axes]
    inputs = dict[str, NDArray[Any]]()
    for each in op.inputs:
        if each.name not in without and each.only_with in ("", *inputs):
            shape = op.shape(each.name, tuple(grid), len(grid) - 1, {dim: sizes[dim] for dim in op.further})
            if each.integers:
                inputs[each.name] = _integers(each, sizes, shape, random)
            else:
                inputs[each.name] = _drawn(_dtype(op, each.name, dtype), shape, random)
    outputs = [each for each in op.outputs if each.name not in without and each.only_with in ("", *inputs)]
    params = {
        each.name: float(random.choice(each.values))
        for each in op.parameters
        if each.name not in without and each.only_with in ("", *inputs)
    }
    dtypes = {each.name: _dtype(op, each.name, dtype) for each in outputs or op.outputs}
    return Problem(op.name, params, inputs, dtypes, structured=True)


def problems(op: Op, dtypes: Sequence[str], count: int, seed: int) -> Iterator[Problem]:
    """Yield `count` problems of each dtype of the first input."""
    random, optional = np.random.default_rng(seed), [*op.optional, *op.neutral]
    for dtype in [*dtypes] * count:
        yield problem(op, dtype, frozenset(name for name in optional if random.random() < 0.5), random)


def case_of(of: Problem) -> Case:
    """Return the problem as a case, whose tensors lie one element after the other."""
    op, grid = OPS[of.op], of.main.shape
    extents = op.extents({name: array.shape for name, array in of.inputs.items()})
    inputs = {
        name: Tensor(name_of(array.dtype), contiguous(array.shape), array.tobytes())
        for name, array in of.inputs.items()
    }
    outputs = {
        name: Output(dtype, contiguous(op.shape(name, grid, len(grid) - 1, extents)))
        for name, dtype in of.outputs.items()
    }
    return Case(of.op, {AXIS: len(grid) - 1, **of.params}, inputs, outputs, structured=True)


def accused(of: Problem, contract: Contract, seed: int) -> Iterator[str]:
    """Yield alarms about a simulated kernel of that contract, in words. What cannot be judged is no alarm."""
    got = simulate(of, contract, np.random.default_rng(seed))
    for check in Truth(of).check(contract, got):
        if check.result not in ("pass", "gave_up"):
            index = check.worst_index or ()
            value, ratio = float(got[check.output][index]), check.worst_ratio
            given = {name: array.astype(float).tolist() for name, array in of.inputs.items()}
            what = f"{check.output}{list(index)} = {value!r}, err/budget {ratio:.17g}"
            yield f"{check.result}: {what}, {contract}, {given}"


def _dtype(op: Op, name: str, main: str) -> str:
    usual = op.operand(name).dtype
    return usual if usual in DTYPES else main


def _drawn(dtype: str, shape: tuple[int, ...], random: np.random.Generator) -> NDArray[Any]:
    ends = ends_of(dtype)
    kinds = random.integers(len(ends), size=shape)
    if shape:
        alike = random.random((*shape[:-1], 1)) < _ONE_KIND
        kinds = np.where(alike, kinds[..., :1], kinds) if shape[-1] else kinds
    values: NDArray[Any] = np.copysign(ends[kinds], random.choice([-1.0, 1.0], size=shape)).astype(STORAGE[dtype])
    return values


def _integers(
    operand: Operand, sizes: Mapping[str, int], shape: tuple[int, ...], random: np.random.Generator
) -> NDArray[Any]:
    if operand.dtype == "bool":
        return np.asarray(random.random(shape) < 0.5)
    found = random.integers(*operand.span(sizes), shape, endpoint=True).astype(operand.dtype)
    return found if operand.missing is None else np.where(random.random(shape) < 0.25, operand.missing, found)
