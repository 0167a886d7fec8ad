"""Calibration of ops that are judged from their formulas: simulated correct kernels under contracts of all kinds.

Contracts are a covering array: any two values of two fields meet in one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.dtypes import FORMATS
from oracles.formula.centre import Inputs
from oracles.formula.contract import Contract
from oracles.formula.problem import FormulaProblem
from oracles.formula.simulation import ORDERS, Simulated
from oracles.op import Op
from oracles.problem import Problem
from oracles.rounding import STORAGE
from oracles.summation import Any as AnyOrder
from oracles.summation import Lanes, Pairwise, Sequential, Tiles
from oracles.truth import Truth

_DTYPES = ("f32", "f16", "bf16")
RECIPES = ("normal", "uniform", "lognormal", "integers", "constant", "rising", "falling", "powers")
STRUCTURED = {"constant", "rising", "falling", "powers"}
_ROWS = 4
_LENGTHS = (1, 2, 7, 33)
_SHIFTS = (0.0, 0.0, 100.0)
"""What the first input is moved by: means that are large beside the spread are hard for statistics."""


@dataclass(frozen=True)
class Judged:
    """What came of the simulated kernels of one op under one contract."""

    op: str
    contract: Contract
    runs: int
    ratio: float
    """The largest err/budget of what passed."""
    alarms: int
    """The number of judged outputs that did not pass; each is a false alarm, because the kernel is correct."""


def fields(op: Op) -> Mapping[str, Sequence[Any]]:
    """The values that each field of a contract takes."""
    orders = (Sequential(), Lanes(8, 2, "scalar"), Lanes(4, 4, "predicated"), Tiles(8), Pairwise(4), AnyOrder())
    ways = [({}, *({local: name} for name in each)) for local, each in op.algorithms.items()] or [({},)]
    return {
        "compute": (*_DTYPES, "input"),
        "sums": tuple({dim: order for operand in op.operands for dim in operand.axes} for order in orders),
        "accuracy": ({}, {"exp": 4.0, "rsqrt": 2.0, "erf": 4.0, "tanh": 4.0, "divide": 2.0}),
        "mean": ("divide", "reciprocal"),
        "fused": (True, False),
        "denormals": ("preserve", "flush", "flush operands", "flush results"),
        "nonfinite": ("ieee", "unspecified"),
        "saturate": (False, True),
        "zeros": ("ieee", "any"),
        "algorithm": tuple({**one} for each in ways for one in each),
    }


def contracts(op: Op) -> list[Contract]:
    """Contracts in which any two values of two fields meet."""
    known = fields(op)
    names = [name for name in known if len(known[name]) > 1]
    missing = {
        ((a, i), (b, j))
        for a, b in combinations(names, 2)
        for i, j in product(range(len(known[a])), range(len(known[b])))
    }
    found = list[Contract]()
    while missing:
        row = dict(min(missing))
        for name in names:
            if name not in row:
                at = range(len(known[name]))
                row[name] = max(at, key=lambda value, name=name: (_new(row, name, value, names, missing), -value))  # type: ignore[misc]
        missing -= {((a, row[a]), (b, row[b])) for a, b in combinations(names, 2)}
        found.append(Contract(**{name: known[name][at] for name, at in row.items()}))
    return found


Pair = tuple[tuple[str, int], tuple[str, int]]


def _new(row: Mapping[str, int], name: str, value: int, names: Sequence[str], missing: set[Pair]) -> int:
    pairs = (sorted(((name, value), other), key=lambda each: names.index(each[0])) for other in row.items())
    return sum((first, second) in missing for first, second in pairs)


def calibrate(op: Op, runs: int, seed: int) -> Iterator[Judged]:
    """About so many runs of simulated kernels, spread over all contracts; a run is judged in all its outputs."""
    rng, covering = np.random.default_rng(seed), contracts(op)
    for contract in covering:
        count, ratio, alarms = 0, 0.0, 0
        while count < max(1, runs // len(covering)):
            of = problem(op, rng)
            for order in ORDERS[: 1 + 4 * (contract.sums != {})]:
                got = returned(of, contract, rng, order, bool(rng.integers(2)))
                checks = Truth(of).check(contract, got)
                alarms += sum(check.result != "pass" for check in checks)
                ratio = max([ratio, *(check.worst_ratio for check in checks if check.result == "pass")])
                count += 1
        yield Judged(op.name, contract, count, ratio, alarms)


def problem(op: Op, rng: np.random.Generator) -> Problem:
    """A small problem of an op: values of any recipe, with or without what may be absent."""
    dtype, n = str(rng.choice(_DTYPES)), int(rng.choice(_LENGTHS))
    recipe = str(rng.choice([each for each in RECIPES if dtype != "f16" or each not in ("powers", "lognormal")]))
    scale = 2.0 ** float(rng.choice([0, 0, 0, 8, -8, FORMATS[dtype].emin, FORMATS[dtype].emin // 2]))
    inputs = dict[str, NDArray[Any]]()
    for operand in op.inputs:
        if operand.optional and rng.integers(3) == 0:
            continue
        role = op.role(operand.name)
        rows, columns = (1 if role == "columns" else _ROWS), (1 if role == "rows" else n)
        drawn = values(recipe if operand.name == op.main else "normal", rows, columns, dtype, rng).astype(np.float64)
        if operand.name == op.main:
            drawn = (drawn + float(rng.choice(_SHIFTS))) * scale
        with np.errstate(over="ignore"):
            inputs[operand.name] = drawn.reshape(op.shape(operand.name, (_ROWS, n), 1)).astype(STORAGE[dtype])
    outputs = {
        each.name: dtype if op.role(each.name) == "grid" else "f32"
        for each in op.outputs
        if not each.only_with or each.only_with in inputs
    }
    params = {each.name: float(rng.choice(each.values)) for each in op.parameters}
    return Problem(op.name, params, inputs, outputs, structured=recipe in STRUCTURED or bool(rng.integers(2)))


def values(recipe: str, rows: int, n: int, dtype: str, rng: np.random.Generator) -> NDArray[Any]:
    """(rows, n) of one recipe, in storage dtype."""
    x: NDArray[Any]
    if recipe == "uniform":
        x = rng.uniform(0, 1, (rows, n))
    elif recipe == "lognormal":
        x = rng.lognormal(size=(rows, n))
    elif recipe == "integers":
        x = rng.integers(-10, 11, (rows, n)).astype(np.float64)
    elif recipe == "constant":
        x = np.repeat(rng.uniform(0.5, 2, (rows, 1)), n, axis=1)
    elif recipe in ("rising", "falling"):
        x = np.sort(rng.uniform(0, 1, (rows, n)), axis=1)[:, :: 1 if recipe == "rising" else -1]
    elif recipe == "powers":
        x = 2.0 ** rng.integers(-8, 2, (rows, n))
    else:
        x = rng.standard_normal((rows, n))
    return x.astype(STORAGE[dtype])


def returned(
    of: Problem, contract: Contract, rng: np.random.Generator, order: Any, fused: bool
) -> Mapping[str, NDArray[Any]]:
    """What a simulated kernel returns, by one of the algorithms that its contract allows; rows are the last axis."""
    known, found = FormulaProblem(of), dict[str, NDArray[Any]]()
    settled = known.settled(contract)
    ways = known.read(settled)
    inputs = Inputs(ways[int(rng.integers(len(ways)))].trace, known.tensors, known.parameters)
    simulated = Simulated(inputs, settled, rng, order, fused)
    for name, dtype in of.outputs.items():
        got, shape = simulated.output(name, dtype), known.shape(name)
        got = np.broadcast_to(got, (known.rows, known.length)) if known.has_axis(name) else got
        with np.errstate(over="ignore"):
            found[name] = np.ascontiguousarray(got.reshape(shape)).astype(STORAGE[dtype])
    return found
