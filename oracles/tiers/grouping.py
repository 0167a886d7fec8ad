"""Groups of queries for screens: rows that fit into a processor's own cache together cost as many calls as one. A
problem of more rows is split."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from oracles.formula.contract import Contract
from oracles.lazy import lazy
from oracles.summation import NumericsError
from oracles.tiers.joined import JOINED_ELEMENTS, Asked, Received
from oracles.tiers.plan import FormulaPlan
from oracles.tiers.problem import FormulaProblem


@dataclass(eq=False)
class RowGroup:
    """Rows of a problem: mostly all of them."""

    problem: FormulaProblem
    start: int
    rows: int

    @lazy
    def length(self) -> int:
        """Return the length of a row."""
        return self.problem.length

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.rows * self.length

    def of(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return its rows of an array of the problem."""
        return array[self.start : self.start + self.rows]

    def tensor(self, name: str) -> NDArray[Any]:
        """Return its rows of an input."""
        return self.of(self.problem.tensors[name])

    @property
    def parameters(self) -> Mapping[str, float]:
        """The parameters of the problem."""
        return self.problem.parameters


@dataclass(eq=False)
class Ask:
    """Outputs of a kernel with what its contract allows."""

    part: int
    plan: FormulaPlan
    pair: int
    answer: tuple[int, int]
    """The index at which the answer is stored."""


@dataclass(eq=False)
class Group:
    """Queries about problems of one formula whose outputs are made of the same values."""

    parts: list[tuple[RowGroup, FormulaPlan]] = field(default_factory=list)
    pairs: list[tuple[int, Received]] = field(default_factory=list)
    """The outputs, with the part that each belongs to."""
    asks: list[Ask] = field(default_factory=list)
    elements: int = 0
    _places: dict[Hashable, int] = field(default_factory=dict)
    _pairs: dict[tuple[int, int], int] = field(default_factory=dict)

    @property
    def is_full(self) -> bool:
        """Return whether the group is so large that others are better judged separately."""
        return self.elements > JOINED_ELEMENTS

    def ask(self, part: RowGroup, plan: FormulaPlan, received: Received, answer: tuple[int, int]) -> None:
        """Add queries. Equal parts and outputs are recognised by identity."""
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
    """Return groups of a limited number of elements. Outputs of one format lie side by side, and the parts of a problem
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
    """Return how a screen judges a problem under a contract; None if it cannot."""
    try:
        return problem.plan(contract, structured)
    except NumericsError:  # the problem contradicts the contract: reported when it is judged alone
        return None


def _parts(problem: FormulaProblem, queries: int) -> Iterator[RowGroup]:
    """Yield parts of equally many rows, with the outputs of all queries, for the elements of a group."""
    at_once = max(1, JOINED_ELEMENTS // max(1, problem.length * (1 + queries)))
    for start in range(0, problem.rows, at_once):
        yield RowGroup(problem, start, min(at_once, problem.rows - start))
