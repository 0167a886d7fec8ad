"""A formula as a kernel in C: machine arithmetic in the dtypes, orders and algorithms that a contract declares.

The text is written from the graph alone, generic over ops, with a function for each set of optional inputs that a case
may have. What a contract leaves open is chosen: see `Emission`. Nothing here knows how it is compiled or run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from types import MappingProxyType

from fuzz.quality.emission import reductions
from fuzz.quality.emission.places import LoopPlaces, applied, converted, counted_as, definition, number
from fuzz.quality.emission.plan import Emission, LoopStage, Plan
from fuzz.quality.emission.prelude import HEAD, PLAIN, SATURATED
from fuzz.quality.emission.reductions import FUSED, rounded
from oracles.formula.node import CONTRACTIONS, SELECTS
from oracles.formula.trace import FormulaError, Kind, Node
from oracles.lazy import lazy
from oracles.op import Op
from oracles.operand import OUTER
from oracles.summation import AnyOrder

_OPERATORS: Mapping[Kind, str] = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}


@dataclass(frozen=True)
class Variant:
    """The function for cases that have exactly these optional inputs."""

    of: Emission
    given: frozenset[str]

    @property
    def name(self) -> str:
        """The name of the function."""
        return "_".join(("given", *sorted(self.given))) if self.given else "plain"

    @lazy
    def _plan(self) -> Plan:
        return Plan(self.of, self.given)

    @lazy
    def text(self) -> str:
        """Return the function's text."""
        op, places = self.of.op, self._places
        held = [(self._plan.dtype(node), array, places.count(node.dims)) for node, array in self._arrays.items()]
        longest = " + ".join({places.count(each.over): None for each in (*self._plan.sums.values(), *self._plan.lines)})
        held += [(dtype, f"{what}_{dtype}", longest) for what, dtype in self._scratch]
        lines = [
            f"static __attribute__((noinline)) int {self.name}(const kf_{op.name}_call *call) {{",
            *(line for dim in self._plan.dims for line in self._measured(dim)),
            *(f"    {dtype} *{name} = malloc((size_t)({count} + 1) * sizeof({dtype}));" for dtype, name, count in held),
            *(line for stage in self._plan.stages for line in self._made(stage)),
            *(line for output in self._plan.trace.outputs for line in self._stored(output)),
            *(f"    free({name});" for _, name, _ in held),
        ]
        return "\n".join([*lines, "    return KF_OK;", "}", ""])

    @lazy
    def _places(self) -> LoopPlaces:
        return LoopPlaces(self._plan.trace.dims)

    def _measured(self, dim: str) -> Iterator[str]:
        """Yield the extent of a dimension, from the first tensor that has it."""
        if dim in self._plan.trace.counts:
            yield f"    const int64_t {LoopPlaces.extent(dim)} = (int64_t)({counted_as(self._plan.trace.counts[dim])});"
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
        """Return the texts of the functions that it calls."""
        found = dict[str, None]()
        for node in self._plan.nodes:
            dtype = self._plan.dtype(node)
            if node.kind == "function":
                found[definition(node.function.reciprocal_of or node.label, dtype)] = None
            if node.kind in SELECTS:
                found[reductions.ordered(self._plan.dtype(node.args[0]))] = None
            if node.kind == "scan":
                order, turn = self._plan.order(node), self.of.turn
                fused = self.of.fused and self.of.contract.fused
                found[reductions.recurrence(self._called(node), dtype, order, fused=fused, turn=turn)] = None
            if node in self._plan.sums:
                each = self._plan.sums[node]
                found[reductions.tree(dtype)] = None
                found[
                    reductions.reduction(
                        "sum" if each.kind in CONTRACTIONS else each.kind, self._called(each), dtype,
                        self._plan.order(each), fused=each in self._plan.fused, turn=self.of.turn,
                    )
                ] = None  # fmt: skip
        return tuple(found)

    @lazy
    def _names(self) -> Mapping[Node, str]:
        return {node: f"{self._plan.called(node) or node.kind}_{at}" for at, node in enumerate(self._plan.nodes)}

    @lazy
    def _arrays(self) -> Mapping[Node, str]:
        """Return the arrays of values that are used outside the loop that makes them."""
        kept = {node for node in self._plan.trace.outputs.values() if node.args}
        for node in self._plan.nodes:
            kept.update(
                arg
                for arg in self._plan.taken(node)
                if arg.args and self._plan.stage_of[arg] != self._plan.stage_of[node]
            )
        return {
            node: f"{self._names[node]}s"
            for node in self._plan.nodes
            if node in (*kept, *self._plan.sums, *self._plan.lines)
        }

    @lazy
    def _scratch(self) -> Sequence[tuple[str, str]]:
        """Return the arrays for the terms of one reduction at a time, by name and dtype."""
        known = [("terms", self._plan.dtype(node)) for node in self._plan.sums]
        for node in self._plan.lines:
            if node.kind == "scan":
                known += [(what, self._plan.dtype(node)) for what in ("terms", "others")]
            else:
                known += [("terms", self._plan.dtype(node.args[0])), ("order", "int64_t")]
        fused = [
            ("others", self._plan.dtype(node)) for node, each in self._plan.sums.items() if each in self._plan.fused
        ]
        return tuple(dict.fromkeys([*known, *fused]))

    def _made(self, stage: LoopStage) -> Iterator[str]:
        """Yield the loop that makes the values of a stage."""
        if stage.nodes[0] in self._plan.sums:
            yield from self._places.looped(stage.dims, self._reduced(stage.nodes[0]))
            return
        if stage.nodes[0].kind == "scan":
            outer = stage.dims - {stage.nodes[0].label}
            yield from self._places.looped(outer, self._recurred(stage.nodes[0]))
            return
        if stage.nodes[0] in self._plan.lines:
            table, rank = stage.nodes[0].args
            outer = table.dims - rank.dims - {stage.nodes[0].label}
            yield from self._places.looped(outer, self._selected(stage.nodes[0]))
            return
        lines = list[str]()
        for node in stage.nodes:
            lines.append(f"const {self._plan.dtype(node)} {self._names[node]} = {self._expression(node)};")
            if node in self._arrays:
                lines.append(f"{self._arrays[node]}[{self._places.index(node.dims)}] = {self._names[node]};")
        yield from self._places.looped(stage.dims, lines)

    def _selected(self, node: Node) -> list[str]:
        """Return lines that sort all elements once, and then pick one for each rank."""
        (table, rank), places = node.args, self._places
        dtype, count = self._plan.dtype(table), places.count(node.over)
        terms = [f"terms_{dtype}[{places.within(node.over)}] = {self._value(table, node, dtype)};"]
        found = reductions.selected(node, dtype, count, self._value(rank, node, "f64"))
        each = [f"{self._arrays[node]}[{places.index(node.dims)}] = {found};"]
        ordered = reductions.ordering(node, dtype, count, self.of.turn)
        return [*places.loops(node.over, terms), ordered, *places.loops(rank.dims, each)]

    def _recurred(self, node: Node) -> list[str]:
        """Return lines that put the factors and the addends into two rows, and replace the second by the results."""
        places, dtype = self._places, self._plan.dtype(node)
        a, b, start = (self._as_taken(node, arg, node) for arg in node.args)
        at, rows = places.within(node.over), (f"terms_{dtype}", f"others_{dtype}")
        terms = [f"{name}[{at}] = {part};" for name, part in zip(rows, (a, b), strict=True)]
        kept = f"{self._arrays[node]}[{places.index(node.dims)}] = {rows[1]}[{at}];"
        call = f"{self._called(node)}({', '.join(rows)}, {start}, {places.count(node.over)});"
        return [*places.loops(node.over, terms), call, *places.loops(node.over, [kept])]

    def _reduced(self, node: Node) -> list[str]:
        of = self._plan.sums[node]
        dtype, product, places = self._plan.dtype(node), self._plan.fused.get(of), self._places
        if product is not None:
            parts = [self._as_taken(product, arg, node) for arg in product.args]
        elif of.kind in CONTRACTIONS:  # a kernel may scale again by only some of them
            parts = [rounded(dtype, " * ".join(self._as_taken(of, arg, node) for arg in of.args[:2]))]
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
        operand, node = self.of.op.operand(output), self._plan.trace.outputs[output]
        wide = self._plan.dtype(node) == "f64"
        value = self._value(node, None, "f64" if wide else "f32")
        place = self._places.within(operand.axes)
        way = "kept" if self._plan.is_kept(node) else "f64" if wide else "f32"
        line = f"store_{way}(&call->{output}, {place}, {value});"
        lines = self._places.looped(operand.axes, [line])
        yield from [f"    if (call->{output}.data)", *(f"    {line}" for line in lines)] if operand.optional else lines

    def _expression(self, node: Node) -> str:
        """Return the value of an elementwise node."""
        kind, dtype = node.kind, self._plan.dtype(node)
        if kind == "take":
            table, index = node.args[0], self._value(node.args[1], node, "f64")
            found = self._value(table, node, dtype, {node.label: f"(int64_t)({index})"})
            if len(node.args) == 2:
                return found
            inside = f"{index} >= 0 && {index} < {LoopPlaces.extent(node.label)} && {index} == floor({index})"
            return f"{inside} ? {found} : {self._value(node.args[2], node, dtype)}"
        args = [self._as_taken(node, arg, node) for arg in node.args if node not in self._plan.fused]
        if node in self._plan.fused:
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
        """Return an elementary function of an argument."""
        inner = node.function.reciprocal_of
        if inner:
            return rounded(dtype, f"1 / {rounded(dtype, applied(inner, dtype, arg))}")
        value = applied(node.label, dtype, arg, node.value)
        return value if node.is_exact else rounded(dtype, value)

    def _fused_sum(self, node: Node) -> str:
        product, dtype = self._plan.fused[node], self._plan.dtype(node)
        a, b = (self._as_taken(product, arg, node) for arg in product.args)
        place = node.args.index(product)
        other = self._as_taken(node, node.args[1 - place], node)
        if node.kind == "subtract":
            a, other = (f"-({a})", other) if place else (a, f"-({other})")
        return f"{FUSED[dtype]}({a}, {b}, {other})"

    def _as_taken(self, node: Node, arg: Node, place: Node) -> str:
        """Return an argument in the dtype of the operation that takes it, in the loop that makes `place`."""
        return self._value(arg, place, self._plan.dtype(arg) if node.is_exact else self._plan.computed(node))

    def _value(
        self, node: Node, place: Node | None, dtype: str, taken: Mapping[str, str] = MappingProxyType({})
    ) -> str:
        """Return a value in a dtype; None in place of a node is the loop that stores outputs. For `taken` see
        `LoopPlaces.index`."""
        if node.kind == "tensor":
            return f"load_{dtype}(&call->{node.label}, {self._element(node, taken)})"
        if not node.args:
            return converted(number(node), "f64", dtype)
        here = place is not None and self._plan.stage_of[place] == self._plan.stage_of[node]
        held = self._names[node] if here else f"{self._arrays[node]}[{self._places.index(node.dims, taken)}]"
        if dtype != "f64" and self._plan.is_kept(node):
            return f"kept_{dtype}({held})"
        return converted(held, self._plan.dtype(node), dtype)

    def _element(self, tensor: Node, taken: Mapping[str, str]) -> str:
        """Return the index of a tensor's element in memory."""
        op = self.of.op
        if OUTER in tensor.dims and tensor.label in op.columns:
            return f"column(&call->{tensor.label}, r, {LoopPlaces.variable(op.row)}, {LoopPlaces.extent(op.row)})"
        return self._places.within(op.operand(tensor.label).axes, taken)

    def _called(self, node: Node) -> str:
        """Return the name of the function that reduces its terms."""
        order = self._plan.order(node)
        words = re.sub(r"[a-z]+=|\W+", " ", repr(order)).lower().split()
        if node.kind == "max":
            words = []
        elif isinstance(order, AnyOrder):
            words = [f"any{self.of.turn % 3}"]
        kind = "sum" if node.kind in CONTRACTIONS else node.kind
        return "_".join([kind, *words, self._plan.dtype(node), *(["fused"] if node in self._plan.fused else [])])


