"""A covering array of contracts: any two values of two fields meet in one of them; and problems at the ends of dtypes.

Correct kernels under these contracts, simulated by `oracles.simulated`, calibrate the budgets: none of them may be
accused. Each is written as a pack. The problems have one to three elements along each dimension, of zeros of both
signs, the smallest subnormal and normal numbers and their neighbours, ones, and the largest numbers. A search meets few
of them together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.core.base.capability import Capabilities
from fuzz.core.base.case import Case, Output, Tensor, contiguous
from oracles.dtypes import COMPUTED, DOUBLE, DTYPES, FLOATS, NARROW, form
from oracles.elementary.functions import records
from oracles.formula.contract import DIVIDE, INPUT, MAYBE, Contract
from oracles.formula.expansion import arrangements
from oracles.formula.made import grown
from oracles.formula.trace import REDUCTIONS, Trace
from oracles.neighbours import addends
from oracles.op import Op
from oracles.operand import AXIS, OUTER, Operand
from oracles.ops import OPS
from oracles.problem import Problem
from oracles.rounding import STORAGE, name_of, round_to
from oracles.simulated.simulation import simulate
from oracles.summation import AnyOrder, Lanes, Pairwise, Sequential, Tiles
from oracles.tiers.prepared import prepared
from oracles.truth import Truth

_ORDERS = (Sequential(), Lanes(8, 2, "scalar"), Lanes(4, 4, "predicated"), Tiles(8), Pairwise(4), AnyOrder())
_MAYBE = tuple(MAYBE + dtype for dtype in (*NARROW, INPUT))
_LOOSE = {**{name: each.loose for name, each in records().items() if not each.is_exact}, DIVIDE: 2.0}

Value = tuple[str, int]
"""The name of a field, and the index of a value among those that it takes."""
Pair = tuple[Value, Value]


def fields(op: Op) -> Mapping[str, Sequence[Any]]:
    """Return the values that each field of a contract takes, without fields that have a single value for the op."""
    graph = _graph(op)
    locals_ = [name for name, node in graph.locals.items() if node.args]
    points = [graph.names[node.args[0]] for node in graph.nodes if node.kind == "point"]
    several = [node.label for node in graph.nodes if node.kind in REDUCTIONS and len(node.over) > 1]
    over = dict.fromkeys([*(dim for each in op.operands for dim in each.axes), *several])
    ways = [({local: way}, {local: ("formula", way)}) for local, each in op.algorithms.items() for way in each]
    known: dict[str, Sequence[Any]] = {
        "compute": (*COMPUTED, INPUT),
        "sums": tuple(dict.fromkeys(over, order) for order in _ORDERS),
        "accuracy": ({}, _LOOSE),
        "mean": ("divide", "reciprocal"),
        "addend": addends([graph]),
        "fused": (True, False),
        "expanded": arrangements(graph),
        "denormals": ("preserve", "flush", "flush operands", "flush results"),
        "nonfinite": ("ieee", "overflow", "unspecified"),
        "ties": ("formula", "either") if any(node.kind == "place" for node in graph.nodes) else (),
        "saturate": (False, True),
        "zeros": ("ieee", "any"),
        "algorithm": ({}, *(each for pair in ways for each in pair)),
        "dtypes": ({}, *_dtypes(op, locals_)),
        "points": ({}, *(dict.fromkeys(points, dtype) for dtype in (*NARROW, INPUT, *_MAYBE) if points)),
    }
    return {name: values for name, values in known.items() if len(values) > 1}


def contracts(op: Op) -> list[Contract]:
    """Return contracts in which any two values of two fields meet."""
    known = fields(op)
    return [Contract(**{name: known[name][at] for name, at in row.items()}) for row in covering(known)]


def covering(known: Mapping[str, Sequence[Any]]) -> list[Mapping[str, int]]:
    """Return rows in which any two values of two fields meet, each with the index of a value for each field."""
    names, found = list(known), list[Mapping[str, int]]()
    missing = {
        ((a, i), (b, j))
        for a, b in combinations(known, 2)
        for i, j in product(range(len(known[a])), range(len(known[b])))
    }
    while missing:
        row = dict(min(missing))
        for name in names:
            if name not in row:
                at = range(len(known[name]))
                row[name] = max(at, key=lambda value, name=name: (_new(row, name, value, names, missing), -value))  # type: ignore[misc]
        missing -= pairs_of(row, names)
        found.append(row)
    return found


def pairs_of(row: Mapping[str, int], names: Sequence[str]) -> set[Pair]:
    """Return the pairs that meet in a row."""
    return {((a, row[a]), (b, row[b])) for a, b in combinations(names, 2)}


def _new(row: Mapping[str, int], name: str, value: int, names: Sequence[str], missing: set[Pair]) -> int:
    pairs = (sorted(((name, value), other), key=lambda each: names.index(each[0])) for other in row.items())
    return sum((first, second) in missing for first, second in pairs)


def _dtypes(op: Op, names: Sequence[str]) -> Sequence[Mapping[str, str]]:
    """Return choices of other dtypes for some locals: narrower, wider, and those of inputs."""
    last = [each.name for each in op.inputs if not each.integers][-1]
    found = (dict.fromkeys(names[::2], NARROW[-1]), dict.fromkeys(names[1::2], DOUBLE.name), {names[-1]: last})
    return [each for each in found if each]


def _graph(op: Op) -> Trace:
    present = frozenset((*(each.name for each in op.operands), *(each.name for each in op.parameters)))
    return prepared(op, present, frozenset(), ()).trace


_STORED_ONE_IN = 4
"""One contract in this many is also tried with tensors of formats that only store numbers, whose rounding hides most of
what a budget is about."""
_UPDATED, _SUMMED = 96, 1024
"""The longest rows of kernels that update something term by term, and of others. A term is a step in Python, of some
hundred microseconds in the former and tens in the latter."""
_PACK, _SIMULATED = (Path(__file__).with_name(f"{name}.txt").read_text() for name in ("pack", "simulated"))
_LOAD = """
from fuzz.core.adapters.pack import load

