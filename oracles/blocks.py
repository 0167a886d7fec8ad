"""Blocks: outputs of many problems that follow from their rows in the same way, compared with their exact values in one
pass. See `oracles.batch`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from oracles.doubledouble import F64, head
from oracles.dtypes import Format
from oracles.enclosure import Mask, Worst
from oracles.numerics import Numerics
from oracles.operand import RowOperand, Weight
from oracles.ragged import Places, Ragged, joined
from oracles.rounding import half_gap_of_size, round_to
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
    """One problem under contracts that differ in their summation alone."""

    op: Screened
    numerics: Numerics
    """The first of the settled contracts."""
    allowed: Allowance
    track: int

    @property
    def formed(self) -> Format:
        """The dtype that the weight is formed in."""
        assert self.op.weight is not None
        return self.op.weight.formed_in(self.numerics)

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
        budget = allowed.budget
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


class Beam:
    """One output of a lane."""

    def __init__(self, lane: Lane, passage: Passage | Rounded, block: Block, centre: int) -> None:
        self.lane = lane
        self.passage = passage
        self.block = block
        self.centre = centre

    @cached_property
    def factors(self) -> tuple[float, ...]:
        """What enters the widths under all contracts: see `Allowance`."""
        assert isinstance(self.passage, Passage)
        budget = self.lane.allowed.budget
        return (*self.passage.factors(budget), 1.0 + budget.add, 1.0 - budget.add)

    def reaches(self, smallest: float) -> bool:
        """Whether nothing is lost to operations that underflow, where no product is smaller."""
        assert isinstance(self.passage, Passage)
        return all(reaches(smallest, step.absolute) for step in self.passage.steps)


class Ask:
    """One output beside one contract."""

    __slots__ = ("beam", "contract", "pair", "worst")

    def __init__(self, beam: Beam, contract: int, pair: int) -> None:
        self.beam = beam
        self.contract = contract
        self.pair = pair
        self.worst: Worst | None = None


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
        self.origins: list[Beam] = []
        """For each centre a beam that has it."""
        self.pairs: list[tuple[int, F64]] = []
        """Each is the number of a centre, and an output."""
        self._centres: dict[object, int] = {}
        self._pairs: dict[tuple[int, int], int] = {}

    def beam(self, lane: Lane, passage: Passage | Rounded) -> Beam:
        """Take an output in. Right values that were given are told apart by their identity."""
        key: object = id(passage)
        if isinstance(passage, Passage):
            key = lane.track, lane.formed if passage.weighted else None
        beam = Beam(lane, passage, self, self._centres.setdefault(key, len(self.origins)))
        if beam.centre == len(self.origins):
            self.origins.append(beam)
        return beam

    def ask(self, beam: Beam, contract: int, got: F64) -> Ask:
        """Take in what was got of it. Equal outputs are told from others by their identity."""
        pair = self._pairs.setdefault((beam.centre, id(got)), len(self.pairs))
        if pair == len(self.pairs):
            self.pairs.append((beam.centre, got))
        self.asks.append(Ask(beam, contract, pair))
        return self.asks[-1]

    def decide(self, tracks: Tracks) -> None:
        """Find the worst elements of all asks that are certain."""
        values, negative = self._exact(tracks)
        centres = [centre for centre, _ in self.pairs]
        if centres != list(range(len(self.origins))):
            sizes = {centre: got.size for centre, got in self.pairs}
            whole = Ragged.of(sizes[centre] for centre in range(len(self.origins))).slices
            values = joined([values[whole[centre]] for centre in centres])
            negative = joined([negative[whole[centre]] for centre in centres])
        got = joined([got for _, got in self.pairs])
        agrees, nan = np.signbit(got) == negative, None
        if np.isnan(values.sum()):  # of magnitudes: NaN just where one is
            nan = np.isnan(values)
            agrees = np.where(nan, np.isnan(got), agrees)
        places = Ragged.of(got.size for _, got in self.pairs)
        self._compare(Pairs(places, np.abs(got), values, nan, agrees), tracks)

    def _exact(self, tracks: Tracks) -> tuple[F64, Mask]:
        """Magnitudes and required sign bits of all centres, joined."""
        raise NotImplementedError

    def _compare(self, pairs: Pairs, tracks: Tracks) -> None:
        raise NotImplementedError


class Given(Block):
    """What equals its right values conforms, and else may."""

    def _exact(self, tracks: Tracks) -> tuple[F64, Mask]:
        given = [beam.passage for beam in self.origins if isinstance(beam.passage, Rounded)]
        return joined([each.values for each in given]), joined([each.negative for each in given])

    def _compare(self, pairs: Pairs, tracks: Tracks) -> None:
        equal = pairs.size == pairs.values
        if pairs.nan is not None:
            equal |= pairs.nan
        passed = pairs.places.every(equal & pairs.agrees).tolist()
        for ask in self.asks:
            if passed[ask.pair]:
                ask.worst = Worst(0, 0.0, blunt=True)


def products(beams: Sequence[Beam], passage: Passage, tracks: Tracks) -> tuple[F64, Mask]:
    """Magnitudes and sign bits of rstd or y before its last rounding, within the own error of an allowance."""
    places = tracks.rows.slices
    roots = joined([tracks.roots[places[beam.lane.track]] for beam in beams])
    if passage.per_row:
        return roots, np.zeros(len(roots), bool)
    operands = [tracks.operands[beam.lane.track] for beam in beams]
    shapes = [operand.values.shape for operand in operands]
    rows = np.array([columns for _, columns in shapes]).repeat([count for count, _ in shapes])
    values = roots.repeat(rows) * joined([operand.squares.magnitudes for operand in operands])
    negative = joined([operand.negative for operand in operands])
    if passage.point is not None:
        values = round_to(values, passage.point)
    if passage.weighted:
        weights = [beam.lane.weight() for beam in beams]
        values = values * joined(
            [np.broadcast_to(size, shape) for (size, _), shape in zip(weights, shapes, strict=True)]
        )
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
        strayed = np.abs(error)
        strayed -= half_gap_of_size(pairs.size, self.passage.target, error < 0)
        np.maximum(strayed, 0.0, out=strayed)
        if pairs.nan is not None:
            strayed[pairs.nan] = 0.0
        largest = pairs.places.largest(strayed).tolist()
        agrees = pairs.places.every(pairs.agrees).tolist()
        smallest = [self._smallest(beam, tracks) for beam in self.origins]
        near = {
            id(beam): beam.reaches(smallest[beam.centre]) for beam in {id(a.beam): a.beam for a in self.asks}.values()
        }
        sure = [
            ask for ask in self.asks
            if agrees[ask.pair] and largest[ask.pair] < np.inf and near[id(ask.beam)]
        ]  # fmt: skip
        if exact := [ask for ask in sure if not largest[ask.pair]]:
            self._pass_exact(exact, pairs, tracks)
        if stray := [ask for ask in sure if largest[ask.pair]]:
            self._pass_near(stray, pairs, np.copysign(strayed, error), tracks)

    def _smallest(self, beam: Beam, tracks: Tracks) -> float:
        """As `Centre.smallest`; inf of roots, which have no steps."""
        if self.passage.per_row:
            return np.inf
        track = beam.lane.track
        smallest = tracks.smallest[track] * tracks.operands[track].squares.smallest
        if not self.passage.weighted:
            return smallest
        magnitudes, _ = beam.lane.weight()
        return smallest * float(np.min(magnitudes, where=magnitudes > 0, initial=1.0))

    def _pass_exact(self, asks: Sequence[Ask], pairs: Pairs, tracks: Tracks) -> None:
        """Nothing strays: only whether the ratio, which is 0, means anything depends on the contract."""
        tracked = (tracks.rows.slices[ask.beam.lane.track] for ask in asks)
        widths = _widths(asks, [slice(each.start, each.start + 1) for each in tracked], tracks)
        at = pairs.places.starts[[ask.pair for ask in asks]]
        for ask, blunt in zip(asks, self._are_blunt(pairs, at, np.maximum(*widths)), strict=True):
            ask.worst = Worst(0, 0.0, blunt)

    def _pass_near(self, asks: Sequence[Ask], pairs: Pairs, strayed: F64, tracks: Tracks) -> None:
        """As `screen.compared` and `screen.Near`."""
        sides = _Sides(self, {ask.pair for ask in asks}, pairs, strayed)
        of_ask = [sides.rows_of[ask.pair] for ask in asks]
        spans = Ragged.of(each.stop - each.start for each in of_ask)
        widths = _widths(asks, [tracks.rows.slices[ask.beam.lane.track] for ask in asks], tracks)
        tops = [joined([top[each] for each in of_ask]) for top in sides.tops]
        slack = 2 * spans.spread(np.array([ask.beam.lane.allowed.own for ask in asks]))
        inside = spans.every((tops[0] <= widths[0] - slack) & (tops[1] <= widths[1] - slack)).tolist()
        ratios = tops[0] / widths[0], tops[1] / widths[1]
        largest = [spans.largest(each).tolist() for each in ratios]
        passed, flats, rows, found = list[Ask](), list[int](), list[int](), list[float]()
        for ask, span, is_inside, below, above in zip(asks, spans.slices, inside, *largest, strict=True):
            if not is_inside:
                continue
            # Of equal ratios the first counts, and that side comes first where an output is too small.
            side = 0 if below >= above else 1
            row = int(ratios[side][span].argmax())
            passed.append(ask)
            rows.append(span.start + row)
            flats.append(sides.place(ask.pair, side, row))
            found.append(below if side == 0 else above)
        if not passed:
            return
        at = pairs.places.starts[[ask.pair for ask in passed]] + flats
        blunt = self._are_blunt(pairs, at, np.maximum(*widths)[rows])
        for ask, flat, ratio, is_blunt in zip(passed, flats, found, blunt, strict=True):
            ask.worst = Worst(flat, ratio, is_blunt)

    def _are_blunt(self, pairs: Pairs, at: Places, widths: F64) -> list[bool]:
        """For elements at these places see `enclosure.is_blunt`."""
        size = pairs.size[at]
        half = half_gap_of_size(size, self.passage.target, np.zeros(len(size), bool))
        blunt: list[bool] = (~(half < widths * pairs.values[at])).tolist()
        return blunt


class _Sides:
    """How far the elements of some pairs stray, relative to the exact values: negative where outputs are too small. And
    the largest of each row on either side. As `screen.Strays`."""

    def __init__(self, block: Near, chosen: Collection[int], pairs: Pairs, strayed: F64) -> None:
        whole = pairs.places.slices
        strayed, values = (joined([each[whole[pair]] for pair in chosen]) for each in (strayed, pairs.values))
        # Where zero is exact, what strays is infinitely far away, and was not chosen.
        relative = np.divide(strayed, values, out=strayed, where=strayed != 0)
        self.relative = relative
        shapes = [(*block.pairs[pair][1].shape, 1)[:2] for pair in chosen]
        counts, columns = [count for count, _ in shapes], [length for _, length in shapes]
        below, above = relative, relative
        if not block.passage.per_row:
            rows = Ragged(np.array(columns).repeat(counts)).starts
            below, above = np.minimum.reduceat(relative, rows), np.maximum.reduceat(relative, rows)
        self.tops = np.maximum(-below, 0.0), np.maximum(above, 0.0)
        self.rows_of = dict(zip(chosen, Ragged.of(counts).slices, strict=True))
        """The places of a pair's rows."""
        starts = np.cumsum([0, *(count * length for count, length in shapes)]).tolist()
        self._lies = {pair: (start, length) for pair, start, length in zip(chosen, starts, columns, strict=False)}
        self._places: dict[tuple[int, int, int], int] = {}

    def place(self, pair: int, side: int, row: int) -> int:
        """The place in a pair, counted from its start, of the element that strays most on one side of a row."""
        key = pair, side, row
        if key not in self._places:
            start, length = self._lies[pair]
            begin = start + row * length
            of_row = self.relative[begin : begin + length]
            self._places[key] = row * length + int(of_row.argmin() if side == 0 else of_row.argmax())
        return self._places[key]


