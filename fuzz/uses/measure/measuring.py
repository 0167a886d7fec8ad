"""Measuring a target: cases by design at a few extents, and what follows from them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fuzz.adapters.target import Target
from fuzz.base.case import Case
from fuzz.base.dispatch import Dispatch
from fuzz.base.draw import Draw, Part
from fuzz.execute.pool import Pool
from fuzz.generate.dims import LARGE_WORK
from fuzz.generate.menus import usual
from fuzz.generate.variations import extended, made, rank_of, sized
from fuzz.judge.fitting import Run
from fuzz.uses.measure import facts
from fuzz.uses.measure.bench import Bench, UnmeasurableError
from fuzz.uses.measure.guessing import guesses
from fuzz.uses.measure.record import Measured, SumOrder
from fuzz.uses.measure.sums import SUMS, Carrier, carriers
from fuzz.uses.measure.tree import Tree
from oracles.declared import AXIS
from oracles.dtypes import SINGLE, form
from oracles.formula.contract import MAYBE, Contract
from oracles.formula.made import grown
from oracles.formula.trace import Node
from oracles.operand import OUTER
from oracles.ops import OPS
from oracles.summation import Read, Summation

_LONG, _SHORT = 256, 67
"""Lengths of sums, until one shows an order: of whole blocks and lanes, and a short one with a tail."""
_GUESSED = 1031
"""A sum that is long enough for a guess."""
_ROWS, _OTHERS = (64, 6), 4
"""The extents of dimensions along which nothing is summed: as many sums are asked at once, of a slow target
fewer."""
_WORK, _MOST_RUNS, _FEW_RUNS = 1 << 24, 1500, 40
"""The most terms, and runs, that are spent on the order of a sum; of slow targets fewer."""
_DRAWS = 4


@dataclass(frozen=True)
class Seen:
    """What is seen of the sums along some dimensions."""

    along: str
    terms: int
    chain: int
    trees: tuple[Tree, ...]
    """Those that were read, or fit best."""
    read: bool

    @property
    def order(self) -> SumOrder:
        """It as it is recorded. To name an order takes time."""
        words = {tree.words for tree in self.trees}
        return SumOrder(self.along, self.terms, self.chain, words.pop() if len(words) == 1 else "", self.read)


def measured(pool: Pool, target: Target, contract: Contract) -> Measured:
    """Return what a target does where its contract leaves it open. What cannot be measured is left out."""
    dtypes = target.kernel.capabilities.dtypes
    dtype = SINGLE.name if SINGLE.name in dtypes else dtypes[0]
    found, orders, unread = Measured(target.id, dtype), dict[str, Seen](), dict[str, str]()
    if whole := [each.name for each in OPS[target.kernel.op].outputs if each.integers]:
        return replace(found, trouble=f"{' and '.join(whole)} {'is' if len(whole) == 1 else 'are'} of integers")
    try:
        base = template(target, dtype)
        nodes = [node for node in Bench(pool, target, base.case).trace.nodes if node.kind in SUMS]
        for along in dict.fromkeys(node.label for node in nodes) or ("",):
            bench = Bench(pool, target, base.sized(along, _SHORT))
            shown = {each.node for each in carriers(bench)}
            is_guess = any(node not in shown for node in nodes if node.label == along)
            for terms in (_GUESSED,) if is_guess else (_LONG, _SHORT):
                bench = Bench(pool, target, base.sized(along, terms))
                if along and along not in orders:
                    own, why = orders_at(bench, along)
                    orders, unread = orders | own, {**why, **unread}
            found = _facts(bench, along if along in orders and orders[along].read else "", found)
        if any(each.startswith(MAYBE) for each in contract.points.values()):
            found = replace(found, casts=_casts(pool, target, contract))
    except (UnmeasurableError, ValueError) as error:  # what the case or the formula refuses
        found = replace(found, trouble=str(error))
    left = {along: why for along, why in unread.items() if along not in orders}
    sums = tuple(each.order for each in orders.values())
    return replace(found, sums=sums, unread=left)


def _facts(bench: Bench, along: str, found: Measured) -> Measured:
    """What is seen of sums along dimensions that are read, and of the whole."""
    own = [each for each in carriers(bench) if each.node.label == along]
    fused = next((each for each in map(facts.is_fused, own) if each is not None), None)
    found = replace(
        found,
        accumulator=_least(found.accumulator, *map(facts.accumulator, own)),
        products=_least(found.products, *map(facts.product_bits, own)),
        fused=found.fused if fused is None else fused,
    )  # fmt: skip
    if found.repeats is not None:
        return found
    return replace(found, flushes=facts.flushes(bench), accuracy=facts.accuracy(bench), repeats=facts.repeats(bench))


def _least(*bits: int | None) -> int | None:
    return min((each for each in bits if each is not None), default=None)


def orders_at(bench: Bench, *only: str) -> tuple[dict[str, Seen], dict[str, str]]:
    """Return the orders of all sums along each dimension, or several, at the extents of a case; and why others are not
    known."""
    nodes = [node for node in bench.trace.nodes if node.kind in SUMS]
    own = {each.node: each for each in carriers(bench)}
    orders, unread = dict[str, Seen](), dict[str, str]()
    for along in only or dict.fromkeys(node.label for node in nodes):
        of_it = [node for node in nodes if node.label == along]
        try:
            orders[along] = _order(bench, along, of_it, own)
        except (UnmeasurableError, ValueError) as error:
            unread[along] = str(error)
    return orders, unread


def _order(bench: Bench, along: str, nodes: list[Node], own: Mapping[Node, Carrier]) -> Seen:
    """One that all sums along these dimensions have, or a wider one. Raises UnmeasurableError."""
    most = min(_FEW_RUNS if bench.target.slow else _MOST_RUNS, _WORK // max(1, math.prod(bench.extents.values())))
    chain, seen, left = 0, list[Tree](), list[Node]()
    for node in nodes:
        try:
            trees = own[node].trees(most) if node in own else []
        except UnmeasurableError:
            trees = []
        if not trees:
            left.append(node)
        chain = max(chain, *(tree.chain for tree in trees), 0)
        seen += trees
    is_read = not left
    for guess in guesses(bench, along, left) if left else ():
        if not guess.trees:
            raise UnmeasurableError("it is none of those that are known")
        left.remove(guess.node)
        chain = max(chain, guess.chain)
        seen += guess.near
    if left:
        raise UnmeasurableError("no output shows it")
    return Seen(along, bench.number(nodes[0]), chain, tuple(seen), is_read)


@dataclass(frozen=True)
class Template:
    """What cases of some extents are made from."""

    target: Target
    draw: Draw

    @property
    def case(self) -> Case:
        """It as it was drawn."""
        return made(self.draw)

    def sized(self, along: str, terms: int) -> Case:
        """A case with about so many terms in sums along dimensions; where there are none, of so many elements. Raises
        ValueError or UnmeasurableError."""
        kernel, op = self.target.kernel, OPS[self.target.kernel.op]
        able, summed = kernel.capability, along.split()
        others = [dim for dim in op.inputs[0].axes if dim not in summed and dim not in op.fixed]
        always = math.prod(op.fixed[dim] for dim in summed if dim in op.fixed)
        each = _share(terms / always, [dim for dim in summed if dim not in op.fixed])
        dispatch, why = Dispatch(able, self.target.size_limit), "it has too many terms"
        for at_once in _ROWS:
            rows = dict.fromkeys(others, _share(at_once if summed else terms, others))
            sizes = dict(op.fixed)
            for dim in self.draw.sizes.keys() - op.fixed.keys():
                size = each if dim in summed else rows.get(dim, _OTHERS)
                step, most = able.step(dim), kernel.capabilities.max.get(dim)
                size = -(-size // step) * step
                sizes[dim] = size if most is None else max(step, min(size, most // step * step))
            sizes = grown(op.made, sizes, op.fixed, op.least)
            outer = each if OUTER in summed else min(at_once, rows.get(OUTER, 1))
            if outer * op.work(sizes) > LARGE_WORK:
                continue
            rank = max(2, rank_of(self.draw)) if OUTER in op.inputs[0].axes else None
            case = made(sized(extended(self.draw, sizes), outer, rank))
            if dispatch.accepts(case):
                return case
            why = able.refusal(case) or "it is too slow"
        raise UnmeasurableError(why)


def _share(elements: float, dims: Sequence[str]) -> int:
    """The extent of each of some dimensions that have about so many elements together."""
    return max(2, round(math.pow(elements, 1 / max(1, len(dims)))))


def template(target: Target, dtype: str) -> Template:
    """With all tensors that the kernel takes, and parameters that hide least, such as the smallest eps."""
    op, able, there = OPS[target.kernel.op], target.kernel.capability, dict[str, str]()
    for operand in op.operands:
        if not operand.optional or operand.name in able.able.optional:
            there[operand.name] = dtype if operand.name == op.main else able.dtypes_of(operand.name, there)[0]
    parts = (
        Part(name, each, recipe=usual(op.operand(name)) if op.is_input(name) else "") for name, each in there.items()
    )
    params = {each.name: min(each.values, key=abs) for each in op.parameters if each.neutral is None}
    sizes = grown(op.made, {dim: op.fixed.get(dim, 1) for dim in op.named}, op.fixed, op.least)
    outer = (*((1,) if OUTER in op.inputs[0].axes else ()), *(sizes[dim] for dim in op.inner[:-1]))
    extents = {dim: size for dim, size in sizes.items() if dim not in op.inner}
    axis = {AXIS: len(outer)}
    return Template(target, Draw(op.name, sizes[op.row], outer, {**params, **axis}, 0, tuple(parts), extents=extents))


def tightened(contract: Contract, orders: Iterable[Seen], casts: Mapping[str, bool]) -> Contract:
    """Return the contract with what was measured in the place of what it leaves open."""
    sums: dict[str, Summation] = dict(contract.sums)
    for each in orders:
        sums[each.along] = Read(((each.terms, each.chain),))
    points = dict(contract.points)
    for name, rounds in casts.items():
        dtype = points.pop(name)
        if rounds:
            points[name] = dtype.removeprefix(MAYBE)
    return replace(contract, sums=sums, points=points)


def _casts(pool: Pool, target: Target, contract: Contract) -> Mapping[str, bool]:
    """The casts that it takes, or not, in all dtypes."""
    found: list[Mapping[str, bool]] = []
    along = OPS[target.kernel.op].row
    for dtype in target.kernel.capabilities.dtypes:
        if form(dtype).precision < SINGLE.precision:
            try:
                case = template(target, dtype).sized(along, _SHORT)
                found.append(casts_at(Bench(pool, target, case), contract))
            except (UnmeasurableError, ValueError):
                return {}
    first = found[0] if found else {}
    return {name: rounds for name, rounds in first.items() if all(each.get(name) == rounds for each in found)}


def casts_at(bench: Bench, contract: Contract) -> Mapping[str, bool]:
    """Return whether it rounds, at each point where it may, that values of a case's extents and dtypes tell."""
    random = np.random.default_rng(0)
    cases = [
        bench.filled({name: random.normal(size=shape) for name, shape in bench.floats.items()}, structured=False)
        for _ in range(_DRAWS)
    ]
    runs = [Run(case, outcome, target=bench.target) for case, outcome in zip(cases, bench.run(cases), strict=True)]
    found = dict[str, bool]()
    for name, dtype in contract.points.items():
        if not dtype.startswith(MAYBE):
            continue
        others = {each: what for each, what in contract.points.items() if each != name}
        either = {True: {**others, name: dtype.removeprefix(MAYBE)}, False: others}
        fits = {
            rounds: all(run.ratio(replace(contract, points=points)) is not None for run in runs)
            for rounds, points in either.items()
        }
        if fits[True] != fits[False]:
            found[name] = fits[True]
    return found
