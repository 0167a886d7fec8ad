"""The screen finds outputs that certainly pass, for many problems at once, by relative forms: if errors are in
proportion to values, one number bounds the relative errors of all elements of a row.

The exact values of a problem are calculated once for all contracts and kernels, and the errors of an output once for
all contracts: a contract allows one number for each row. The answer to a query does not depend on the queries that it
is joined with. A screen never answers that an output fails.

In products, quotients, roots and sums of terms that are never negative, errors do not cancel, and each error is in
proportion to its value. As long as nothing underflows or overflows, the form (`oracles.formula.affine.forms`) of a
value c is then c (1 + r), where r depends on the contract, the length of the row and the shares of the addends. r is
calculated here by the steps of `oracles.formula.affine.operations` and `reductions`, each divided by its centre. The
next tier has other formulas.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

import numpy as np

from oracles.doubledouble import F64
from oracles.dtypes import Format, judged
from oracles.enclosure import Mask, Worst
from oracles.formula.affine.forms import DUST
from oracles.formula.contract import Contract
from oracles.formula.exact.lengths import Places, Ragged, joined
from oracles.formula.trace import Node
from oracles.lazy import lazy
from oracles.rounding import half_gap_of, half_gaps
from oracles.tiers.centres import Centres
from oracles.tiers.joined import Answer, Asked, Group, Received, groups_of, plan_of
from oracles.tiers.plan import ERROR, LAST, LIMIT, SINK, TINY, WORST, FormulaPlan
from oracles.tiers.problem import FormulaProblem

FAR = 0.05
"""The largest relative error for which a function's errors are calculated by its tangent, see
`oracles.formula.affine.operations`."""


class Rows(Protocol):
    """The values of rows, for one formula, that `RowBounds` asks for."""

    def number(self, node: Node, which: int) -> F64:
        """Return one of the numbers of a node (`oracles.tiers.plan`), for each row."""

    def taken(self, node: Node, place: int) -> F64:
        """Return an argument of a node with one value for each row."""

    def alike(self, node: Node) -> Mask:
        """Return the mask of rows in which a sum may have the errors of the worst case, since its terms are alike."""

    def exact(self, node: Node) -> Mask | None:
        """Return the mask of rows in which all kernels have the same value of a node; None for no row."""


@dataclass(frozen=True, eq=False)
class _Errors:
    """The relative errors of a value: signed ones that a row's elements share, by source; and a bound of the rest."""

    parts: Mapping[Node, F64 | float]
    rest: F64 | float = 0.0

    @property
    def spread(self) -> F64 | float:
        found = self.rest
        for each in self.parts.values():
            found = found + np.abs(each)
        return found


_NONE = _Errors({})


