"""Blocks: outputs of many problems that follow from their rows in the same way, compared with their exact values in one
pass. See `oracles.batch`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from oracles.doubledouble import F64, head
from oracles.dtypes import Format
from oracles.enclosure import Mask, Worst
from oracles.numerics import Numerics
from oracles.operand import RowOperand, Weight
from oracles.ragged import Ragged, joined
from oracles.rounding import half_gap, half_gap_of, round_to
from oracles.screen import Allowance, Passage, Rounded, reaches


class Screened(Protocol):
    """One problem of an op that has screens."""

    dtype: Format
    weight: Weight | None

    def operand(self, numerics: Numerics) -> RowOperand:
        """What is normalised under a (settled) contract."""

    def allowed(self, contracts: Sequence[Numerics], structured: bool) -> Allowance | None:
        """What settled contracts allow that differ in their summation alone; None where only enclosures can tell.

        Raises `NumericsError` for a contract that the problem contradicts.
        """

    def passage(self, output: str, numerics: Numerics) -> Passage | Rounded | None:
        """How an output follows from its rows under a settled contract, or its right values where it needs no roots;
        None where only the enclosures can tell."""


@dataclass(frozen=True, eq=False)
class Lane:
    """One problem under one contract."""

    op: Screened
    numerics: Numerics
    """The settled contract."""
    allowed: Allowance
    track: int
    passages: Mapping[str, Passage | Rounded]
    """That of each output."""

    @property
    def formed(self) -> Format:
        """The dtype that the weight is formed in."""
        assert self.op.weight is not None
        return self.op.weight.formed_in(self.numerics)

    @cached_property
    def weight(self) -> tuple[F64, Mask]:
        """Magnitudes and sign bits, for each column or for each element."""
        assert self.op.weight is not None
        return self.op.weight.at(self.numerics)


class Tracks:
    """The rows of operands, and their roots under one count and eps; all of them joined."""

    def __init__(self) -> None:
        self.operands: list[RowOperand] = []
        self._places: dict[tuple[int, float, float, float], int] = {}

    def place(self, operand: RowOperand, allowed: Allowance) -> int:
        """The number of a track."""
        budget = allowed.budgets[0]
        key = id(operand), budget.count, budget.eps, budget.overflow
        if key not in self._places:
            self._places[key] = len(self.operands)
            self.operands.append(operand)
        return self._places[key]

    def join(self) -> None:
        """Form what is the same for all contracts; as `Squares.share` and `exact_roots` do."""
        if not self.operands:
            return
        self.rows = Ragged.of(len(operand.values) for operand in self.operands)
        keys = np.array([key[1:] for key in self._places]).T
        counts, eps, overflow = keys.repeat(self.rows.lengths, axis=1)
        sums = joined([head(operand.squares.sums) for operand in self.operands])
        means = sums / counts
        values = means + eps
        self.shares: F64 = means / values
        self.roots: F64 = np.where(sums >= overflow, 0.0, 1.0 / np.sqrt(values))
        self.smallest: list[float] = self.rows.smallest(self.roots).tolist()
        """The smallest root of each track that is not zero, or inf."""


@dataclass(eq=False)
class Ask:
    """One output beside one contract."""

    lane: Lane
    passage: Passage | Rounded
    pair: int
    worst: Worst | None = None

    @property
    def factors(self) -> tuple[float, ...]:
        """What enters the widths: see `Allowance`."""
        assert isinstance(self.passage, Passage)
        budget = self.lane.allowed.budgets[0]
        return (
            *self.passage.factors(budget),
            (1.0 + budget.sum_up) * (1.0 + budget.mean) - 1.0,
            (1.0 - budget.sum_down) * (1.0 - budget.mean) - 1.0,
            1.0 + budget.add,
            1.0 - budget.add,
        )


@dataclass(frozen=True, eq=False)
class Pairs:
    """Outputs beside their exact values, joined."""

    places: Ragged
    size: F64
    """The magnitudes of the outputs."""
    values: F64
    """The magnitudes of the exact values."""
    nan: Mask | None
    """Where these are NaN; None where none is."""
    agrees: Mask
    """Where signs are right, and NaN is where it must be."""


class Block:
    """Outputs that follow from their rows in the same way: their exact values (centres), what was got of each of these
    (pairs), and the contracts to judge that by (asks)."""

    def __init__(self) -> None:
        self.asks: list[Ask] = []
        self.origins: list[Ask] = []
        """For each centre the ask that it was made for."""
        self.pairs: list[tuple[int, F64]] = []
        """Each is the number of a centre, and an output."""
        self._centres: dict[object, int] = {}
        self._pairs: dict[tuple[int, int], int] = {}

    def ask(self, lane: Lane, passage: Passage | Rounded, got: F64) -> Ask:
        """Take an output in. Outputs, and right values, are told apart by their identity."""
        key: object = id(passage)
        if isinstance(passage, Passage):
            key = lane.track, lane.formed if passage.weighted else None
        centre = self._centres.setdefault(key, len(self.origins))
        pair = self._pairs.setdefault((centre, id(got)), len(self.pairs))
        ask = Ask(lane, passage, pair)
        if centre == len(self.origins):
            self.origins.append(ask)
        if pair == len(self.pairs):
            self.pairs.append((centre, got))
        self.asks.append(ask)
        return ask

    def decide(self, tracks: Tracks) -> None:
        """Find the worst elements of all asks that are certain."""
        values, negative = self._exact(tracks)
        if len(self.pairs) > len(self.origins):  # otherwise each centre has one, in the same order
            whole = Ragged.of(self.pairs[ask.pair][1].size for ask in self.origins).slices
            values = joined([values[whole[centre]] for centre, _ in self.pairs])
            negative = joined([negative[whole[centre]] for centre, _ in self.pairs])
        got = joined([got for _, got in self.pairs])
        nan, agrees = np.isnan(values), np.signbit(got) == negative
        special = bool(nan.any())
        if special:
            agrees = np.where(nan, np.isnan(got), agrees)
        places = Ragged.of(got.size for _, got in self.pairs)
        self._compare(Pairs(places, np.abs(got), values, nan if special else None, agrees), tracks)

    def _exact(self, tracks: Tracks) -> tuple[F64, Mask]:
        """Magnitudes and required sign bits of all centres, joined."""
        raise NotImplementedError

    def _compare(self, pairs: Pairs, tracks: Tracks) -> None:
        raise NotImplementedError


class Given(Block):
    """What equals its right values conforms, and else may."""

    def _exact(self, tracks: Tracks) -> tuple[F64, Mask]:
        given = [ask.passage for ask in self.origins if isinstance(ask.passage, Rounded)]
        return joined([each.values for each in given]), joined([each.negative for each in given])

    def _compare(self, pairs: Pairs, tracks: Tracks) -> None:
        equal = pairs.size == pairs.values
        if pairs.nan is not None:
            equal |= pairs.nan
        passed = pairs.places.every(equal & pairs.agrees).tolist()
        for ask in self.asks:
            if passed[ask.pair]:
                ask.worst = Worst(0, 0.0, blunt=True)


def products(asks: Sequence[Ask], passage: Passage, tracks: Tracks) -> tuple[F64, Mask]:
    """Magnitudes and sign bits of rstd or y before its last rounding, within the own error of an allowance."""
    places = tracks.rows.slices
    roots = joined([tracks.roots[places[ask.lane.track]] for ask in asks])
    if passage.per_row:
        return roots, np.zeros(len(roots), bool)
    operands = [tracks.operands[ask.lane.track] for ask in asks]
    lengths = [operand.values.shape for operand in operands]
    rows = np.array([columns for _, columns in lengths]).repeat([count for count, _ in lengths])
    values = roots.repeat(rows) * joined([operand.squares.magnitudes for operand in operands])
    negative = joined([operand.negative for operand in operands])
    if passage.point is not None:
        values = round_to(values, passage.point)
    if passage.weighted:
        shapes = [operand.values.shape for operand in operands]
        weights = [ask.lane.weight for ask in asks]
        values *= joined([np.broadcast_to(size, shape) for (size, _), shape in zip(weights, shapes, strict=True)])
        negative ^= joined([np.broadcast_to(sign, shape) for (_, sign), shape in zip(weights, shapes, strict=True)])
    return values, negative


class Pointed(Given):
    """The same of a product with the root that is rounded as declared on its way."""

    def __init__(self, passage: Passage) -> None:
        super().__init__()
        self.passage = passage

    def _exact(self, tracks: Tracks) -> tuple[F64, Mask]:
        values, negative = products(self.origins, self.passage, tracks)
        return round_to(values, self.passage.target), negative


class Near(Block):
    """Outputs whose value before their only rounding may be anywhere in an interval around the exact one."""

    def __init__(self, passage: Passage) -> None:
        super().__init__()
        self.passage = passage
        """That of the first; others may have other steps."""

    def _exact(self, tracks: Tracks) -> tuple[F64, Mask]:
        return products(self.origins, self.passage, tracks)

    def _compare(self, pairs: Pairs, tracks: Tracks) -> None:
        error = pairs.size - pairs.values
        low = error < 0
        strayed = np.maximum(np.abs(error) - half_gap(pairs.size, self.passage.target, low), 0.0)
        if pairs.nan is not None:
            strayed[pairs.nan] = 0.0
        largest = pairs.places.largest(strayed).tolist()
        agrees = pairs.places.every(pairs.agrees).tolist()
        smallest = [self._smallest(ask, tracks) for ask in self.origins]
        sure = [
            ask for ask in self.asks
            if agrees[ask.pair] and largest[ask.pair] < np.inf and _reaches(ask, smallest[self.pairs[ask.pair][0]])
        ]  # fmt: skip
        if exact := [ask for ask in sure if not largest[ask.pair]]:
            self._pass_exact(exact, pairs, tracks)
        if stray := [ask for ask in sure if largest[ask.pair]]:
            self._pass_near(stray, pairs, strayed, low, tracks)

    def _smallest(self, ask: Ask, tracks: Tracks) -> float:
        """As `Centre.smallest`; inf where no ask has steps, which alone need it."""
        if self.passage.per_row:
            return np.inf
        lane = ask.lane
        smallest = tracks.smallest[lane.track] * tracks.operands[lane.track].squares.smallest
        if not self.passage.weighted:
            return smallest
        magnitudes, _ = lane.weight
        return smallest * float(np.min(magnitudes, where=magnitudes > 0, initial=1.0))

    def _pass_exact(self, asks: Sequence[Ask], pairs: Pairs, tracks: Tracks) -> None:
        """Nothing strays: only whether the ratio, which is 0, means anything depends on the contract."""
        rows = [slice(place.start, place.start + 1) for place in (tracks.rows.slices[ask.lane.track] for ask in asks)]
        starts = pairs.places.starts.tolist()
        for ask, width in zip(asks, np.maximum(*_widths(asks, rows, tracks)).tolist(), strict=True):
            at = starts[ask.pair]
            ask.worst = Worst(0, 0.0, self._is_blunt(pairs, at, width))

    def _pass_near(self, asks: Sequence[Ask], pairs: Pairs, strayed: F64, low: Mask, tracks: Tracks) -> None:
        """As `screen.compared` and `screen.Near`."""
        chosen = {pair: place for place, pair in enumerate(dict.fromkeys(ask.pair for ask in asks))}
        whole = pairs.places.slices
        places = Ragged(pairs.places.lengths[list(chosen)])
        strayed, low, values = (joined([each[whole[pair]] for pair in chosen]) for each in (strayed, low, pairs.values))
        relative = np.divide(strayed, values, out=strayed, where=strayed > 0)
        sides = relative * low, relative * ~low
        shapes = [(*self.pairs[pair][1].shape, 1)[:2] for pair in chosen]
        counts = [count for count, _ in shapes]
        by_row, columns = Ragged.of(counts), [length for _, length in shapes]
        if not self.passage.per_row:
            rows = Ragged(np.array(columns).repeat(counts))
            tops = rows.largest(sides[0]), rows.largest(sides[1])
        else:
            tops = sides
        of_track, of_pair = tracks.rows.slices, by_row.slices
        of_ask = [of_pair[chosen[ask.pair]] for ask in asks]
        spans = Ragged.of(each.stop - each.start for each in of_ask)
        widths = _widths(asks, [of_track[ask.lane.track] for ask in asks], tracks)
        tops = joined([tops[0][each] for each in of_ask]), joined([tops[1][each] for each in of_ask])
        slack = 2 * spans.spread(np.array([ask.lane.allowed.own for ask in asks]))
        inside = spans.every((tops[0] <= widths[0] - slack) & (tops[1] <= widths[1] - slack)).tolist()
        ratios = tops[0] / widths[0], tops[1] / widths[1]
        worst = [spans.largest(each).tolist() for each in ratios]
        widest = np.maximum(*widths)
        for place, ask in enumerate(asks):
            if not inside[place]:
                continue
            # Of equal ratios the first counts, and that side comes first where an output is too small.
            side = int(not worst[0][place] >= worst[1][place])
            span, pair = spans.slices[place], chosen[ask.pair]
            row, start = int(ratios[side][span].argmax()), places.slices[pair].start
            begin = start + row * columns[pair]
            flat = row * columns[pair] + int(sides[side][begin : begin + columns[pair]].argmax())
            width = float(widest[span.start + row])
            blunt = self._is_blunt(pairs, whole[ask.pair].start + flat, width)
            ask.worst = Worst(flat, worst[side][place], blunt)

    def _is_blunt(self, pairs: Pairs, at: int, width: float) -> bool:
        """See `enclosure.is_blunt`."""
        return not half_gap_of(float(pairs.size[at]), self.passage.target) < width * float(pairs.values[at])


def _reaches(ask: Ask, smallest: float) -> bool:
    """Whether nothing is lost to operations that underflow in the steps of an ask."""
    assert isinstance(ask.passage, Passage)
    return all(reaches(smallest, step.absolute) for step in ask.passage.steps)


def _widths(asks: Sequence[Ask], rows: Sequence[slice], tracks: Tracks) -> tuple[F64, F64]:
    """How far each row of each ask may stray downwards and upwards, joined; as `Allowance.widths`, for these `rows` of
    all tracks."""
    shares = joined([tracks.shares[each] for each in rows])
    factors = np.array([ask.factors for ask in asks]).T
    down, up, more, less, most, least = factors.repeat([each.stop - each.start for each in rows], axis=1)
    below = np.abs(down / np.sqrt((1.0 + more * shares) * most) - 1.0)
    above = np.abs(up / np.sqrt((1.0 + less * shares) * least) - 1.0)
    if any(ask.lane.allowed.overflow is not None for ask in asks):
        dead = joined([_overflow(ask, each) for ask, each in zip(asks, rows, strict=True)])
        below, above = np.where(dead, 1.0, below), np.where(dead, 1.0, above)
    return below, above


def _overflow(ask: Ask, rows: slice) -> Mask:
    """Of the first rows of a track, or of all of them."""
    count, overflow = rows.stop - rows.start, ask.lane.allowed.overflow
    return np.zeros(count, bool) if overflow is None else overflow[:count]


def block_of(passage: Passage | Rounded) -> Block:
    """An empty block for outputs like this one."""
    if isinstance(passage, Rounded):
        return Given()
    return Near(passage) if passage.point is None else Pointed(passage)
