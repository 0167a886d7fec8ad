"""Platforms: documented facts about the arithmetic of kernels. They apply where a kernel declares nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Literal

from oracles import summation
from oracles.algorithm import traced
from oracles.elementary.functions import records
from oracles.formula.contract import DIVIDE, FLUSHES_BF16, MAYBE, Besides, Contract, Denormals, Within, wider
from oracles.formula.node import CONTRACTIONS, Node
from oracles.formula.trace import REDUCTIONS, ordered, run
from oracles.op import Op


@dataclass(frozen=True)
class Inherited:
    """The function may be calculated from others, see `Contract.inherited`."""

    words: str
    """The others, as an expression."""

    def __str__(self) -> str:
        return f"as {self.words}"


class May(StrEnum):
    """What a fact allows beyond a number, in the words of a listing."""

    UNSPECIFIED = "not judged"
    """Nothing is said about NaN, infinities and overflow, see `Contract.nonfinite`."""
    ANY_ORDER = "in any order"
    """Sums may be in any order."""
    EITHER_SIGN = "of either sign, where nothing is declared"
    """A zero that a function returns may have either sign, if the kernel's author declares nothing at all."""
    TF32 = "in TF32, where the source says so"
    """Matrix products take f32 operands as TF32, if the kernel's source asks for it."""
    FLUSH_BF16 = "with subnormals of bf16 flushed"
    """The function flushes subnormal numbers if an operand is bf16, on processors with certain instructions."""
    FLUSH = "may be zero"
    """Any operation may replace subnormal numbers by zero."""


@dataclass(frozen=True)
class Usual:
    """A fact, in words, that every contract includes anyway. It is listed because it holds on this platform as well."""

    words: str

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True)
class Fact:
    """One documented fact of a platform."""

    platform: str
    about: str
    """A function, "divide", or another subject of the fact."""
    value: Within | Besides | Inherited | May | Usual
    source: str


@dataclass(frozen=True)
class Platform:
    """The documented facts about the arithmetic of one platform."""

    name: str
    facts: tuple[Fact, ...]

    @cached_property
    def documented(self) -> Mapping[str, Within]:
        """The documented bounds of functions, by name."""
        found = dict[str, Within]()
        for each in self.facts:
            if isinstance(each.value, Within):
                found[each.about] = each.value.wider(found.get(each.about, each.value))
        return found

    @cached_property
    def accuracy(self) -> Mapping[str, Within]:
        """The documented bounds of functions that are wider than a contract's default ones, by name."""
        return self._wider(self.documented)

    def _wider(self, names: Collection[str]) -> Mapping[str, Within]:
        """Return the documented bounds of these functions alone: a record is loaded for each."""
        plain = Contract()
        wider = {name: bound.wider(plain.bound(name)) for name, bound in self.documented.items() if name in names}
        return {name: bound for name, bound in wider.items() if bound != plain.bound(name)}

    @cached_property
    def absolute(self) -> Mapping[str, float | Besides]:
        """The additional absolute errors of functions, by name, as contracts state them."""
        return {each.about: each.value.plain for each in self.facts if isinstance(each.value, Besides)}

    def inherited(self, used: Collection[str]) -> tuple[str, ...]:
        """Return those of the functions, and of the functions that they are made of, that may be made of others."""
        known, found = [each.about for each in self.facts if isinstance(each.value, Inherited)], tuple[str, ...]()
        while (names := tuple(name for name in known if name in {*used, *found, *parts_of(found)})) != found:
            found = names
        return found

    @cached_property
    def flushing_bf16(self) -> frozenset[str]:
        """The functions that may flush subnormal numbers of bf16."""
        return frozenset(each.about for each in self.facts if each.value is May.FLUSH_BF16)

    @property
    def flushes(self) -> bool:
        """Whether any operation may flush subnormal numbers."""
        return any(each.value is May.FLUSH for each in self.facts)

    def completed(
        self, contract: Contract, op: Op, dtypes: Collection[str] = (), *, asks_tf32: bool = False
    ) -> Contract:
        """Return a kernel's contract completed by the platform's facts, for a kernel that takes these dtypes. A fact
        applies if the contract says nothing about a function of the op, about the order of a sum, or about subnormal
        numbers. Products in TF32 are allowed if the kernel's source asks for it, except for kernels that are judged by
        a reference, whose author said nothing about it."""
        contract = _with_open_ways(contract, op)
        if contract.platform == "none":
            return contract
        widens, used = contract.platform == "widens", operations(op)
        inherited = tuple(dict.fromkeys((*contract.inherited, *self.inherited(used))))
        used |= parts_of(inherited)
        said = () if widens else (*contract.accuracy, *contract.absolute)
        accuracy = self._wider(used - {*said})
        absolute = {name: error for name, error in self.absolute.items() if name in used and name not in said}
        if widens:
            accuracy = {name: bound.wider(contract.bound(name)) for name, bound in accuracy.items()}
            absolute = {name: wider(error, contract.absolute.get(name, error)) for name, error in absolute.items()}
        return replace(
            contract,
            accuracy={**contract.accuracy, **accuracy},
            absolute={**contract.absolute, **absolute},
            inherited=inherited,
            sums={**self._orders(op), **contract.sums},
            points={**(self._cut_factors(op) if asks_tf32 and not widens else {}), **contract.points},
            denormals=self._denormals(contract, dtypes, used),
            nonfinite=self._nonfinite(contract),
            platform="none",
        )

    def _nonfinite(self, contract: Contract) -> Literal["ieee", "overflow", "unspecified"]:
        said = contract.nonfinite != "ieee" or not any(each.value is May.UNSPECIFIED for each in self.facts)
        return contract.nonfinite if said else "unspecified"

    def _denormals(self, contract: Contract, dtypes: Collection[str], used: frozenset[str]) -> Denormals:
        if contract.denormals != "preserve":
            return contract.denormals
        if self.flushes:
            return "flush"
        return FLUSHES_BF16 if "bf16" in dtypes and self.flushing_bf16 & used else "preserve"

    def undeclared(self, op: Op) -> Contract:
        """Return the contract of a function for which nothing is declared."""
        either = any(each.value is May.EITHER_SIGN for each in self.facts)
        return Contract(sums=self._orders(op), zeros="any" if either else "ieee")

    def _orders(self, op: Op) -> Mapping[str, summation.Summation]:
        loose = any(each.value is May.ANY_ORDER for each in self.facts)
        return {node.label: summation.AnyOrder() for node in _nodes(op) if loose and node.kind in _ORDERED}

    def _cut_factors(self, op: Op) -> Mapping[str, str]:
        """Return the tensors that are factors of matrix products and that the formula lets kernels round, each with a
        rounding to TF32; none on platforms without TF32."""
        known = any(each.value is May.TF32 for each in self.facts)
        factors = [arg for node in _nodes(op) if known and node.kind in CONTRACTIONS for arg in node.args[:2]]
        points = [arg.args[0] for arg in factors if arg.kind == "point"]
        return {point.label: _MAYBE_TF32 for point in points if point.kind == "tensor"}

    def taken(
        self, contract: Contract, op: Op, dtypes: Collection[str] = (), *, asks_tf32: bool = False
    ) -> Iterator[Fact]:
        """Yield the facts that complete a contract for an op, without those about functions of other algorithms."""
        meant = self.completed(contract, op, dtypes, asks_tf32=asks_tf32)
        used = operations(op, frozenset((local, way) for ways in meant.algorithms for local, way in ways.items()))
        used |= parts_of(meant.inherited)
        for each in self.facts:
            if isinstance(each.value, Within):
                taken = each.about in used and meant.bound(each.about) != contract.bound(each.about)
            elif isinstance(each.value, Besides):
                taken = each.about in used and meant.absolute.get(each.about) != contract.absolute.get(each.about)
            elif isinstance(each.value, Inherited):
                taken = each.about in {*meant.inherited} - {*contract.inherited}
            elif each.value is May.UNSPECIFIED:
                taken = meant.nonfinite != contract.nonfinite
            elif each.value is May.TF32:
                taken = meant.points != contract.points
            elif each.value is May.FLUSH:
                taken = meant.denormals != contract.denormals
            elif each.value is May.FLUSH_BF16:
                taken = meant.denormals != contract.denormals and each.about in operations(op)
            else:
                taken = each.value is May.ANY_ORDER and {*meant.sums} != {*contract.sums}
            if taken:
                yield each