class RowBounds:
    """Bounds of the relative errors of each row, for the joined rows of all queries."""

    def __init__(self, rows: Rows, count: int, nodes: Sequence[Node]) -> None:
        """Calculate the bounds of all nodes for `count` rows."""
        self.rows = rows
        self.near: Mask = np.ones(count, bool)
        """Mask of the rows in which no relative error is too large for a tangent."""
        self._found: dict[Node, _Errors] = {}
        for node in nodes:
            args = [self._taken(node, arg) for arg in node.args]
            self._found[node] = self._step(node, args, ERROR) if args else _NONE

    def spread(self, node: Node, last: bool) -> F64 | float:
        """Return bounds of an output's relative errors; without the `last` rounding if that is the output's own."""
        if not last:
            return self._found[node].spread
        return self._step(node, [self._taken(node, arg) for arg in node.args], LAST).spread

    def _taken(self, node: Node, arg: Node) -> _Errors:
        dims = node.dims.union(node.over) if node.kind == "sum" else node.dims
        found = self._found[arg]
        if dims - arg.dims and not isinstance(found.rest, float):  # several elements share its value
            found = self._found[arg] = _Errors({**found.parts, arg: found.rest})
        return found

    def _step(self, node: Node, args: list[_Errors], which: int) -> _Errors:
        exact = self.rows.exact(node)
        if exact is None:
            return self._inexact(node, args, which)
        return _NONE if exact.all() else _where(exact, self._inexact(node, args, which))

    def _inexact(self, node: Node, args: list[_Errors], which: int) -> _Errors:
        kind = node.kind
        if kind == "point":
            return args[0]
        if kind == "multiply":
            found = _combined(args, (1.0, 1.0), args[0].spread * args[1].spread)
        elif kind == "divide":
            share = args[1].spread
            growth = share / (1 - share)
            self._check(share)
            found = _combined(args, (1.0, -1.0), (share + args[0].spread) * growth)
        elif kind == "add":
            return self._added(node, args, which)
        elif kind == "sum":
            error = np.where(self.rows.alike(node), self.rows.number(node, WORST), self.rows.number(node, ERROR))
            found = _once_rounded(args[0], error)
            self._check(found.spread)
            return found
        else:
            share = args[0].spread
            self._check(share)
            power = node.function.power
            assert power is not None
            half = abs(power * (power - 1.0)) / 2.0
            found = _combined(args, (power,), half * share**2 * (1 - share) ** (power - 2.0))
        return _once_rounded(found, self.rows.number(node, which))

    def _added(self, node: Node, args: list[_Errors], which: int) -> _Errors:
        error = self.rows.number(node, which)
        a, b = self.rows.taken(node, 0), self.rows.taken(node, 1)
        total = a + b
        found = _combined(args, (a / total, b / total), 0.0)
        return _once_rounded(found, np.where((a == 0) | (b == 0), 0.0, error))

    def _check(self, share: F64 | float) -> None:
        self.near &= ~np.asarray(share > FAR)


def _combined(args: list[_Errors], factors: tuple[F64 | float, ...], remainder: F64 | float) -> _Errors:
    parts: dict[Node, F64 | float] = {}
    rest = remainder
    for each, factor in zip(args, factors, strict=True):
        if not each.parts and isinstance(each.rest, float):
            continue
        for symbol, coefficient in each.parts.items():
            parts[symbol] = parts.get(symbol, 0.0) + factor * coefficient
        rest = rest + np.abs(factor) * (each.spread * DUST + each.rest)
    return _Errors(parts, rest)


def _where(exact: Mask, found: _Errors) -> _Errors:
    """Return the errors, set to 0 where the values are exact."""
    parts = {symbol: np.where(exact, 0.0, coefficient) for symbol, coefficient in found.parts.items()}
    return _Errors(parts, found.rest if isinstance(found.rest, float) else np.where(exact, 0.0, found.rest))


def _once_rounded(found: _Errors, error: F64) -> _Errors:
    return _Errors(found.parts, found.rest + (1.0 + found.spread) * error)


_U64 = 2.0**-53
_SAME = 2.0**-36
"""The relative error of the widths of a screen, compared with the half-widths of forms. A screen lets an output pass
only if its errors are smaller than the width by at least this much."""


def certain(asked: Sequence[Asked]) -> list[list[Answer]]:
    """Return an answer to each query; None decides nothing."""
    found: list[list[Answer]] = [[None] * len(queries) for _, _, queries in asked]
    with np.errstate(all="ignore"):
        for group in groups_of(asked):
            for ask, answer in zip(group.asks, _Decided(group).answers(), strict=True):
                at, place = ask.answer
                before = found[at][place]
                found[at][place] = _worst(before, answer) if group.parts[ask.part][0].start else answer
        for (problem, structured, queries), answers in zip(asked, found, strict=True):
            for at, (contract, received) in enumerate(queries):
                if answers[at] is None:
                    answers[at] = _rounded(problem, structured, contract, received)
    return found


def _worst(before: Answer, later: Answer) -> Answer:
    """Return the worst elements of two parts of a problem; of two that are equally bad, the first."""
    if before is None or later is None:
        return None
    return [one if one.ratio >= other.ratio else other for one, other in zip(before, later, strict=True)]


def _rounded(problem: FormulaProblem, structured: bool, contract: Contract, received: Received) -> Answer:
    """Return the answer if the outputs are the exact values, rounded once; None if they are not."""
    plan = plan_of(problem, contract, structured)
    if plan is None or not (plan.narrows or plan.is_wide):  # wide ones take longest otherwise
        return None
    if not problem.nearest(plan).conforms(plan, received.values):
        return None
    return [Worst(0, 0.0, True, problem.nearest(plan).centre(plan, name)) for name in plan.outputs]


