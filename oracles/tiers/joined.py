"""Joined problems: those of a batch with the same formula are enclosed together, because small problems take more time
for calls of NumPy than for their elements.

Problems with independent rows are joined row after row (`oracles.tiers.problem`); other problems are stacked along an
additional dimension. The answers are the same as for each problem alone. Queries of screens are grouped so that the
rows of a group fit into the cache of a processor core, and all of them together take as many calls of NumPy as one row.
A problem with more rows is split.
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import F64
from oracles.enclosure import Enclosure, Worst, compare, worst_of
from oracles.formula.affine.setting import Joined, JoinedProblem
from oracles.formula.contract import Contract
from oracles.formula.exact.lengths import Extents, Lengths, Places, rows_of
from oracles.formula.made import completed
from oracles.formula.trace import FormulaError
from oracles.lazy import lazy
from oracles.summation import NumericsError
from oracles.tiers.plan import FormulaPlan
from oracles.tiers.problem import FormulaProblem


@dataclass(eq=False)
class RowGroup:
    """Neighbouring rows of a problem, mostly all of them."""

    problem: FormulaProblem
    start: int
    rows: int

    @lazy
    def length(self) -> int:
        """Return the length of a row."""
        return self.problem.length

    @property
    def size(self) -> int:
        """The number of elements in these rows."""
        return self.rows * self.length

    def of(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return these rows of an array of the problem."""
        return array[self.start : self.start + self.rows]

    def tensor(self, name: str) -> NDArray[Any]:
        """Return these rows of an input."""
        return self.of(self.problem.tensors[name])

    @property
    def parameters(self) -> Mapping[str, float]:
        """The parameters of the problem."""
        return self.problem.parameters


@dataclass(eq=False)
class Ask:
    """A query about a part of a group: whether the outputs of a kernel pass under a contract, by the plan for both."""

    part: int
    plan: FormulaPlan
    pair: int
    answer: tuple[int, int]
    """The indices (problem, query) at which the answer is stored."""


@dataclass(eq=False)
class Group:
    """Queries about problems of one formula whose outputs are made of the same nodes."""

    parts: list[tuple[RowGroup, FormulaPlan]] = field(default_factory=list)
    pairs: list[tuple[int, Received]] = field(default_factory=list)
    """The outputs of kernels, each after the index of its part."""
    asks: list[Ask] = field(default_factory=list)
    elements: int = 0
    _places: dict[Hashable, int] = field(default_factory=dict)
    _pairs: dict[tuple[int, int], int] = field(default_factory=dict)

    @property
    def is_full(self) -> bool:
        """Whether the group is so large that further queries get a group of their own."""
        return self.elements > JOINED_ELEMENTS

    def ask(self, part: RowGroup, plan: FormulaPlan, received: Received, answer: tuple[int, int]) -> None:
        """Add a query. Parts and outputs that are already in the group are recognised by identity."""
        place = self._places.setdefault((id(part), plan.key), len(self.parts))
        if place == len(self.parts):
            self.parts.append((part, plan))
            self.elements += part.size
        pair = self._pairs.setdefault((place, id(received)), len(self.pairs))
        if pair == len(self.pairs):
            self.pairs.append((place, received))
            self.elements += part.size
        self.asks.append(Ask(place, plan, pair, answer))


def groups_of(asked: Sequence[Asked]) -> Iterator[Group]:
    """Yield groups with a limited number of elements. Outputs of one format are neighbours, and the parts of a problem
    stay in order."""
    groups: dict[Hashable, Group] = {}
    of_plans: dict[FormulaPlan, Group] = {}
    in_order = sorted(enumerate(asked), key=lambda each: tuple(each[1][0].problem.outputs.values()))
    for at, (problem, structured, queries) in in_order:
        for part in _parts(problem, len(queries)):
            for place, (contract, received) in enumerate(queries):
                plan = plan_of(problem, contract, structured)
                if plan is None or plan.apart:
                    continue
                group = of_plans.get(plan)
                if group is None or group.is_full:
                    group = groups.get(plan.nodes)
                    if group is not None and group.is_full:
                        yield groups.pop(plan.nodes)
                        group = None
                    group = of_plans[plan] = groups.setdefault(plan.nodes, group or Group())
                group.ask(part, plan, received, (at, place))
    yield from groups.values()