load(Path({pack!r}))"""


@dataclass(frozen=True)
class SimulatedPack:
    """The simulated kernel of one contract of a covering array."""

    op: Op
    contract: Contract
    number: int
    """The index of the contract."""

    def write(self, folder: Path, pack: Path | None) -> None:
        """Write the pack; `pack` is the one that brings the op."""
        folder.mkdir(parents=True, exist_ok=True)
        words = {
            "op": self.op.name,
            "contract": repr(self.contract),
            "load": _LOAD.format(pack=str(pack.resolve())) if pack else "",
            "takes": repr(self.takes),
            "inputs": tuple(each.name for each in self.op.inputs),
            "parameters": self.op.params,
        }
        (folder / "simulated.py").write_text(_SIMULATED.format(**words), encoding="utf-8")
        (folder / "pack.py").write_text(_PACK.format(**words), encoding="utf-8")

    @property
    def takes(self) -> Capabilities:
        """The declared capabilities: all dtypes and optional tensors, but one dtype where the contract names an
        operand's; and rows that the kernel can calculate in some hundredths of a second."""
        op, words = self.op, bool(self.contract.words)
        free = () if words else tuple(dtype for dtype in self._formats if dtype != DOUBLE.name)
        others = [each for each in op.operands if each.name != op.main and not each.integers]
        return Capabilities(
            dtypes=self.main, takes=op.optional, params=tuple(op.neutral),
            mixed=tuple((each.name, tuple(dict.fromkeys((op.main, *free)))) for each in others) if free else (),
            stacked=tuple(each.name for each in op.inputs if each.stackable),
            max=dict.fromkeys(op.named, _UPDATED if self.contract.algorithm else _SUMMED),
        )  # fmt: skip

    @property
    def main(self) -> tuple[str, ...]:
        """The dtypes of the first input."""
        if self.contract.words:
            return (COMPUTED[self.number % len(COMPUTED)],)
        wide = DOUBLE.name in (self.contract.compute, *self.contract.dtypes.values())
        return tuple(dtype for dtype in self._formats if wide or dtype != DOUBLE.name)

    @property
    def _formats(self) -> tuple[str, ...]:
        """The dtypes of the tensors that are tried."""
        return FLOATS if self.number % _STORED_ONE_IN == _STORED_ONE_IN - 1 else COMPUTED


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
    inputs = {name: Tensor(name_of(x.dtype), contiguous(x.shape), x.tobytes()) for name, x in of.inputs.items()}
    shapes = {name: op.shape(name, grid, len(grid) - 1, extents) for name in of.outputs}
    outputs = {name: Output(dtype, contiguous(shapes[name])) for name, dtype in of.outputs.items()}
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
