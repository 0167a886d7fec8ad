"""What an emitted kernel calculates: the nodes of a formula, their dtypes, and which of them share a loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fuzz.quality.emission.reductions import FUSED
from oracles.formula.contract import Contract
from oracles.formula.exact.counts import counted
from oracles.formula.node import SELECTS, TOLD
from oracles.formula.trace import REDUCTIONS, Node, Trace
from oracles.lazy import lazy
from oracles.op import Op
from oracles.summation import Summation
from oracles.tiers.reading import reading


@dataclass(frozen=True)
class Emission:
    """One kernel of an op, under a contract whose dtypes are all known."""

    op: Op
    contract: Contract
    way: int = 0
    """The number of the algorithms to use, among those that the contract allows."""
    fused: bool = False
    """Whether products go into sums unrounded where the contract allows it; otherwise the compiler decides."""
    turn: int = 0
    """Chooses the order of a sum whose order is left open, and whether it rounds at a point that is left open."""
    wide: bool = False
    """Whether inputs may be in f64."""

    @lazy
    def decided(self) -> Contract:
        """Return the contract, with the points that it leaves open decided."""
        return self.contract.decided(lambda: self.turn % 2 == 0)


@dataclass(frozen=True)
class LoopStage:
    """Values that one loop calculates, or a reduction by itself."""

    dims: frozenset[str]
    nodes: list[Node]


@dataclass(frozen=True)
class Plan:
    """What is calculated for cases that have exactly these optional inputs."""

    of: Emission
    given: frozenset[str]

    @lazy
    def trace(self) -> Trace:
        """Return the formula for these inputs."""
        op, ways = self.of.op, self.of.contract.algorithms
        inputs = {each.name for each in op.inputs if not each.optional or each.name in self.given}
        outputs = {each.name for each in op.outputs if not each.only_with or each.only_with in inputs}
        present = frozenset((*inputs, *outputs, *(each.name for each in op.parameters)))
        return reading(op, present, frozenset(), tuple(sorted(ways[self.of.way % len(ways)].items()))).trace

    @lazy
    def dims(self) -> Sequence[str]:
        """Return all dimensions, those whose extents follow from others last."""
        return sorted(self.trace.dims, key=[*self.trace.counts].__contains__)

    def dtype(self, node: Node) -> str:
        """Return the dtype that a node's values fit into, which is also the name of their C type."""
        if node.kind == "point" and (point := self.of.decided.point(self.called(node.args[0]))):
            return point.dtype.name
        if node.kind == "tensor":
            return "f64" if self.of.wide or node.label in self.of.op.integers else "f32"
        if node.kind == "take":
            return self.dtype(node.args[0])
        if not node.args or node.kind in TOLD or node in self.counted:
            return "f64"
        if node.kind == "ranked":
            return self.dtype(node.args[0])
        if node.is_exact:
            own = {self.dtype(arg) for arg in (node.args[1:] if node.kind == "where" else node.args)}
            return own.pop() if len(own) == 1 else "f64" if "f64" in own else "f32"
        return self.computed(node)

    @lazy
    def counted(self) -> frozenset[Node]:
        """Return the nodes calculated from positions and extents alone, which are exact."""
        return counted(self.trace, self.of.op.integers)

    def computed(self, node: Node) -> str:
        """Return the dtype that a node is calculated in."""
        if node in self.counted:
            return "f64"
        return self.of.contract.dtypes.get(self.called(node), self.of.contract.compute)

    def is_kept(self, node: Node) -> bool:
        """Whether its values are in f64 because inputs may be, and nothing calculates in f64."""
        return self.dtype(node) == "f64" and self._is_moved(node)

    def _is_moved(self, node: Node) -> bool:
        if not node.is_exact or not node.args or node.kind in TOLD or self.computed(node) == "f64":
            return node.kind == "tensor" and node.label not in self.of.op.integers
        among = node.args[1:] if node.kind == "where" else node.args[:1]
        return all(self._is_moved(arg) for arg in among if arg.args or arg.kind == "tensor")

    def called(self, node: Node) -> str:
        """Return the name of its local, or ''."""
        return self.trace.names.get(node, "")

    def order(self, node: Node) -> Summation:
        """Return the order of its terms."""
        return self.of.contract.order(self.called(node), node.label)

    @lazy
    def _started(self) -> Mapping[Node, Node]:
        """Return, by addition, its argument that is a sum and starts from the other argument."""
        if self.of.contract.addend == "last" or self.of.turn % 2 == 0:
            return {}
        found = dict[Node, Node]()
        for node in (each for each in self.trace.nodes if each.kind in ("add", "subtract")):
            among = (arg for arg in node.args if arg in self.trace.started)
            found.update((node, arg) for arg in among if self.computed(arg) == self.computed(node))
        return found

    @lazy
    def sums(self) -> Mapping[Node, Node]:
        """Return the node that is reduced to make a node, by the latter."""
        return {
            node: self._started.get(node, node)
            for node in self.nodes
            if node in self._started or node.kind in REDUCTIONS
        }

    @lazy
    def lines(self) -> Sequence[Node]:
        """Return the nodes that take all elements along a dimension and are not reductions: choices by order,
        recurrences."""
        return [node for node in self.nodes if node.kind in (*SELECTS, "scan")]

    @lazy
    def fused(self) -> Mapping[Node, Node]:
        """Return the product that goes into a sum unrounded, by that sum."""
        found = dict[Node, Node]()
        for node in self.trace.nodes if self.of.fused and self.of.contract.fused else ():
            if node.kind in ("add", "subtract", "sum", "dot") and self.computed(node) in FUSED:
                products = [node] if node.kind == "dot" else [arg for arg in node.args if arg.kind == "multiply"]
                alike = [each for each in products if self.computed(each) == self.computed(node)]
                if alike and node not in self._started:
                    found[node] = alike[0]
        return found

    def taken(self, node: Node) -> tuple[Node, ...]:
        """Return the nodes that are read to make a node."""
        if node in self._started:
            each = self._started[node]
            return *self.taken(each), *(arg for arg in node.args if arg is not each)
        product = self.fused.get(node)
        return node.args if product is None else (*product.args, *(arg for arg in node.args if arg is not product))

    @lazy
    def nodes(self) -> Sequence[Node]:
        """Return the nodes that are calculated, each after its arguments."""
        needed, waiting = set[Node](), list(self.trace.outputs.values())
        while waiting:
            node = waiting.pop()
            if node not in needed:
                needed.add(node)
                waiting += self.taken(node)
        return [node for node in self.trace.nodes if node in needed and node.args]

    @lazy
    def stages(self) -> Sequence[LoopStage]:
        """Return all stages, with loops as long as possible."""
        found = list[LoopStage]()
        for node in self.nodes:
            last = found[-1] if found else None
            takes = node.kind == "take" and last is not None and node.args[0] in last.nodes  # of all elements at once
            by_itself = (*self.sums, *self.lines)
            alone = node in by_itself or takes
            if alone or last is None or last.dims != node.dims or last.nodes[0] in by_itself:
                found.append(LoopStage(node.dims, [node]))
            else:
                last.nodes.append(node)
        return found

    @lazy
    def stage_of(self) -> Mapping[Node, int]:
        """Return the index of the stage that makes a node."""
        return {node: number for number, stage in enumerate(self.stages) for node in stage.nodes}
