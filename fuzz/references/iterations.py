"""The iterations of a loop, found among the nodes of the graph into which torch unrolled it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

_LEAST = 3
"""The least number of iterations of a loop."""
_COUNTED = "add", "sub", "rsub", "mul", "div"
"""Operations that may have the number of the iteration as an argument."""
_LIKE = ("zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones", "new_full", "new_empty")
"""Operations whose results depend on a shape only."""


class NoLoopError(Exception):
    """A graph without a loop that can be recognised."""


def name_of(node: Any) -> str:
    schema = getattr(node.target, "_schema", None)
    return str(schema.name).partition("::")[2] if schema is not None else str(getattr(node.target, "__name__", ""))


def shape_of(node: Any) -> tuple[int, ...]:
    return tuple(getattr(node.meta.get("val"), "shape", ()))


def plain(graph: Any) -> Sequence[Any]:
    """Return the nodes of a graph without copies of the same shape, and with equal nodes merged."""
    known = dict[Any, Any]()
    for node in [*graph.nodes]:
        if node.op != "call_function":
            continue
        if name_of(node) == "copy" and shape_of(node.args[1]) == shape_of(node):
            node.replace_all_uses_with(node.args[1])
            graph.erase_node(node)
            continue
        key = str(node.target), str(node.args), str(node.kwargs)
        if key in known:
            node.replace_all_uses_with(known[key])
            graph.erase_node(node)
        known.setdefault(key, node)
    graph.eliminate_dead_code()
    return [*graph.nodes]


@dataclass(frozen=True)
class _Place:
    """The element of a table that a node takes: the table, a dimension, and the index along it."""

    table: Any
    dim: int
    index: int


def _place(node: Any) -> _Place | None:
    if node.op != "call_function":
        return None
    if name_of(node) == "select" and isinstance(node.args[2], int):
        rank = len(shape_of(node.args[0]))
        dim, index = node.args[1] % rank, node.args[2]
        return _Place(node.args[0], dim, index % shape_of(node.args[0])[dim])
    of = node.args[0] if name_of(node) == "getitem" else None
    if of is not None and name_of(of) == "unbind":
        dim = of.args[1] if len(of.args) > 1 else of.kwargs.get("dim", 0)
        return _Place(of.args[0], dim % len(shape_of(of.args[0])), node.args[1])
    return None


def peel(graph: Any) -> bool:
    """Change the graph so that a loop begins at the second element along an axis, if the first element is the loop's
    initial value. Return whether there is such a loop."""
    import torch

    aten = torch.ops.aten
    taken = dict[tuple[Any, int], dict[int, list[Any]]]()
    for node in graph.nodes:
        if (place := _place(node)) is not None:
            taken.setdefault((place.table, place.dim), {}).setdefault(place.index, []).append(node)
    tables = {key: some for key, some in taken.items() if {*some, 0} == {*range(shape_of(key[0])[key[1]])}}
    counts = {shape_of(table)[dim] for table, dim in tables}
    for (table, dim), places in tables.items():
        first = min((node for some in places.values() for node in some), key=[*graph.nodes].index)
        with graph.inserting_before(first):
            rest = graph.call_function(aten.slice.Tensor, (table, dim, 1, max(places) + 1))
            rest.meta = _shaped_like(first, table, dim, max(places))
        for index, some in places.items():
            for node in some if index else ():
                node.target, node.args = aten.select.int, (rest, dim, index - 1)
    for node in [*graph.nodes]:
        if name_of(node) in ("stack", "cat") and len(node.args[0]) in counts:
            whole, (begin, *others), dim = node, node.args[0], node.args[1] if len(node.args) > 1 else 0
            with graph.inserting_before(whole):
                more = graph.call_function(whole.target, (others, dim))
                more.meta = _shaped_like(whole, whole, dim, shape_of(whole)[dim] * len(others) // (len(others) + 1))
                if name_of(whole) == "stack":
                    begin = graph.call_function(aten.unsqueeze.default, (begin, dim))
                    begin.meta = _shaped_like(whole, whole, dim, 1)
            whole.target, whole.args = aten.cat.default, ([begin, more], dim)
    return bool(tables)


def _shaped_like(at: Any, node: Any, dim: int, extent: int) -> dict[str, Any]:
    """Return the metadata of a new node made at `at`, with the shape of `node` except for one extent."""
    shape = [*shape_of(node)]
    shape[dim] = extent
    return {**at.meta, "val": SimpleNamespace(shape=tuple(shape), dtype=node.meta["val"].dtype)}


class Iterations:
    """The nodes of a graph by iteration of the loop. If `backwards`, the first iteration takes the last place."""

    def __init__(self, nodes: Sequence[Any], *, backwards: bool) -> None:
        self.all, self.backwards = nodes, backwards
        self.places = {node: place for node in nodes if (place := _place(node)) is not None}
        self.count = self._counted()
        self._iteration = dict[Any, int]()
        for node in nodes:
            self._iteration[node] = self._iteration_of(node)
        numbers = {node: at for at, node in enumerate(nodes)}
        ranked = sorted(nodes, key=lambda node: self._rank(node, numbers))
        iterations = [
            [node for node in ranked if self._iteration[node] == iteration] for iteration in range(self.count)
        ]
        makes_none = all(map(self.is_taken, iterations[0]))  # such as with the iterations reversed
        if makes_none or any(len(iteration) != len(iterations[0]) for iteration in iterations[:-1]):
            raise NoLoopError
        final = self._final(iterations[-2], iterations[-1])
        ahead = [at for at, node in enumerate(final) if node is None]
        iterations[-1] = final
        # A node made only from results of the previous iteration was counted to that one: move it to its own.
        places = sum(self.is_taken(node) for node in iterations[0])
        rest = [at for at in range(places, len(final)) if at not in ahead]
        self.body = [
            [*each[:places], *(iterations[iteration - 1][at] for at in ahead if iteration), *(each[at] for at in rest)]
            for iteration, each in enumerate(iterations)
        ]
        self.at = {
            node: (iteration, at)
            for iteration, body in enumerate(self.body)
            if iteration
            for at, node in enumerate(body)
        }
        self.starts = dict[int, Any]()
        self.counting = dict(self._counting())
        self._check()

    def _final(self, before: Sequence[Any], last: Sequence[Any]) -> list[Any]:
        """Return, for each node of the iteration before the last, its counterpart in the last; None if there is none,
        since only a next iteration would use it."""
        found = dict[Any, Any]()
        for node in before:
            place = self.places.get(node)
            for other in last if place is None else ():
                if other not in found.values() and self._follows(node, other, found):
                    found[node] = other
                    break
            for other in last if place is not None else ():
                mine = self.places.get(other)
                if mine is not None and place is not None and (mine.table, mine.dim) == (place.table, place.dim):
                    found[node] = other
        return [found.get(node) for node in before]

    def _follows(self, node: Any, other: Any, found: Mapping[Any, Any]) -> bool:
        """Whether `other` uses values one iteration later than `node` does, and otherwise in the same way."""
        if node.target != other.target or len(node.all_input_nodes) != len(other.all_input_nodes):
            return False
        for mine, theirs in zip(node.all_input_nodes, other.all_input_nodes, strict=True):
            iteration = self._iteration[mine]
            if iteration == self.count - 2 and found.get(mine) is not theirs:
                return False
            if iteration != self.count - 2 and self._iteration[theirs] != (
                iteration + 1 if iteration >= 0 else iteration
            ):
                return False
        return True

    def _rank(self, node: Any, numbers: Mapping[Any, int]) -> tuple[int, int, int]:
        """Return a sort key of a node in its iteration: elements taken from tables come first."""
        place = self.places.get(node)
        if place is None or not self.is_taken(node):
            return 1, numbers[node], 0
        return 0, numbers[place.table], place.dim

    def is_taken(self, node: Any) -> bool:
        """Whether a node takes an element of a table from outside of the loop."""
        return node in self.places and self._iteration[self.places[node].table] < 0

    def _place_of(self, iteration: int) -> int:
        """Return the place that an iteration takes; equally, the iteration that takes a place."""
        return self.count - 1 - iteration if self.backwards else iteration

    def _counted(self) -> int:
        found = dict[tuple[Any, int], set[int]]()
        for place in self.places.values():
            found.setdefault((place.table, place.dim), set()).add(place.index)
        whole = [len(some) for (table, dim), some in found.items() if len(some) == shape_of(table)[dim] >= _LEAST]
        if not whole or len({*whole}) > 1:
            raise NoLoopError
        return whole[0]

    def _iteration_of(self, node: Any) -> int:
        if name_of(node) in _LIKE:
            return -1
        place = self.places.get(node)
        if place is not None and self._iteration[place.table] < 0:
            return self._place_of(place.index) if shape_of(place.table)[place.dim] == self.count else -1
        return max((self._iteration[arg] for arg in node.all_input_nodes), default=-1)

    def _counting(self) -> Iterator[tuple[tuple[int, int], float]]:
        """Yield (node's index, argument) for numbers that count iterations, each with the number in iteration 0."""
        for at, node in enumerate(self.body[1]):
            for place in range(len(node.args)) if name_of(node) in _COUNTED else ():
                values = [body[at].args[place] for body in self.body[1:]]
                if all(isinstance(each, (int, float)) for each in values):
                    more = {each - iteration for iteration, each in enumerate(values, 1)}
                    if len(more) == 1:
                        yield (at, place), more.pop()

    def _check(self) -> None:
        """Raise NoLoopError unless all iterations have the same nodes, made in the same way."""
        usual = [self._made(node, 2, at) for at, node in enumerate(self.body[2])]
        first = [node for node in self.all if self._iteration[node] == 0]
        # Nodes of the first iteration made only from initial values depend on no place, so that they lie outside of it.
        known = [*first, *(node for node in self.all if self._iteration[node] < 0 and node.op == "call_function")]
        for at, made in enumerate(usual):
            self.at[next((node for node in known if self._begins(node, at, made)), None)] = 0, at
        if None in self.at or any(node not in self.at for node in first):
            raise NoLoopError
        for iteration in range(1, self.count):
            if [self._made(node, iteration, at) for at, node in enumerate(self.body[iteration])] != usual:
                raise NoLoopError

    def _begins(self, node: Any, at: int, made: Any) -> bool:
        """Return whether a node is a counterpart in the first iteration; if so, note the initial values it uses."""
        starts = dict[int, Any]()
        if node in self.at or not self._matches(made, self._made(node, 0, at), starts):
            return False
        self.starts |= starts
        return True

    def _matches(self, made: Any, first: Any, starts: dict[int, Any]) -> bool:
        if not (isinstance(made, tuple) and isinstance(first, tuple) and len(made) == len(first)):
            return bool(made == first)
        if (made[:1], first[:1]) == (("before",), ("outside",)):
            return {**starts, **self.starts}.get(made[1], first[1]) is starts.setdefault(made[1], first[1])
        return all(self._matches(each, other, starts) for each, other in zip(made, first, strict=True))

    def _made(self, node: Any, iteration: int, at: int) -> Any:
        """Return a description of how a node is made, which is equal in all iterations."""
        place = self.places.get(node)
        if place is not None and self._iteration[place.table] < 0:
            return "each", ("outside", place.table), place.dim
        given = [self._said(each, iteration) for each in node.args]
        for argument, each in enumerate(node.args):
            if (at, argument) in self.counting and isinstance(each, (int, float)):
                given[argument] = "iterations", each - iteration
        if name_of(node) == "select_scatter":
            given[3] = "iteration" if node.args[3] == self._place_of(iteration) else given[3]
        return (
            str(node.target),
            tuple(given),
            tuple((k, self._said(v, iteration)) for k, v in sorted(node.kwargs.items())),
        )

    def _said(self, arg: Any, iteration: int) -> Any:
        if isinstance(arg, (list, tuple)):
            return tuple(self._said(each, iteration) for each in arg)
        if not hasattr(arg, "op"):
            return "value", str(arg)
        if arg in self.at:
            own, at = self.at[arg]
            if iteration - own not in (0, 1):
                raise NoLoopError
            return ("here", at) if own == iteration else ("before", at)
        return "outside", arg