def plan_of(problem: FormulaProblem, contract: Contract, structured: bool) -> FormulaPlan | None:
    """Return the plan by which a screen judges a problem under a contract; None if it cannot."""
    try:
        return problem.plan(contract, structured)
    except NumericsError:  # the contract does not fit: reported when judged alone
        return None


def _parts(problem: FormulaProblem, queries: int) -> Iterator[RowGroup]:
    """Yield parts of a problem whose rows fill a group, together with the outputs of all queries."""
    at_once = max(1, JOINED_ELEMENTS // max(1, problem.length * (1 + queries)))
    for start in range(0, problem.rows, at_once):
        yield RowGroup(problem, start, min(at_once, problem.rows - start))


JOINED_ELEMENTS = 1 << 15
"""The number of elements of full groups, whose intermediate values fit into the cache of a processor core."""


@dataclass(frozen=True, eq=False)
class Received:
    """The outputs of one kernel, made by `Truth.receive`."""

    values: Mapping[str, F64]
    """The outputs as float64, each with one axis for each dimension of the formula (its canonical shape)."""


Query = tuple[Contract, Received]
"""A contract, and all outputs of a kernel that promises it."""
Answer = Sequence[Worst] | None
"""The worst element of each output of a kernel; None unless all elements of all outputs certainly conform."""
Asked = tuple[FormulaProblem, bool, Sequence[Query]]
"""A problem, whether it is structured, and the queries about it."""


_Ask = tuple[FormulaProblem, bool, Query, int, int]
"""A problem, whether it is structured, a query about it, and the indices (problem, query) of the answer."""
_FILLED = 1 << 12
"""The largest number of elements by which joined problems may be filled up to add another one. Filling up more takes
longer than a separate group, whose calls of NumPy take two milliseconds, or ten for attention."""


@dataclass(eq=False)
class _Group(ABC):
    """Problems that are enclosed together, under contracts that differ only in the orders of sums."""

    problems: list[FormulaProblem] = field(default_factory=list)
    parts: list[JoinedProblem] = field(default_factory=list)
    """The description of each problem in the joined arrays."""
    asks: list[tuple[int, Query, int, int]] = field(default_factory=list)
    """A problem's index, its query, and the indices (problem, query) of the answer."""
    widest: tuple[int, ...] = ()
    """The extents that arrays of all problems have after filling up."""
    _places: dict[tuple[int, Contract], int] = field(default_factory=dict)

    def place(self, problem: FormulaProblem, contract: Contract, structured: bool) -> int:
        """Return the index of a problem under a contract, after adding the problem if it is new."""
        key = id(problem), contract
        if key not in self._places:
            self._places[key] = len(self.problems)
            self.widest = self._with(problem)
            self.problems.append(problem)
            part = JoinedProblem(problem.settled(contract), structured, problem.sizes, self._places_of(problem))
            self.parts.append(part)
        return self._places[key]

    def filled(self, problem: FormulaProblem) -> float:
        """Return the number of filled-up elements that another problem would add; infinite if they are too many."""
        before = self._elements(problem, self.widest)
        filled = self._elements(problem, self._with(problem)) - before - problem.elements(problem.sizes)
        return filled if before <= JOINED_ELEMENTS and filled <= _FILLED else math.inf

    @lazy
    def outputs(self) -> Mapping[str, str]:
        """Return the dtypes of all outputs of the problems, by name."""
        return {name: dtype for problem in self.problems for name, dtype in problem.problem.outputs.items()}

    @lazy
    def joined(self) -> Joined:
        """Return the description of the joined problems: their parts, lengths, and parameters."""
        columns = dict[str, F64]()
        for name in self.problems[0].parameters:
            values = [problem.parameters[name] for problem in self.problems]
            if len({value.hex() for value in values}) > 1:  # +0 and -0 differ
                column = np.repeat(values, [part.places for part in self.parts])
                columns[name] = column.reshape(-1, *(1 for _ in self.widest[1:]))
        return Joined(self.parts, self.lengths(self.problems), columns, self.outputs, isinstance(self, _BesideGroup))

    def tensors(self) -> Mapping[str, NDArray[Any]]:
        """Return the tensors of all problems, joined."""
        each = [problem.tensors for problem in self.problems]
        return {name: self._together(name, [one[name] for one in each], self.problems) for name in each[0]}

    def got(self, name: str, asks: Sequence[tuple[int, Query, int, int]]) -> tuple[Places, NDArray[Any], Places]:
        """Return three things for the queries about an output: the places along its first axis that they ask about, the
        values that kernels returned there, and where the values of each query end."""
        counts = np.array([part.places for part in self.parts])
        starts = np.cumsum(counts) - counts
        places = np.concatenate([np.arange(starts[at], starts[at] + counts[at]) for at, *_ in asks])
        arrays = [received.values[name] for _, (_, received), _, _ in asks]
        values = self._together(name, arrays, [self.problems[at] for at, *_ in asks])
        return places, values, np.cumsum([counts[at] for at, *_ in asks])

    @abstractmethod
    def lengths(self, problems: Sequence[FormulaProblem]) -> Lengths | Extents | None:
        """Return the lengths of some of the problems before filling up; None if they are all equal."""

    @abstractmethod
    def flat(self, name: str, problem: FormulaProblem, flat: int) -> int | None:
        """Return the flat index of an output's element without filling up, from its index in the filled-up array. None
        if the element itself only fills up."""

    @abstractmethod
    def _elements(self, problem: FormulaProblem, extents: tuple[int, ...]) -> int:
        """Return the number of elements of the largest array for problems like this one, filled up to these extents."""

    @abstractmethod
    def _with(self, problem: FormulaProblem) -> tuple[int, ...]:
        """Return the extents `widest` after adding a problem."""

    @abstractmethod
    def _places_of(self, problem: FormulaProblem) -> int:
        """Return the number of a problem's places along the first axis."""

    @abstractmethod
    def _together(self, name: str, arrays: Sequence[NDArray[Any]], problems: Sequence[FormulaProblem]) -> NDArray[Any]:
        """Return the arrays of one operand in these problems as one array."""


class _Rows(_Group):
    """Problems with independent rows, which are joined row after row."""

    def lengths(self, problems: Sequence[FormulaProblem]) -> Lengths | None:
        if all(problem.length == self.widest[1] for problem in self.problems):
            return None
        return Lengths([(problem.rows, problem.length) for problem in problems], self.widest[1])

    def flat(self, name: str, problem: FormulaProblem, flat: int) -> int:
        if not problem.of_op.has_rows(name):
            return flat
        row, column = divmod(flat, self.widest[1])
        return row * problem.length + column

    def _elements(self, problem: FormulaProblem, extents: tuple[int, ...]) -> int:
        return math.prod(extents)

    def _with(self, problem: FormulaProblem) -> tuple[int, ...]:
        rows, length = self.widest or (0, 0)
        return rows + problem.rows, max(length, problem.length)

    def _places_of(self, problem: FormulaProblem) -> int:
        return problem.rows

    def _together(self, name: str, arrays: Sequence[NDArray[Any]], problems: Sequence[FormulaProblem]) -> NDArray[Any]:
        lengths = self.lengths(problems)
        return arrays[0] if lengths is None and len(arrays) == 1 else rows_of(arrays, lengths)


class _BesideGroup(_Group):
    """Problems with rows that depend on each other, which are stacked along an additional dimension."""

    def lengths(self, problems: Sequence[FormulaProblem]) -> Extents:
        widest = dict(zip(self.problems[0].sizes, self.widest[1:], strict=True))
        return Extents([problem.sizes for problem in problems], widest)

    def flat(self, name: str, problem: FormulaProblem, flat: int) -> int | None:
        dims = problem.dims(name)
        if not dims:
            return 0
        widest = dict(zip(problem.sizes, self.widest[1:], strict=True))
        place = np.unravel_index(flat, [widest[dim] for dim in dims])
        own = [problem.sizes[dim] for dim in dims]
        return int(np.ravel_multi_index(place, own)) if all(map(operator.lt, place, own)) else None

    def filled(self, problem: FormulaProblem) -> float:
        """Return the number of filled-up elements that another problem would add. It is infinite if they are too many,
        or if an extent that follows from others would not be the filled-up extent."""
        counts, sizes = problem.plain.trace.counts, dict(zip(problem.sizes, self._with(problem)[1:], strict=True))
        with suppress(FormulaError):
            whole = completed(counts, {dim: size for dim, size in sizes.items() if dim not in counts})
            return super().filled(problem) if whole.items() <= sizes.items() else math.inf
        return math.inf

    def _elements(self, problem: FormulaProblem, extents: tuple[int, ...]) -> int:
        count, *sizes = extents
        return count * problem.elements(dict(zip(problem.sizes, sizes, strict=True)))

    def _with(self, problem: FormulaProblem) -> tuple[int, ...]:
        count, *sizes = self.widest or (0, *(0 for _ in problem.sizes))
        return count + 1, *map(max, sizes, problem.sizes.values())

    def _places_of(self, problem: FormulaProblem) -> int:
        return 1

    def _together(self, name: str, arrays: Sequence[NDArray[Any]], problems: Sequence[FormulaProblem]) -> NDArray[Any]:
        return self.lengths(problems).filled(arrays, problems[0].dims(name))


def certain(asked: Sequence[Asked]) -> list[list[Answer]]:
    """Return an answer to each query; None unless all elements certainly conform."""
    found: list[list[Answer]] = [[None] * len(queries) for _, _, queries in asked]
    for group in _groups(asked):
        try:
            _decide(group, found)
        except NumericsError:  # the problem contradicts the contract: reported when it is judged alone
            continue
    return found


def _groups(asked: Sequence[Asked]) -> Iterator[_Group]:
    """Yield groups with a limited number of elements, with rows of nearly equal length."""
    known: dict[Hashable, list[_Ask]] = {}
    for at, (problem, structured, queries) in enumerate(asked):
        if not queries or not problem.size or problem.plain.selects:
            continue
        for place, query in enumerate(queries):
            with suppress(NumericsError):  # the problem contradicts the contract: reported when it is judged alone
                key = _key(problem, structured, query[0])
                known.setdefault(key, []).append((problem, structured, query, at, place))
    for asks in known.values():
        kind = _Rows if asks[0][0].plain.separate else _BesideGroup
        groups = list[_Group]()
        for problem, structured, query, at, place in sorted(asks, key=lambda ask: ask[0].in_order):
            fits = [each for each in groups if each.filled(problem) < math.inf] or [kind()]
            group = min(fits, key=lambda each: each.filled(problem)) if len(fits) > 1 else fits[0]
            groups += [] if group.problems else [group]
            group.asks.append((group.place(problem, query[0], structured), query, at, place))
        yield from groups


def _key(problem: FormulaProblem, structured: bool, contract: Contract) -> Hashable:
    """Return a key that is equal for problems and contracts that can be enclosed together."""
    settled, (alone, filled) = problem.settled(contract), problem.alike
    joins = problem.joins_lengths(contract)
    about = (filled, problem.numbers(contract)) if joins else (alone, structured)
    # Algorithms make a formula for each set of outputs; the number of formulas depends on whether all inputs are
    # finite.
    ways = () if contract.follows else (*problem.problem.outputs, len(problem.formulas(contract)))
    return about, ways, _apart_from_sums(settled) if problem.joins_orders(contract) else settled


@lru_cache(maxsize=4096)
def _apart_from_sums(contract: Contract) -> Contract:
    return replace(contract, sums={})


def _decide(group: _Group, found: list[list[Answer]]) -> None:
    first, part = group.problems[0], group.parts[0]
    conformance = first.conformance(part.contract, part.structured, group.tensors(), joined=group.joined)
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
    """Yield the worst element of an output for each query, or None if not all elements certainly conform."""
    places, got, ends = group.got(name, asks)
    for (at, *_), one in zip(asks, _worst(_of_places(enclosure, places), got, ends), strict=True):
        flat = None if one is None else group.flat(name, group.problems[at], one.flat)
        yield None if one is None or flat is None else replace(one, flat=flat)


def _worst(enclosure: Enclosure, got: F64, ends: Any) -> Iterator[Worst | None]:
    """Yield the worst element of each part, or None if not all certainly conform. `ends` are the ends of the parts."""
    comparison = compare(enclosure, got)
    wrong = comparison.failing | comparison.unsure
    start = 0
    for end in ends:
        part = slice(start, end)
        start = end
        yield None if wrong[part].any() else worst_of(comparison.ratio[part], enclosure, got, part)


def _of_places(enclosure: Enclosure, places: Places) -> Enclosure:
    """Return the enclosure at these places along its first axis."""
    fields: Mapping[str, Any] = {
        name: None if getattr(enclosure, name) is None else getattr(enclosure, name)[places]
        for name in ("centre", "below", "nan", "unjudged", "unsure", "zeros", "zero", "mirrored", "infinities")
    }
    inner, outer = ((low[places], high[places]) for low, high in (enclosure.inner, enclosure.outer))
    beside = None if enclosure.beside is None else _of_places(enclosure.beside, places)
    return replace(enclosure, **fields, above=fields["below"], inner=inner, outer=outer, beside=beside)
