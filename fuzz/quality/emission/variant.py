"""One function of an emitted kernel: for the cases that have just these optional inputs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from fuzz.quality.emission import reductions, selection
from fuzz.quality.emission.places import LoopPlaces, applied, converted, counted_as, definition, number
from fuzz.quality.emission.reductions import FUSED, rounded
from oracles.formula.contract import Contract
from oracles.formula.exact.counts import counted
from oracles.formula.node import SELECTS, TOLD
from oracles.formula.tiers.reading import reading
from oracles.formula.trace import REDUCTIONS, FormulaError, Kind, Node, Trace
from oracles.lazy import lazy
from oracles.op import Op
from oracles.operand import OUTER
from oracles.summation import Summation

_OPERATORS: Mapping[Kind, str] = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}


@dataclass(frozen=True)
class Emission:
    """One kernel of an op, under a contract whose dtypes are all known."""

    op: Op
    contract: Contract
    way: int = 0
    """Which of the algorithms that the contract allows."""
    fused: bool = False
    """Whether products go into sums unrounded where the contract allows it; else only where a compiler sees to it."""
    turn: int = 0
    """Which order a sum has whose order is left open, and whether it rounds at a point that is."""
    wide: bool = False
    """Whether inputs may be in f64."""

    @lazy
    def decided(self) -> Contract:
        """The contract, with what it leaves open of points decided."""
        return self.contract.decided(lambda: self.turn % 2 == 0)


@dataclass(frozen=True)
class Stage:
    """Some values that one loop makes, or a reduction by itself."""

    dims: frozenset[str]
    nodes: list[Node]


@dataclass(frozen=True)
class Variant:
    """The function for cases that have just these optional inputs."""

    of: Emission
    given: frozenset[str]

    @property
    def name(self) -> str:
        """The name of the function."""
        return "_".join(("given", *sorted(self.given))) if self.given else "plain"

    @lazy
    def trace(self) -> Trace:
        """The formula for these inputs."""
        op, ways = self.of.op, self.of.contract.algorithms
        inputs = {each.name for each in op.inputs if not each.optional or each.name in self.given}
        outputs = {each.name for each in op.outputs if not each.only_with or each.only_with in inputs}
        present = frozenset((*inputs, *outputs, *(each.name for each in op.parameters)))
        return reading(op, present, frozenset(), tuple(sorted(ways[self.of.way % len(ways)].items()))).trace

    @lazy
    def text(self) -> str:
        """The function."""
        op, places = self.of.op, self._places
        held = [(self.dtype(node), array, places.count(node.dims)) for node, array in self._arrays.items()]
        longest = " + ".join({places.count(each.over): None for each in (*self._sums.values(), *self._selects)})
        held += [(dtype, f"{what}_{dtype}", longest) for what, dtype in self._scratch]
        lines = [
            f"static __attribute__((noinline)) int {self.name}(const kf_{op.name}_call *call) {{",
            *(line for dim in self.trace.dims for line in self._measured(dim)),
            *(f"    {dtype} *{name} = malloc((size_t)({count} + 1) * sizeof({dtype}));" for dtype, name, count in held),
            *(line for stage in self._stages for line in self._made(stage)),
            *(line for output in self.trace.outputs for line in self._stored(output)),
            *(f"    free({name});" for _, name, _ in held),
        ]
        return "\n".join([*lines, "    return KF_OK;", "}", ""])

    @lazy
    def _places(self) -> LoopPlaces:
        return LoopPlaces(self.trace.dims)

    def _measured(self, dim: str) -> Iterator[str]:
        """The extent of a dimension, of the first tensor that has it."""
        if dim in self.trace.counts:
            yield f"    const int64_t {LoopPlaces.extent(dim)} = (int64_t)({counted_as(self.trace.counts[dim])});"
            return
        there = [each for each in self.of.op.inputs if not each.optional or each.name in self.given]
        tensor = next(each for each in (*there, *self.of.op.outputs) if dim in each.axes)
        named = [each for each in tensor.axes if each != OUTER]
        call = f"call->{tensor.name}"
        if dim != OUTER:
            place = f"{call}.rank - {len(named) - named.index(dim)}"
            yield f"    const int64_t {LoopPlaces.extent(dim)} = {call}.shape[{place}];"
            return
        yield f"    int64_t {LoopPlaces.extent(dim)} = 1;"
        yield f"    for (int axis = 0; axis < {call}.rank - {len(named)}; axis++)"
        yield f"        {LoopPlaces.extent(dim)} *= {call}.shape[axis];"

    @lazy
    def functions(self) -> tuple[str, ...]:
        """The texts of the functions that it calls."""
        found = dict[str, None]()
        for node in self._made_nodes:
            dtype = self.dtype(node)
            if node.kind == "function":
                found[definition(node.function.reciprocal_of or node.label, dtype)] = None
            if node in self._selects:
                found[selection.ordered(self.dtype(node.args[0]))] = None
            if node in self._sums:
                each = self._sums[node]
                found[reductions.tree(dtype)] = None
                found[
                    reductions.reduction(
                        "sum" if each.kind == "dot" else each.kind, self._called(each), dtype, self._order(each),
                        fused=each in self._fused, turn=self.of.turn,
                    )
                ] = None  # fmt: skip
        return tuple(found)

    def dtype(self, node: Node) -> str:
        """What a node's values fit into, which is also the name of their type."""
        if node.kind == "point" and (point := self.of.decided.point(self._called_by(node.args[0]))):
            return point.dtype.name
        if node.kind == "tensor":
            return "f64" if self.of.wide or node.label in self.of.op.integers else "f32"
        if node.kind == "take":
            return self.dtype(node.args[0])
        if not node.args or node.kind in TOLD or node in self._counted:
            return "f64"
        if node.kind == "ranked":
            return self.dtype(node.args[0])
        if node.is_exact:
            own = {self.dtype(arg) for arg in (node.args[1:] if node.kind == "where" else node.args)}
            return own.pop() if len(own) == 1 else "f64" if "f64" in own else "f32"
        return self._computed(node)

    @lazy
    def _counted(self) -> frozenset[Node]:
        return counted(self.trace, self.of.op.integers)

    def _computed(self, node: Node) -> str:
        """The dtype that a node is calculated in."""
        if node in self._counted:
            return "f64"
        return self.of.contract.dtypes.get(self._called_by(node), self.of.contract.compute)

    def _is_kept(self, node: Node) -> bool:
        """Whether its values are in f64 for the sake of inputs that may be so, and nothing calculates in it."""
        return self.dtype(node) == "f64" and self._is_moved(node)

    def _is_moved(self, node: Node) -> bool:
        if not node.is_exact or not node.args or node.kind in TOLD or self._computed(node) == "f64":
            return node.kind == "tensor" and node.label not in self.of.op.integers
        among = node.args[1:] if node.kind == "where" else node.args[:1]
        return all(self._is_moved(arg) for arg in among if arg.args or arg.kind == "tensor")

    def _called_by(self, node: Node) -> str:
        return self.trace.names.get(node, "")

    @lazy
    def _started(self) -> Mapping[Node, Node]:
        """The sum that starts as what is added to it, by that addition."""
        if self.of.contract.addend == "last" or self.of.turn % 2 == 0:
            return {}
        found = dict[Node, Node]()
        for node in (each for each in self.trace.nodes if each.kind in ("add", "subtract")):
            among = (arg for arg in node.args if arg in self.trace.started)
            found.update((node, arg) for arg in among if self._computed(arg) == self._computed(node))
        return found

    @lazy
    def _sums(self) -> Mapping[Node, Node]:
        """What is reduced to make a node, by those that are made so."""
        return {
            node: self._started.get(node, node)
            for node in self._made_nodes
            if node in self._started or node.kind in REDUCTIONS
        }

    @lazy
    def _selects(self) -> Sequence[Node]:
        """What is chosen by order, among all elements along a dimension."""
        return [node for node in self._made_nodes if node.kind in SELECTS]

    @lazy
    def _fused(self) -> Mapping[Node, Node]:
        """The product that goes into a sum unrounded, by that sum."""
        found = dict[Node, Node]()
        for node in self.trace.nodes if self.of.fused and self.of.contract.fused else ():
            if node.kind in ("add", "subtract", "sum", "dot") and self._computed(node) in FUSED:
                products = [node] if node.kind == "dot" else [arg for arg in node.args if arg.kind == "multiply"]
                alike = [each for each in products if self._computed(each) == self._computed(node)]
                if alike and node not in self._started:
                    found[node] = alike[0]
        return found

    def _taken(self, node: Node) -> tuple[Node, ...]:
        """What is read to make a node."""
        if node in self._started:
            each = self._started[node]
            return *self._taken(each), *(arg for arg in node.args if arg is not each)
        product = self._fused.get(node)
        return node.args if product is None else (*product.args, *(arg for arg in node.args if arg is not product))

    @lazy
    def _made_nodes(self) -> Sequence[Node]:
        """The nodes that are calculated, each after what it is made of."""
        needed, waiting = set[Node](), list(self.trace.outputs.values())
        while waiting:
            node = waiting.pop()
            if node not in needed:
                needed.add(node)
                waiting += self._taken(node)
        return [node for node in self.trace.nodes if node in needed and node.args]

    @lazy
    def _stages(self) -> Sequence[Stage]:
        found = list[Stage]()
        for node in self._made_nodes:
            last = found[-1] if found else None
            takes = node.kind == "take" and last is not None and node.args[0] in last.nodes  # of all elements at once
            by_itself = (*self._sums, *self._selects)
            alone = node in by_itself or takes
            if alone or last is None or last.dims != node.dims or last.nodes[0] in by_itself:
                found.append(Stage(node.dims, [node]))
            else:
                last.nodes.append(node)
        return found

    @lazy
    def _stage_of(self) -> Mapping[Node, int]:
        return {node: number for number, stage in enumerate(self._stages) for node in stage.nodes}

    @lazy
    def _names(self) -> Mapping[Node, str]:
        return {node: f"{self._called_by(node) or node.kind}_{at}" for at, node in enumerate(self._made_nodes)}

    @lazy
    def _arrays(self) -> Mapping[Node, str]:
        """The arrays of what is used outside of the loop that makes it."""
        kept = {node for node in self.trace.outputs.values() if node.args}
        for node in self._made_nodes:
            kept.update(arg for arg in self._taken(node) if arg.args and self._stage_of[arg] != self._stage_of[node])
        return {
            node: f"{self._names[node]}s" for node in self._made_nodes if node in (*kept, *self._sums, *self._selects)
        }

    @lazy
    def _scratch(self) -> Sequence[tuple[str, str]]:
        """Arrays for the terms of one reduction at a time, by name and dtype."""
        known = [("terms", self.dtype(node)) for node in self._sums]
        for node in self._selects:
            known += [("terms", self.dtype(node.args[0])), ("order", "int64_t")]
        fused = [("others", self.dtype(node)) for node, each in self._sums.items() if each in self._fused]
        return tuple(dict.fromkeys([*known, *fused]))

    def _made(self, stage: Stage) -> Iterator[str]:
        """The loop that makes the values of a stage."""
        if stage.nodes[0] in self._sums:
            yield from self._places.looped(stage.dims, self._reduced(stage.nodes[0]))
            return
        if stage.nodes[0] in self._selects:
            table, rank = stage.nodes[0].args
            outer = table.dims - rank.dims - {stage.nodes[0].label}
            yield from self._places.looped(outer, self._selected(stage.nodes[0]))
            return
        lines = list[str]()
        for node in stage.nodes:
            lines.append(f"const {self.dtype(node)} {self._names[node]} = {self._expression(node)};")
            if node in self._arrays:
                lines.append(f"{self._arrays[node]}[{self._places.index(node.dims)}] = {self._names[node]};")
        yield from self._places.looped(stage.dims, lines)

    def _selected(self, node: Node) -> list[str]:
        """All elements in order once, then one for each rank."""
        (table, rank), places = node.args, self._places
        dtype, count = self.dtype(table), places.count(node.over)
        terms = [f"terms_{dtype}[{places.within(node.over)}] = {self._value(table, node, dtype)};"]
        found = selection.selected(node, dtype, count, self._value(rank, node, "f64"))
        each = [f"{self._arrays[node]}[{places.index(node.dims)}] = {found};"]
        ordered = selection.call(node, dtype, count, self.of.turn)
        return [*places.loops(node.over, terms), ordered, *places.loops(rank.dims, each)]

    def _reduced(self, node: Node) -> list[str]:
        of = self._sums[node]
        dtype, product, places = self.dtype(node), self._fused.get(of), self._places
        if product is not None:
            parts = [self._as_taken(product, arg, node) for arg in product.args]
        elif of.kind == "dot":
            parts = [rounded(dtype, " * ".join(self._as_taken(of, arg, node) for arg in of.args))]
        else:
            parts = [self._as_taken(of, of.args[0], node)]
        scratch = [f"{what}_{dtype}" for what in ("terms", "others")[: len(parts)]]
        at, extent, first, turned = places.within(of.over), places.count(of.over), list[str](), ""
        if of is not node:  # one term more
            place, minus = node.args.index(of), "-" if node.kind == "subtract" else ""
            at, extent, turned = f"{at} + 1", f"{extent} + 1", minus if place else ""
            start = f"{minus}({self._as_taken(of, node.args[1 - place], node)})"
            first = [f"{name}[0] = {part};" for name, part in zip(scratch, (start, "1"), strict=False)]
        terms = [f"{name}[{at}] = {part};" for name, part in zip(scratch, parts, strict=True)]
        into = f"{self._arrays[node]}[{places.index(node.dims)}]"
        return [
            *first,
            *places.loops(of.over, terms),
            f"{into} = {turned}{self._called(of)}({', '.join(scratch)}, {extent});",
        ]

    def _stored(self, output: str) -> Iterator[str]:
        operand, node = self.of.op.operand(output), self.trace.outputs[output]
        wide = self.dtype(node) == "f64"
        value = self._value(node, None, "f64" if wide else "f32")
        place = self._places.within(operand.axes)
        line = (
            f"store_{'kept' if self._is_kept(node) else 'f64' if wide else 'f32'}(&call->{output}, {place}, {value});"
        )
        lines = self._places.looped(operand.axes, [line])
        yield from [f"    if (call->{output}.data)", *(f"    {line}" for line in lines)] if operand.optional else lines

    def _expression(self, node: Node) -> str:
        """The value of an elementwise node."""
        kind, dtype = node.kind, self.dtype(node)
        if kind == "take":
            table, index = node.args[0], self._value(node.args[1], node, "f64")
            found = self._value(table, node, dtype, {node.label: f"(int64_t)({index})"})
            if len(node.args) == 2:
                return found
            inside = f"{index} >= 0 && {index} < {LoopPlaces.extent(node.label)} && {index} == floor({index})"
            return f"{inside} ? {found} : {self._value(node.args[2], node, dtype)}"
        args = [self._as_taken(node, arg, node) for arg in node.args if node not in self._fused]
        if node in self._fused:
            return self._fused_sum(node)
        if kind == "divide" and node.args[1].kind == "extent" and self.of.contract.mean == "reciprocal":
            return rounded(dtype, f"{args[0]} * {rounded(dtype, f'(1 / {args[1]})')}")
        if kind in _OPERATORS:
            return rounded(dtype, f"{args[0]} {_OPERATORS[kind]} {args[1]}")
        if kind == "function":
            return self._applied(node, dtype, args[0])
        if kind == "where":
            return f"{args[0]} != 0 ? {args[1]} : {args[2]}"
        if kind in ("at_most", "less"):
            return f"{args[0]} {'<=' if kind == 'at_most' else '<'} {args[1]}"
        if kind == "point":
            return self._value(node.args[0], node, dtype)
        if kind != "negate":
            raise FormulaError(f"{self.of.op.name}: {kind} is not written in C")
        return f"-{args[0]}"

    def _applied(self, node: Node, dtype: str, arg: str) -> str:
        """An elementary function of an argument."""
        inner = node.function.reciprocal_of
        if inner:
            return rounded(dtype, f"1 / {rounded(dtype, applied(inner, dtype, arg))}")
        value = applied(node.label, dtype, arg, node.value)
        return value if node.is_exact else rounded(dtype, value)

    def _fused_sum(self, node: Node) -> str:
        product, dtype = self._fused[node], self.dtype(node)
        a, b = (self._as_taken(product, arg, node) for arg in product.args)
        place = node.args.index(product)
        other = self._as_taken(node, node.args[1 - place], node)
        if node.kind == "subtract":
            a, other = (f"-({a})", other) if place else (a, f"-({other})")
        return f"{FUSED[dtype]}({a}, {b}, {other})"

    def _as_taken(self, node: Node, arg: Node, place: Node) -> str:
        """An argument in the dtype of the operation that takes it, where `place` is made."""
        return self._value(arg, place, self.dtype(arg) if node.is_exact else self._computed(node))

    def _value(
        self, node: Node, place: Node | None, dtype: str, taken: Mapping[str, str] = MappingProxyType({})
    ) -> str:
        """Return a value in a dtype; None in place of a node is the loop that stores outputs. For `taken` see
        `LoopPlaces.index`."""
        if node.kind == "tensor":
            return f"load_{dtype}(&call->{node.label}, {self._element(node, taken)})"
        if not node.args:
            return converted(number(node), "f64", dtype)
        here = place is not None and self._stage_of[place] == self._stage_of[node]
        held = self._names[node] if here else f"{self._arrays[node]}[{self._places.index(node.dims, taken)}]"
        if dtype != "f64" and self._is_kept(node):
            return f"kept_{dtype}({held})"
        return converted(held, self.dtype(node), dtype)

    def _element(self, tensor: Node, taken: Mapping[str, str]) -> str:
        """The place of a tensor's element in memory."""
        op = self.of.op
        if OUTER in tensor.dims and tensor.label in op.columns:
            return f"column(&call->{tensor.label}, r, {LoopPlaces.variable(op.row)}, {LoopPlaces.extent(op.row)})"
        return self._places.within(op.operand(tensor.label).axes, taken)

    def _order(self, node: Node) -> Summation:
        return self.of.contract.order(self._called_by(node), node.label)

    def _called(self, node: Node) -> str:
        """The name of the function that reduces its terms."""
        words = re.sub(r"[a-z]+=|\W+", " ", repr(self._order(node))).lower().split()
        order = (
            [f"{words[0]}{self.of.turn % 3}" if words[0] == "any" else "_".join(words)] if node.kind != "max" else []
        )
        kind = "sum" if node.kind == "dot" else node.kind
        return "_".join([kind, *order, self.dtype(node), *(["fused"] if node in self._fused else [])])