class _Decided:
    """The answers to all queries of a group."""

    def __init__(self, group: Group) -> None:
        self.asks, self.pairs = group.asks, group.pairs
        self.centres = centres = Centres(group.parts)
        self.nodes = centres.nodes
        counts = centres.rows.lengths
        problems = np.array([ask.part for ask in self.asks])
        self.of_ask = Ragged(counts[problems])
        """The rows of all asks, as one segment for each. The arrays below have one element for each of these rows."""
        self.at = self.of_ask.places_from(centres.rows.starts[problems])
        """The places of these rows in the centres."""
        self.problems = problems
        """The problem of each ask."""
        numbers = [ask.plan.numbers(int(n)) for ask, n in zip(self.asks, centres.lengths[problems], strict=True)]
        self.numbers: F64 = np.moveaxis(np.array(numbers), 0, -1)
        """The plans' numbers, shape (6, nodes, asks)."""
        self.relative = RowBounds(self, len(self.at), self.nodes)

    # The methods that `RowBounds` needs.

    def number(self, node: Node, which: int) -> F64:
        """Return a number of a node, `ERROR` to `SINK` of `oracles.tiers.plan`, for each row."""
        return self.of_ask.spread(self.numbers[which, self.nodes.index(node)])

    def taken(self, node: Node, place: int) -> F64:
        """Return an argument of a node that has one value a row."""
        return self.centres.taken(node, place)[self.at]

    def alike(self, node: Node) -> Mask:
        """Return the mask of rows in which the terms of a sum are alike, so that the worst case bounds its errors."""
        place = self.nodes.index(node)
        found = np.zeros(len(self.at), bool)
        if (self.numbers[ERROR, place] == self.numbers[WORST, place]).all():
            return found
        for ask, span in zip(self.asks, self.of_ask.slices, strict=True):
            errors = ask.plan.numbers(int(self.centres.lengths[ask.part]))[:, place]
            if errors[ERROR] != errors[WORST]:
                found[span] = self.centres.alike(node, ask.part, ask.plan.dtype(node))
        return found

    def exact(self, node: Node) -> Mask | None:
        """Whether every kernel has the same values of a node, by row; None: in no row."""
        if not any(node in plan.exact for plan in self.plans):
            return None
        return self.of_ask.spread(np.array([node in ask.plan.exact for ask in self.asks]))

    @lazy
    def plans(self) -> Sequence[FormulaPlan]:
        """Return the plans of all queries, each once."""
        return [*{id(ask.plan): ask.plan for ask in self.asks}.values()]

    @lazy
    def fits(self) -> Mask:
        """Return the mask of queries whose rows have no underflow, no overflow and no forbidden negative terms."""
        centres = self.centres
        low, high = (each[:, self.problems] for each in centres.magnitudes(range(len(centres.units)), of_rows=False))
        least = {sink: centres.rows.smallest(centres.values[sink])[self.problems] for _, sink in self.sinks}
        fits = self._enough(low, high, least, self.numbers)
        barred = centres.barred[self.problems]
        unknown = (~(fits | barred)).nonzero()[0]
        if len(unknown):  # a problem's rows may differ: measure each
            fits[unknown] = self._fit_by_row(unknown)
        found: Mask = fits & ~barred
        return found

    def _fit_by_row(self, asks: Places) -> Mask:
        centres, of_ask = self.centres, Ragged(self.of_ask.lengths[asks])
        problems, of_problem = np.unique(self.problems[asks], return_inverse=True)
        at = of_ask.places_from(Ragged(centres.rows.lengths[problems]).starts[of_problem])
        low, high = (each.take(at, axis=1) for each in centres.magnitudes(problems.tolist(), of_rows=True))
        rows = self.at[of_ask.places_from(self.of_ask.starts[asks])]
        values = {sink: centres.values[sink][rows] for _, sink in self.sinks}
        return of_ask.every(self._enough(low, high, values, self.numbers[:, :, asks].repeat(of_ask.lengths, axis=-1)))

    def _enough(self, low: F64, high: F64, sinks: Mapping[Node, F64], numbers: F64) -> Mask:
        """Return the mask of queries, or rows, whose magnitudes are within those that the plan allows."""
        enough = low >= numbers[TINY]
        for node, sink in self.sinks:
            place = self.nodes.index(node)
            enough[place] |= sinks[sink] >= numbers[SINK, place]
        within: Mask = (enough & (high <= numbers[LIMIT])).all(axis=0)
        return within

    @lazy
    def sinks(self) -> Sequence[tuple[Node, Node]]:
        """Return all pairs of a node and its sink in the plans."""
        return [*{pair: None for plan in self.plans for pair in plan.sinks.items()}]

    def answers(self) -> list[Answer]:
        """Return the answer to each query."""
        found: list[dict[str, Worst] | None] = [{} for _ in self.asks]
        chosen: dict[tuple[str, Node], list[int]] = {}
        for at, ask in enumerate(self.asks):
            for name in ask.plan.outputs:
                chosen.setdefault((name, ask.plan.made(name)), []).append(at)
        for (name, node), places in chosen.items():
            for at, worst in zip(places, self._of_output(name, node, places), strict=True):
                if worst is None:
                    found[at] = None
                elif (of_ask := found[at]) is not None:
                    of_ask[name] = worst
        return [
            None if of_ask is None else [of_ask[name] for name in ask.plan.outputs]
            for ask, of_ask in zip(self.asks, found, strict=True)
        ]

    def _of_output(self, name: str, node: Node, chosen: Sequence[int]) -> list[Worst | None]:
        """Return the answers to the chosen queries for one output, which is made by `node` in all of them."""
        centres, asks = self.centres, [self.asks[at] for at in chosen]
        whole = len(asks) == len(self.asks)
        of_ask = self.of_ask if whole else Ragged(self.of_ask.lengths[chosen])
        places = slice(None) if whole else of_ask.places_from(self.of_ask.starts[chosen])
        """The places of the chosen asks' rows among the rows of all asks."""
        pairs = {pair: place for place, pair in enumerate(dict.fromkeys(ask.pair for ask in asks))}
        problems = [self.pairs[pair][0] for pair in pairs]
        rows_of_pair = Ragged(centres.rows.lengths[problems])
        in_pair = of_ask.places_from(rows_of_pair.starts[[pairs[ask.pair] for ask in asks]])
        at = self.at[places]
        columns = np.ones(len(pairs), np.int64) if centres.is_of_rows(node) else centres.lengths[problems]
        rows = Ragged(rows_of_pair.spread(columns))
        of_pair = Ragged(rows_of_pair.lengths * columns)
        exact = centres.values[node]
        if problems != list(range(len(centres.units))):
            spans = centres.rows.slices if centres.is_of_rows(node) else centres.places
            exact = joined([exact[spans[problem]] for problem in problems])
        parts = [centres.units[problem][0] for problem in problems]
        got = joined([part.of(self.pairs[pair][1].values[name]) for part, pair in zip(parts, pairs, strict=True)])
        formats = [judged(centres.units[problem][1].outputs[name]) for problem in problems]
        strayed, special = strayed_of(got, exact, of_pair, formats)
        largest = np.maximum.reduceat(strayed, rows.starts)[in_pair]
        width = (np.zeros(len(self.at)) + self.relative.spread(node, False))[places]
        last = np.array([name in ask.plan.lasts for ask in asks])
        if last.any():
            own_last = np.zeros(len(self.at)) + self.relative.spread(node, True)
            width = np.where(of_ask.spread(last), own_last[places], width)
        n = centres.elements.lengths[at]
        steps = of_ask.spread(np.array([len(ask.plan.trace.nodes) for ask in asks]))
        width = width * (1.0 + 2.0**-52 * (n + 16) * steps)
        own = 4 * (n + 4 * steps) * _U64 + width * _SAME
        fits = of_ask.spread(self.fits if whole else self.fits[chosen])
        inside = fits & self.relative.near[places] & (largest <= width - own)
        ratio = largest / width
        odd = centres.special[at]
        if odd.any():
            all_special = np.logical_and.reduceat(special, rows.starts)[in_pair]
            inside = np.where(odd, fits & all_special & (largest == 0), inside)
            ratio = np.where(odd, 0.0, ratio)
        if not width.all():  # all kernels round the same value
            equal = self._equal(got, exact, of_pair, formats)
            alike = np.logical_and.reduceat(equal, rows.starts)[in_pair]
            inside, ratio = np.where(width == 0, fits & alike, inside), np.where(width == 0, 0.0, ratio)
        passed = of_ask.every(inside).tolist()
        largest = of_ask.largest(np.where(inside, ratio, 0.0))
        first = of_ask.first(ratio == of_ask.spread(largest)).tolist()
        found = list[Worst | None]()
        seen: dict[tuple[int, int], tuple[int, float, float]] = {}
        """By pair and row: the place of the worst element, its exact value, and half the gap below the output there."""
        starts, ask_starts = of_pair.starts.tolist(), of_ask.starts.tolist()
        before = [part.start * count for part, count in zip(parts, columns.tolist(), strict=True)]
        for place, (ask, worst) in enumerate(zip(asks, largest.tolist(), strict=True)):
            if not passed[place]:
                found.append(None)
                continue
            pair, row = pairs[ask.pair], first[place] if worst else -1
            if (pair, row) not in seen:
                flat = starts[pair]
                if worst:
                    of_row = rows.slice_of(int(rows_of_pair.starts[pair]) + row)
                    flat = of_row.start + int(strayed[of_row].argmax())
                seen[pair, row] = flat, float(exact[flat]), half_gap_of(float(got[flat]), formats[pair])
            flat, centre, gap = seen[pair, row]
            wide = float(width[ask_starts[place] + max(row, 0)]) * abs(centre)
            known = (None, None) if ask.plan.guesses or not math.isfinite(wide) else (centre, wide)
            found.append(Worst(flat - starts[pair] + before[pair], worst, not gap < wide, *known))
        return found

    def _equal(self, got: F64, exact: F64, of_pair: Ragged, formats: Sequence[Format]) -> Mask:
        right = of_pair.rounded(exact, formats)
        found: Mask = ((got == right) & (np.signbit(got) == np.signbit(right))) | (np.isnan(got) & np.isnan(right))
        return found


