"""Joined: problems of a batch that their formula reads alike are enclosed together, their rows one after the other.

What small problems cost is calls of NumPy, not elements. Rows are read by themselves (`oracles.formula.problem`), so
that what is said of them is what would be said of each problem alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import F64
from oracles.enclosure import Enclosure, Worst, compare, worst_of
from oracles.formula.contract import Contract
from oracles.formula.lengths import Lengths
from oracles.formula.problem import FormulaProblem, Joined
from oracles.formula.setting import Part
from oracles.lazy import lazy
from oracles.summation import NumericsError

JOINED_ELEMENTS = 1 << 15
"""Outputs of about so many elements are joined, so that what is made of them fits into a processor's own cache."""


@dataclass(frozen=True, eq=False)
class Received:
    """The outputs of one kernel. Made by `Truth.receive`."""

    values: Mapping[str, F64]
    """The outputs are float64, in canonical shape."""


Query = tuple[Contract, Received]
"""A contract, and all outputs of a kernel that promises it."""
Answer = Sequence[Worst] | None
"""The worst element of each output of a kernel, where all elements of all of them certainly conform; None decides
nothing."""
Asked = tuple[FormulaProblem, bool, Sequence[Query]]
"""A problem, whether it is structured, and what is asked about it."""


@dataclass(eq=False)
class _Group:
    """Problems that are enclosed together, under contracts that differ in the orders of sums alone."""

    problems: list[FormulaProblem] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    """Of each problem."""
    starts: list[int] = field(default_factory=list)
    rows: int = 0
    asks: list[tuple[int, Query, int, int]] = field(default_factory=list)
    """The place of a problem, and what is asked about it; where the answer goes."""
    _places: dict[tuple[int, Contract], int] = field(default_factory=dict)

    def place(self, problem: FormulaProblem, contract: Contract, structured: bool) -> int:
        """The place of a problem under a contract, which may be asked about several times."""
        key = id(problem), contract
        if key not in self._places:
            self._places[key] = len(self.problems)
            self.problems.append(problem)
            self.parts.append(Part(problem.settled(contract), problem.rows, problem.length, structured))
            self.starts.append(self.rows)
            self.rows += problem.rows
        return self._places[key]

    @lazy
    def lengths(self) -> Lengths | None:
        """Of rows that are filled up."""
        if len({part.length for part in self.parts}) == 1:
            return None
        return Lengths([(part.rows, part.length) for part in self.parts])

    @lazy
    def joined(self) -> Joined:
        """What tells its rows apart."""
        columns = dict[str, F64]()
        for name in self.problems[0].parameters:
            values = [problem.parameters[name] for problem in self.problems]
            if len({*values}) > 1:
                columns[name] = np.repeat(values, [part.rows for part in self.parts])[:, None]
        return Joined(self.parts, self.lengths, columns)

    @property
    def tensors(self) -> Mapping[str, NDArray[Any]]:
        """Those of all problems, one after the other."""
        first = self.problems[0].tensors
        if len(self.problems) == 1:
            return first
        return {
            name: self.rows_of([problem.tensors[name] for problem in self.problems], self.lengths) for name in first
        }

    @staticmethod
    def rows_of(arrays: Sequence[NDArray[Any]], lengths: Lengths | None) -> NDArray[Any]:
        """Arrays one after the other, whose rows are filled up where these are of several lengths."""
        if lengths is None or arrays[0].ndim == 1:
            return np.concatenate(arrays)
        return lengths.filled(arrays)


def certain(asked: Sequence[Asked]) -> list[list[Answer]]:
    """An answer to each query; None where an element is not certainly right."""
    found: list[list[Answer]] = [[None] * len(queries) for _, _, queries in asked]
    for group in _groups(asked):
        try:
            _decide(group, found)
        except NumericsError:  # a contract that the problem contradicts: said where it is judged alone
            continue
    return found


def _groups(asked: Sequence[Asked]) -> Iterator[_Group]:
    """Groups of at most so many elements."""
    groups: dict[Hashable, _Group] = {}
    for at, (problem, structured, queries) in enumerate(asked):
        alike = problem.alike if problem.rows and problem.length else None
        if alike is None:
            continue
        for place, query in enumerate(queries):
            fills = problem.joins_lengths(query[0])
            joins = fills or problem.joins_orders(query[0])
            key = alike[fills], fills or structured, _apart_from_sums(query[0]) if joins else query[0]
            group = groups.get(key)
            if group is not None and group.rows * problem.length > JOINED_ELEMENTS:
                yield groups.pop(key)
                group = None
            if group is None:
                group = groups[key] = _Group()
            group.asks.append((group.place(problem, query[0], structured), query, at, place))
    yield from groups.values()


@lru_cache(maxsize=4096)
def _apart_from_sums(contract: Contract) -> Contract:
    return replace(contract, sums={})


def _decide(group: _Group, found: list[list[Answer]]) -> None:
    first, part = group.problems[0], group.parts[0]
    conformance = first.conformance(part.contract, part.structured, group.tensors, joined=group.joined)
    lengths = group.lengths
    spans = [(group.starts[at], group.problems[at].rows) for at, _, _, _ in group.asks]
    rows = np.concatenate([np.arange(start, start + count) for start, count in spans])
    ends = np.cumsum([count for _, count in spans])
    worst: list[list[Worst] | None] = [[] for _ in group.asks]
    with np.errstate(all="ignore"):
        for name in first.problem.outputs:
            values = [received.values[name] for _, (_, received), _, _ in group.asks]
            of_asks = (
                Lengths([(group.parts[at].rows, group.parts[at].length) for at, *_ in group.asks]) if lengths else None
            )
            got = group.rows_of(values, of_asks)
            enclosure = _of_rows(conformance.enclosure(name), rows)
            for place, each in enumerate(_worst(enclosure, got, ends)):
                known = worst[place]
                if known is not None:
                    if each is not None and lengths is not None and got.ndim == 2:
                        each = replace(each, flat=lengths.place(each.flat, group.parts[group.asks[place][0]].length))
                    worst[place] = None if each is None else [*known, each]
    for (_, _, at, place), each_of in zip(group.asks, worst, strict=True):
        found[at][place] = each_of


def _worst(enclosure: Enclosure, got: F64, ends: Any) -> Iterator[Worst | None]:
    """Of each query the worst element, or None where not all certainly conform."""
    comparison = compare(enclosure, got)
    wrong = comparison.failing | comparison.unsure
    start = 0
    for end in ends:
        part = slice(start, end)
        start = end
        yield None if wrong[part].any() else worst_of(comparison.ratio[part], enclosure, got, part)


def _of_rows(enclosure: Enclosure, rows: Any) -> Enclosure:
    """The enclosure of some of its rows, in that order."""
    fields: Mapping[str, Any] = {
        name: None if getattr(enclosure, name) is None else getattr(enclosure, name)[rows]
        for name in ("centre", "below", "nan", "unjudged", "unsure", "zeros", "zero")
    }
    inner, outer = ((low[rows], high[rows]) for low, high in (enclosure.inner, enclosure.outer))
    return replace(enclosure, **fields, above=fields["below"], inner=inner, outer=outer)
