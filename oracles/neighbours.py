"""Neighbours of a contract differ from it in one field. If a declared contract is wrong, one of its neighbours may be
right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from itertools import combinations
from typing import Any

from oracles.algorithm import FORMULA
from oracles.dtypes import CUTS, DOUBLE, NARROW, SINGLE
from oracles.elementary import CORRECT
from oracles.formula.contract import DIVIDE, INPUT, MAYBE, WIDE, Contract, stated, within
from oracles.formula.expansion import arrangements
from oracles.formula.trace import Trace
from oracles.op import Op
from oracles.summation import Lanes, Pairwise, Sequential, Summation, Tiles
from oracles.tiers.prepared import prepared

ORDERS: Sequence[Summation] = (
    Sequential(), Lanes(4, 1, "scalar"), Lanes(8, 1, "scalar"), Lanes(4, 4, "scalar"), Lanes(8, 4, "scalar"),
    Lanes(16, 4, "scalar"), Pairwise(128), Tiles(64), Pairwise(),
)  # fmt: skip
"""Usual orders of sums. In long rows each has shorter chains of additions than the order before it. `AnyOrder` is not
among them, since it allows the same errors as the first."""
BOUNDS = (CORRECT, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Bounds of functions, in ulp. With larger bounds, any kernel with a small error would conform to the neighbour."""
DTYPES = (DOUBLE.name, SINGLE.name, WIDE, INPUT, *NARROW)
_REDUCED = ("sum", "dot", "welford_mean", "welford_squares", "online", "online_dot")


@dataclass(frozen=True)
class Neighbour:
    """A contract, with the fields in which it differs from another one."""

    contract: Contract
    changed: tuple[str, ...]

    def of(self, contract: Contract) -> str:
        """Return the changed fields with their values in another contract, as text in the form of a declaration."""
        return ", ".join(f"{name}={_written(getattr(contract, name))}" for name in self.changed)

    @property
    def text(self) -> str:
        """The changed fields with their values in the neighbour, as text."""
        return self.of(self.contract)


def _written(value: Any) -> str:
    return repr(dict(value)) if isinstance(value, Mapping) else repr(value)


def declaration(contract: Contract) -> str:
    """Return the contract as it is declared: the fields that are not defaults."""
    plain = Contract()
    said = (each.name for each in fields(contract) if getattr(contract, each.name) != getattr(plain, each.name))
    return f"Contract({', '.join(f'{name}={_written(getattr(contract, name))}' for name in said)})"


def neighbours(op: Op, contract: Contract) -> list[Neighbour]:
    """Return all contracts that differ in one field. A field with an entry for each name is changed in one entry at a
    time; `points` also in all entries."""
    known = _values(op)
    found = dict[Contract, Neighbour]()
    named = dict.fromkeys((*contract.sums, *(dim for each in known["sums"] for dim in each)))  # some by local
    own = [{name: order} for name in named for order in ORDERS]
    for name, options in {**known, "sums": own}.items():
        now = getattr(contract, name)
        for option in options:
            value: Any = option
            if isinstance(option, Mapping):
                value = {each: what for each, what in {**now, **option}.items() if what is not None}
            other = replace(contract, **{name: value})
            if other != contract and not _is_meant(contract, name, option):
                found.setdefault(other, Neighbour(other, (name,)))
    return list(found.values())


def _is_meant(contract: Contract, name: str, option: Any) -> bool:
    """Whether the option is the default for a contract that does not state it, so that it changes nothing."""
    if name == "sums":
        return all(contract.order(dim, dim) == order for dim, order in option.items())
    if name == "points":
        return all(dtype == contract.compute and point not in contract.points for point, dtype in option.items())
    if name == "algorithm":
        return all(way == FORMULA and local not in contract.algorithm for local, way in option.items())
    return name == "accuracy" and all(contract.bound(kind) == within(ulp) for kind, ulp in option.items())


def pairs(among: Sequence[Neighbour]) -> Iterator[Neighbour]:
    """Yield contracts that differ in two fields: each changed field has its value from one of these neighbours."""
    for one, two in combinations(among, 2):
        (first,), (second,) = one.changed, two.changed
        if first != second:
            both = replace(one.contract, **{second: getattr(two.contract, second)})
            yield Neighbour(both, (first, second))


@lru_cache(maxsize=64)
def _values(op: Op) -> Mapping[str, Sequence[Any]]:
    """Return the values to try for each field. An option of a field with entries by name changes some; None removes
    it."""
    graphs = _graphs(op)
    nodes = [node for graph in graphs for node in graph.nodes]
    made_by = {node.operation for node in nodes}
    made_by |= {DIVIDE for node in nodes if node.kind == "function" and node.function.reciprocal_of}
    dims = dict.fromkeys(node.label for node in nodes if node.kind in _REDUCED)
    points = dict.fromkeys(graphs[0].names[node.args[0]] for node in graphs[0].nodes if node.kind == "point")
    factors = [name for name in points if graphs[0].named(name).kind == "tensor"]
    used = frozenset(graphs[0].nodes)  # a local of another algorithm alone is no step of the formula
    made = [name for name, node in graphs[0].locals.items() if node.args and node in used]
    return {
        "points": [
            dict.fromkeys(names, dtype)
            for names in [(name,) for name in points] + [tuple(points)]
            for dtype in (None, INPUT, *NARROW, SINGLE.name, MAYBE + INPUT)
            if names
        ]
        + [dict.fromkeys(factors, dtype) for dtype in CUTS if factors],
        "algorithm": [
            {local: way}
            for local, ways in op.algorithms.items()
            for way in (FORMULA if local in op.open_ways else None, *ways)
        ],
        "denormals": ("preserve", "flush operands", "flush results", "flush"),
        "zeros": ("ieee", "any"),
        "mean": ("divide", "reciprocal"),
        "addend": addends(graphs),
        "fused": (True, False),
        "expanded": max(map(arrangements, graphs), key=len),
        "ties": ("formula", "either") if any(node.kind == "place" and node.value for node in nodes) else (),
        "saturate": (False, True),
        "sums": [{dim: order} for dim in dims for order in ORDERS],
        "accuracy": [{name: ulp} for name in stated() if name in made_by for ulp in BOUNDS],
        "dtypes": [{name: dtype} for name in made for dtype in (None, DOUBLE.name, SINGLE.name, INPUT)],
        "compute": DTYPES,
        "nonfinite": ("ieee", "overflow"),
    }


def addends(graphs: Sequence[Trace]) -> Sequence[str]:
    """Return the values of `Contract.addend` that differ in meaning for these formulas."""
    if any(graph.chains for graph in graphs):
        return "last", "either", "any"
    return ("last", "either") if any(graph.started for graph in graphs) else ("last",)


def _graphs(op: Op) -> list[Trace]:
    """Return the graph of the op's own formula with all operands, then its graph with each algorithm."""
    present = frozenset((*(each.name for each in op.operands), *(each.name for each in op.parameters)))
    ways = [((local, way),) for local, each in op.algorithms.items() for way in each]
    return [prepared(op, present, frozenset(), algorithm).trace for algorithm in ((), *ways)]
