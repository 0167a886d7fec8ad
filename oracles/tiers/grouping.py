"""Groups of queries for screens. The rows of a group fit into the cache of a processor core, and all of them together
take as many calls of NumPy as one row. A problem with more rows is split."""

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