def strayed_of(got: F64, exact: F64, of_pair: Ragged, formats: Sequence[Format]) -> tuple[F64, Mask]:
    """Return the relative error of each element before its last rounding, for the outputs of each pair in their format;
    and the mask of exact values that are zero, infinite or NaN, which outputs must equal. Neighbouring outputs of one
    format are compared together."""
    strayed, special = np.empty_like(got), np.empty(len(got), bool)
    end = 0
    for form, pairs in groupby(zip(formats, of_pair.lengths.tolist(), strict=True), key=lambda pair: pair[0]):
        start, end = end, end + sum(length for _, length in pairs)
        span = slice(start, end)
        _compare(got[span], exact[span], form, strayed[span], special[span])
    return strayed, special


def _compare(got: F64, exact: F64, form: Format, strayed: F64, special: Mask) -> None:
    """Fill in `strayed` and `special`. Rare values are handled apart: a pass over all elements takes long."""
    size, centre = np.abs(got), np.abs(exact)
    np.subtract(size, centre, out=strayed)
    np.abs(strayed, out=strayed)
    strayed -= half_gaps(size, form, centre)
    np.maximum(strayed, 0.0, out=strayed)
    strayed /= centre
    signs = got.view(np.int64) ^ exact.view(np.int64)
    if signs.min() < 0:
        strayed[signs < 0] = np.inf
    np.less_equal(centre, 0.0, out=special)
    special |= ~(centre < np.inf)
    if special.any():
        at = special.nonzero()[0]
        value, found = exact[at], got[at]
        same = np.where(np.isnan(value), np.isnan(found), (found == value) & (signs[at] >= 0))
        strayed[at] = np.where(same, 0.0, np.inf)
