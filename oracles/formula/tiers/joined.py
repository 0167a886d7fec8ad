"""Joined: problems of a batch that their formula reads alike are enclosed together, their rows one after the other.

What small problems cost is calls of NumPy, not elements. Rows are read by themselves (`oracles.formula.tiers.problem`),
so that what is said of them is what would be said of each problem alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import F64
from oracles.enclosure import Enclosure, Worst, compare, worst_of
from oracles.formula.affine.setting import Joined, Part
from oracles.formula.contract import Contract
from oracles.formula.exact.lengths import Lengths, rows_of
from oracles.formula.tiers.problem import FormulaProblem
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


_Ask = tuple[FormulaProblem, bool, Query, int, int]
"""A problem, whether it is structured, and what is asked about it; where the answer goes."""
_FILLED = 1 << 12
"""So many elements may be added to rows of a group: they cost what its calls of NumPy do."""


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
    longest: int = 0
    elements: int = 0
    """Those of its rows, before these are filled up."""
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
            self.elements += problem.rows * problem.length
            self.longest = max(self.longest, problem.length)
        return self._places[key]

    def takes(self, problem: FormulaProblem) -> bool:
        """Whether it is not too large for another problem, nor its rows too short."""
        longest, rows = max(self.longest, problem.length), self.rows + problem.rows
        filled = rows * longest - self.elements - problem.rows * problem.length
        return self.rows * self.longest <= JOINED_ELEMENTS and filled <= _FILLED

    @lazy
    def outputs(self) -> Mapping[str, str]:
        """Those that a problem has, and their dtypes."""
        return {name: dtype for problem in self.problems for name, dtype in problem.problem.outputs.items()}

    @lazy
    def lengths(self) -> Lengths | None:
        """Of rows that are filled up."""
        if len({part.length for part in self.parts}) == 1:
            return None
        return Lengths([(part.rows, part.length) for part in self.parts], self.longest)

    @lazy
    def joined(self) -> Joined:
        """What tells its rows apart."""
        columns = dict[str, F64]()
        for name in self.problems[0].parameters:
            values = [problem.parameters[name] for problem in self.problems]
            if len({value.hex() for value in values}) > 1:  # zeros of both signs are two
                columns[name] = np.repeat(values, [part.rows for part in self.parts])[:, None]
        return Joined(self.parts, self.lengths, columns, self.outputs)

    @property
    def tensors(self) -> Mapping[str, NDArray[Any]]:
        """Those of all problems, one after the other."""
        first = self.problems[0].tensors
        if len(self.problems) == 1:
            return first
        return {name: rows_of([problem.tensors[name] for problem in self.problems], self.lengths) for name in first}


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
    """Groups of about so many elements at most, of rows that are nearly as long."""
    known: dict[Hashable, list[_Ask]] = {}
    for at, (problem, structured, queries) in enumerate(asked):
        if problem.alike is None or not (problem.rows and problem.length):
            continue
        for place, query in enumerate(queries):
            with suppress(NumericsError):  # a contract that the problem contradicts: said where it is judged alone
                key = _key(problem, structured, query[0])
                known.setdefault(key, []).append((problem, structured, query, at, place))
    for asks in known.values():
        group = _Group()
        for problem, structured, query, at, place in sorted(asks, key=lambda ask: ask[0].length):
            if group.problems and not group.takes(problem):
                yield group
                group = _Group()
            group.asks.append((group.place(problem, query[0], structured), query, at, place))
        yield group


def _key(problem: FormulaProblem, structured: bool, contract: Contract) -> Hashable:
    """Equal for what is enclosed together."""
    assert problem.alike is not None
    settled, (alone, filled) = problem.settled(contract), problem.alike
    joins = problem.joins_lengths(contract)
    about = (filled, problem.bits_of_length(contract)) if joins else (alone, structured)
    # The formula of an algorithm is made anew for each set of outputs.
    outputs = tuple(problem.problem.outputs) if contract.algorithm else ()
    return about, outputs, _apart_from_sums(settled) if problem.joins_orders(contract) else settled


@lru_cache(maxsize=4096)
def _apart_from_sums(contract: Contract) -> Contract:
    return replace(contract, sums={})


def _decide(group: _Group, found: list[list[Answer]]) -> None:
    first, part = group.problems[0], group.parts[0]
    conformance = first.conformance(part.contract, part.structured, group.tensors, joined=group.joined)
    worst: list[dict[str, Worst | None]] = [{} for _ in group.asks]
    with np.errstate(all="ignore"):
        for name in group.outputs:
            places = [place for place, (_, (_, got), _, _) in enumerate(group.asks) if name in got.values]
            each = _of_output(group, name, conformance.enclosure(name), [group.asks[place] for place in places])
            for place, one in zip(places, each, strict=True):
                worst[place][name] = one
    for (problem, _, at, place), of_ask in zip(group.asks, worst, strict=True):
        known = [one for name in group.problems[problem].problem.outputs if (one := of_ask[name]) is not None]
        found[at][place] = known if len(known) == len(of_ask) else None


def _of_output(
    group: _Group, name: str, enclosure: Enclosure, asks: Sequence[tuple[int, Query, int, int]]
) -> Iterator[Worst | None]:
    """Of each of these asks what `_worst` says of an output."""
    parts = [group.parts[at] for at, *_ in asks]
    runs = [(part.rows, part.length) for part in parts]
    firsts = [(group.starts[at], group.parts[at].rows) for at, *_ in asks]
    rows = np.concatenate([np.arange(start, start + count) for start, count in firsts])
    lengths = None if group.lengths is None else Lengths(runs, group.longest)
    got = rows_of([received.values[name] for _, (_, received), _, _ in asks], lengths)
    ends = np.cumsum([count for count, _ in runs])
    for part, one in zip(parts, _worst(_of_rows(enclosure, rows), got, ends), strict=True):
        if one is None or lengths is None or got.ndim == 1:
            yield one
        else:  # its place among the row's own elements
            row, column = divmod(one.flat, group.longest)
            yield replace(one, flat=row * part.length + column)


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