def _with_open_ways(contract: Contract, op: Op) -> Contract:
    """Return the contract with all algorithms that the op leaves open, for locals that the contract names none for."""
    return replace(contract, algorithm={**op.open_ways, **contract.algorithm}) if op.open_ways else contract


DOT = "dot"
"""The name of matrix products in facts."""
_MAYBE_TF32 = f"{MAYBE}tf32 towards zero"
"""TF32 with any rounding or with bits cut off, or f32 unchanged."""
_ORDERED = {*REDUCTIONS, "scan"} - {"max"}
"""The reductions that add in some order, which a contract states."""


@lru_cache(maxsize=256)
def _nodes(op: Op, ways: frozenset[tuple[str, str]] | None = None) -> tuple[Node, ...]:
    """Return the nodes of an op's formula and of the algorithms in `ways`, given as (local, algorithm) pairs; by
    default those of all algorithms."""
    graph = traced(op, [*(each.name for each in op.operands), *(each.name for each in op.parameters)])
    nodes = [*graph.nodes]
    known = [(local, name, way) for local, own in op.algorithms.items() for name, way in own.items()]
    for way in (way for local, name, way in known if ways is None or (local, name) in ways):
        given = way.__code__.co_varnames[: way.__code__.co_argcount]
        if all(name in graph.locals for name in given):
            nodes += ordered([run(way, {name: graph.locals[name] for name in given})[0]])
    return tuple(nodes)


@lru_cache(maxsize=256)
def operations(op: Op, ways: frozenset[tuple[str, str]] | None = None) -> frozenset[str]:
    """Return the names of functions that an op's formula or algorithms calculate, with "divide" for divisions and "dot"
    for matrix products. `ways` restricts the algorithms to these (local, algorithm) pairs."""
    return frozenset(name for node in _nodes(op, ways) for name in _operations(node))


def parts_of(names: tuple[str, ...]) -> frozenset[str]:
    """Return the names of functions that the expressions of inherited functions use, with "divide" for divisions."""
    if not names:
        return frozenset()
    from oracles.formula.expansion import parts  # loaded only if a contract inherits

    return frozenset(each for node in parts(names) for each in _operations(node))


def _operations(node: Node) -> tuple[str, ...]:
    dots = (DOT,) if node.kind in CONTRACTIONS else ()
    if node.kind in ("online", "online_dot"):
        return ("exp", *dots)
    roots = (DIVIDE,) if node.kind == "function" and node.function.reciprocal_of else ()
    return (node.operation, *roots) if node.operation in (*records(), DIVIDE) else dots