def _widths(asks: Sequence[Ask], rows: Sequence[slice], tracks: Tracks) -> tuple[F64, F64]:
    """How far each row of each ask may stray downwards and upwards, joined; as `Allowance.widths`, for these `rows` of
    all tracks."""
    shares = joined([tracks.shares[each] for each in rows])
    factors = np.array([(*ask.beam.factors, *ask.beam.lane.allowed.ends[ask.contract]) for ask in asks]).T
    down, up, most, least, more, less = factors.repeat([each.stop - each.start for each in rows], axis=1)
    below = np.abs(down / np.sqrt((1.0 + more * shares) * most) - 1.0)
    above = np.abs(up / np.sqrt((1.0 + less * shares) * least) - 1.0)
    if any(ask.beam.lane.allowed.overflow is not None for ask in asks):
        dead = joined([_overflow(ask, each) for ask, each in zip(asks, rows, strict=True)])
        below, above = np.where(dead, 1.0, below), np.where(dead, 1.0, above)
    return below, above


def _overflow(ask: Ask, rows: slice) -> Mask:
    """Of the first rows of a track, or of all of them."""
    count, overflow = rows.stop - rows.start, ask.beam.lane.allowed.overflow
    return np.zeros(count, bool) if overflow is None else overflow[:count]


def block_of(passage: Passage | Rounded) -> Block:
    """An empty block for outputs like this one."""
    if isinstance(passage, Rounded):
        return Given()
    return Near(passage) if passage.point is None else Pointed(passage)