def source(of: Emission) -> str:
    """Return the whole file. Raises FormulaError for a formula that has no such kernel."""
    variants = [Variant(of, given) for given in _given(of.op)]
    shared = dict.fromkeys(text for each in variants for text in each.functions)
    bodies = "\n".join(each.text for each in variants)
    about = f"/* {of.op.name}: written from its formula, for {of.contract}. */\n"
    saturated = SATURATED if of.contract.saturate else PLAIN
    return "".join([about, saturated, HEAD, *shared, "\n", bodies, "\n", _entry(of, variants)])


def _given(op: Op) -> Sequence[frozenset[str]]:
    """Return each set of optional inputs."""
    optional = [each.name for each in op.inputs if each.optional]
    subsets = chain.from_iterable(combinations(optional, count) for count in range(len(optional) + 1))
    return [frozenset(each) for each in subsets]


def _entry(of: Emission, variants: Sequence[Variant]) -> str:
    """Return the entry function, which picks the variant, and has the processor flush subnormal numbers where the
    contract allows it."""
    bits = (0x8000 if of.contract.flushes_results else 0) | (0x40 if of.contract.flushes_operands else 0)
    flush = [
        "    const unsigned before = __builtin_ia32_stmxcsr();",
        f"    __builtin_ia32_ldmxcsr(before | 0x{bits:x});",
    ]
    lines = [f"int kf_{of.op.name}(const kf_{of.op.name}_call *call) {{", "    int done = KF_REJECTED;"]
    lines += _guarded(flush if bits else [])
    for variant in variants:
        there = [
            f"{'' if each.name in variant.given else '!'}call->{each.name}.data"
            for each in of.op.inputs
            if each.optional
        ]
        lines += [f"    if ({' && '.join(there) or '1'})", f"        done = {variant.name}(call);"]
    back = _guarded(["    __builtin_ia32_ldmxcsr(before);"] if bits else [])
    return "\n".join([*lines, *back, "    return done;", "}", ""])


def _guarded(lines: list[str]) -> list[str]:
    """Return lines that only processors with SSE understand, guarded; on others nothing is flushed."""
    return ["#ifdef __SSE2__", *lines, "#endif"] if lines else []
