"""Loops over a dimension, found in the graph that they unroll to, and rolled up again.

A Python loop over time is traced once for each iteration, so graphs of two lengths differ. Here nodes are sorted by the
last index of `select` or `unbind` that they depend on. If every index has the same nodes, made in the same way from the
elements at that index and from the results of the iteration before, the nodes of one iteration are kept, with markers:
`each` is an element at the iteration's index, `count` the number of earlier iterations plus a constant, `carried` a
result of the iteration before, `recurrence` the node that updates it, `before` its value one iteration ago, `stacked`
and `joined` the results of all iterations, and `last` that of the last one. A state is read after all other states that
it is made of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from fuzz.references.dims import UnreadableError
from fuzz.references.iterations import Iterations, NoLoopError, name_of, peel, plain, shape_of


@dataclass(frozen=True)
class Marker:
    """Stands in place of an operation of torch."""

    name: str
    parameters: tuple[str, ...]
    _overloadname: str = ""

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(self) -> None:
        """Never called: a marker is read only."""

    @property
    def _schema(self) -> Any:
        arguments = [SimpleNamespace(name=each, default_value=None) for each in self.parameters]
        return SimpleNamespace(name=f"loop::{self.name}", arguments=arguments)


EACH = Marker("each", ("self", "dim"))
CARRIED = Marker("carried", ("start",))
RECURRENCE, BEFORE = Marker("recurrence", ("carried", "value")), Marker("before", ("made", "start"))
COUNT = Marker("count", ("more",))
STACKED, JOINED = Marker("stacked", ("self", "dim")), Marker("joined", ("self", "dim"))
LAST = Marker("last", ("self",))
MARKERS = ("each", "count", "carried", "recurrence", "before", "stacked", "joined", "last")


def rolled(graph: Any) -> Sequence[Any] | None:
    """Return the nodes of a graph with one iteration of its loop; None if it has no loop of a known kind."""
    graph.eliminate_dead_code()
    nodes = plain(graph)
    for backwards in (False, True):
        with suppress(NoLoopError):
            return _Rolled(Iterations(nodes, backwards=backwards)).nodes()
    with suppress(NoLoopError):
        return _Rolled(Iterations([*graph.nodes], backwards=False)).nodes() if peel(graph) else None
    return None


class _Rolled:
    """A graph with the nodes of one iteration, the second."""

    def __init__(self, iterations: Iterations) -> None:
        self._of = iterations

    def nodes(self) -> Sequence[Any]:
        """Return its nodes."""
        from torch.fx import Graph

        self._new, self._copies = Graph(), dict[Any, Any]()
        self._carried, self._own = dict[int, Any](), dict[int, Any]()
        for node in self._of.all:
            if node.op == "placeholder":
                self._copy(node)
        for node in self._of.body[1]:  # what it takes from outside comes first
            place = self._of.places.get(node)
            for arg in node.all_input_nodes if place is None else (place.table,):
                if arg not in self._of.at:
                    self._copy(arg)
        for start in self._of.starts.values():
            self._copy(start)
        for at, node in enumerate(self._of.body[1]):
            if self._of.is_taken(node):  # this says which dimension the loop goes through
                self._made({at}, self._own)
        waiting = {at for at in self._of.starts if not self._is_written(at)}
        while waiting:
            ready = [at for at in sorted(waiting) if not self._made_of({at}, self._own)[1] & waiting - {at}]
            if not ready:
                raise UnreadableError("a loop carries what is made of each other: that goes round, and has no formula")
            self._recurrence(ready[0])
            waiting.remove(ready[0])
        after = (arg for node in self._of.all if node not in self._of.at for arg in node.all_input_nodes)
        self._made({self._of.at[arg][1] for arg in after if arg in self._of.at}, self._own)
        ends = [node for node in self._of.all if node.op == "output"]
        for node in ends:
            self._new.node_copy(node, self._copy)
        return [*self._new.nodes]

    def _is_written(self, at: int) -> bool:
        """Whether a node writes into what the iteration before wrote into."""
        node = self._of.body[1][at]
        return name_of(node) == "select_scatter" and self._of.at.get(node.args[0]) == (0, at)

    def _made_of(self, some: set[int], own: Mapping[int, Any]) -> tuple[set[int], set[int]]:
        """Return these nodes and all that they are made of, of this iteration and the last, without the known ones."""
        here, before, rest = set[int](), set[int](), [*some]
        while rest:
            at = rest.pop()
            if at not in here and at not in own:
                here.add(at)
                args = [self._of.at[arg] for arg in self._of.body[1][at].all_input_nodes if arg in self._of.at]
                before |= {place for iteration, place in args if iteration == 0}
                rest += [place for iteration, place in args if iteration == 1]
        return here, before

    def _recurrence(self, at: int) -> None:
        """Record a state: the results of all iterations, from those of the iterations before."""
        node, start = self._of.body[1][at], self._copy(self._of.starts[at])
        carried = self._carried[at] = self._marked(CARRIED, (start,), node)
        own = dict(self._own)
        self._made({at}, own)
        also = {each for each in own if each != at and at not in self._made_of({each}, self._own)[1]}
        self._own |= {each: own[each] for each in also}
        self._own[at] = self._marked(RECURRENCE, (carried, own[at]), node)
        del self._carried[at]  # its former value is known now

    def _made(self, some: set[int], own: dict[int, Any]) -> None:
        """Note nodes of the representative iteration, and those that they are made of."""
        for each in sorted(self._made_of(some, own)[0]):
            own[each] = self._iterated(each, self._of.body[1][each], own)

    def _iterated(self, at: int, node: Any, own: Mapping[int, Any]) -> Any:
        """Return one node of the representative iteration."""
        place = self._of.places.get(node)
        if place is not None and self._of.is_taken(node):
            table = self._turned_round(self._copy(place.table), place.dim, place.table, node)
            return self._marked(EACH, (table, place.dim), node)
        if self._is_written(at):  # all of it
            return self._marked(STACKED, (self._here(node.args[1], own), node.args[2]), node)
        places = range(len(node.args))
        counts = {each: self._of.counting[at, each] for each in places if (at, each) in self._of.counting}
        counted = {each: self._marked(COUNT, (more,), node) for each, more in counts.items()}
        copied = self._new.node_copy(node, lambda arg: self._here(arg, own))
        copied.args = tuple(counted.get(each, arg) for each, arg in enumerate(copied.args))
        return copied

    def _here(self, node: Any, own: Mapping[int, Any]) -> Any:
        """Return the new node in place of a node that the second iteration uses."""
        if node not in self._of.at:
            return self._copy(node)
        iteration, at = self._of.at[node]
        if iteration == 1:
            return own[at]
        if at not in self._carried:
            self._carried[at] = self._marked(BEFORE, (self._own[at], self._copy(self._of.starts[at])), node)
        return self._carried[at]

    def _copy(self, node: Any) -> Any:
        """Return the new node in place of a node outside of the loop."""
        if node in self._copies:
            return self._copies[node]
        if node in self._of.at and node not in self._of.places:
            iteration, at = self._of.at[node]
            if iteration != self._of.count - 1:
                raise NoLoopError
            own = self._own[at]
            if own.target is STACKED:  # in the order of the places
                return self._copies.setdefault(node, self._turned_round(own, own.args[1], node, node))
            return self._copies.setdefault(node, self._marked(LAST, (own,), node))
        found = self._gathered(node) or self._new.node_copy(node, self._copy)
        return self._copies.setdefault(node, found)

    def _gathered(self, node: Any) -> Any:
        """Return the results of all iterations, side by side."""
        if name_of(node) not in ("stack", "cat") or len(node.args[0]) != self._of.count:
            return None
        places = [self._of.at.get(each) for each in node.args[0]]
        at = places[0][1] if places[0] is not None else -1
        iterations = [(iteration, at) for iteration in range(self._of.count)]
        dim = node.args[1] if len(node.args) > 1 else 0
        marker = STACKED if name_of(node) == "stack" else JOINED
        if places == iterations:
            return self._marked(marker, (self._own[at], dim), node)
        # If an iteration had several places, all of them would be reversed.
        if places != iterations[::-1] or shape_of(node)[dim] != self._of.count:
            return None
        return self._flipped(self._marked(marker, (self._own[at], dim), node), dim, node, node)

    def _turned_round(self, found: Any, dim: int, like: Any, at: Any) -> Any:
        """Return a dimension's elements turned round if the loop runs backwards: from iterations to places or back."""
        return self._flipped(found, dim, like, at) if self._of.backwards else found

    def _flipped(self, found: Any, dim: int, like: Any, at: Any) -> Any:
        import torch

        flipped = self._new.create_node("call_function", torch.ops.aten.flip.default, (found, [dim]))
        flipped.meta = {**like.meta, "at": at.meta.get("at")}  # a line that calls it by no other name
        return flipped

    def _marked(self, marker: Marker, args: tuple[Any, ...], like: Any) -> Any:
        found = self._new.create_node("call_function", marker, args, {}, marker.name)
        found.meta = (
            dict(like.meta) if marker not in (BEFORE, COUNT) else {**like.meta, "at": None}
        )  # it is called otherwise
        return found


def word(node: Any) -> str:
    """Return a node's operation as text, without its numbers."""
    said = node.target.name if isinstance(node.target, Marker) else node.target
    return f"{node.op} {said}" if node.op == "call_function" else str(node.op)
