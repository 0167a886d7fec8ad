"""Blocks: outputs of many problems that follow from their rows in the same way, compared with their exact values in one
pass. See `oracles.batch`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oracles.doubledouble import F64
from oracles.dtypes import FORMATS
from oracles.enclosure import Mask, Worst
from oracles.lanes import Lane, Tracks
from oracles.lazy import lazy
from oracles.ragged import Ragged, Rows, joined
from oracles.rounding import half_gaps, round_to
from oracles.screen import Rounded, reaches
from oracles.steps import Passage

_AS_GIVEN = Passage(FORMATS["f64"], per_row=False)
"""Nothing leads to values that are given."""
_NO_WEIGHT = np.ones(1), np.zeros(1, bool)
_LEAST = float(np.nextafter(0.0, 1.0))
"""The smallest positive number."""


class Beam:
    """One output of a lane."""

    def __init__(self, lane: Lane, passage: Passage | Rounded, block: Block, centre: int) -> None:
        self.lane = lane
        self.given = passage if isinstance(passage, Rounded) else None
        self.passage = _AS_GIVEN if isinstance(passage, Rounded) else passage
        self.block = block
        self.centre = centre
        self.number = len(block.beams)

    @lazy
    def factors(self) -> tuple[float, ...]:
        """What enters the widths under all contracts: see `Allowance`."""
        budget = self.lane.allowed.budget
        return (*self.passage.factors(budget), 1.0 + budget.add, 1.0 - budget.add)

    @lazy
    def weight(self) -> tuple[F64, Mask]:
        """Magnitudes and sign bits, for each column or for each element."""
        assert self.lane.op.weight is not None
        return self.lane.op.weight.at(self.lane.numerics)

    def reaches(self, tracks: Tracks) -> bool:
        """Whether nothing is lost to operations that underflow: see `Centre.smallest`."""
        if not self.passage.steps:
            return True
        track = self.lane.track
        smallest = tracks.smallest[track] * tracks.operands[track].squares.smallest
        if self.passage.weighted:
            magnitudes, _ = self.weight
            smallest *= float(np.min(magnitudes, where=magnitudes > 0, initial=1.0))
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
        self.beams: list[Beam] = []
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
            key = lane.track, passage.target.name, passage.per_row, lane.formed.name if passage.weighted else ""
        beam = Beam(lane, passage, self, self._centres.setdefault(key, len(self.origins)))
        if beam.centre == len(self.origins):
            self.origins.append(beam)
        self.beams.append(beam)
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
        given = [beam.given for beam in self.origins if beam.given is not None]
        return joined([each.values for each in given]), joined([each.negative for each in given])

    def _compare(self, pairs: Pairs, tracks: Tracks) -> None:
        equal = pairs.size == pairs.values
        if pairs.nan is not None:
            equal |= pairs.nan
        passed = pairs.places.every(equal & pairs.agrees).tolist()
        for ask in self.asks:
            if passed[ask.pair]:
                ask.worst = Worst(0, 0.0, blunt=True)


def products(beams: Sequence[Beam], tracks: Tracks) -> tuple[F64, Mask]:
    """Magnitudes and sign bits of x * rstd, or of rstd, which is its row's only element."""
    places = tracks.rows.slices
    roots, factors, columns = list[F64](), list[F64](), list[int]()
    for beam in beams:
        track, values = beam.lane.track, tracks.operands[beam.lane.track].values
        roots.append(tracks.roots[places[track]])
        factors.append(np.ones(len(values)) if beam.passage.per_row else values)
        columns.append(1 if beam.passage.per_row else values.shape[1])
    rows = np.array(columns).repeat([len(each) for each in roots])
    together = joined(factors)
    return joined(roots).repeat(rows) * np.abs(together), np.signbit(together)


def weighted(values: F64, negative: Mask, beams: Sequence[Beam], tracks: Tracks) -> tuple[F64, Mask]:
    """The products with the weights of those that have one."""
    if not any(beam.passage.weighted for beam in beams):
        return values, negative
    sizes, signs = list[F64](), list[Mask]()
    for beam in beams:
        shape = tracks.operands[beam.lane.track].values.shape
        size, sign = beam.weight if beam.passage.weighted else _NO_WEIGHT
        shape = shape[: 1 if beam.passage.per_row else 2]
        sizes.append(np.broadcast_to(size, shape))
        signs.append(np.broadcast_to(sign, shape))
    return values * joined(sizes), negative ^ joined(signs)


class Pointed(Given):
    """The same of a product with the root that is rounded as declared on its way."""

    def __init__(self, passage: Passage) -> None:
        super().__init__()
        self.passage = passage

    def _exact(self, tracks: Tracks) -> tuple[F64, Mask]:
        assert self.passage.point is not None
        values, negative = products(self.origins, tracks)
        values, negative = weighted(round_to(values, self.passage.point), negative, self.origins, tracks)
        return round_to(values, self.passage.target), negative


class Near(Block):
    """Outputs whose value before their only rounding may be anywhere in an interval around the exact one."""

    def _exact(self, tracks: Tracks) -> tuple[F64, Mask]:
        return weighted(*products(self.origins, tracks), self.origins, tracks)

    def _compare(self, pairs: Pairs, tracks: Tracks) -> None:
        """As `Centre.strays`, `screen.compared` and `Near.worst`. Where nothing strays, the ratio is 0 in the first
        element; where something is NaN or infinitely far away, no row is inside."""
        forms = [self.origins[centre].passage.target for centre, _ in self.pairs]
        tiny, u = np.array([[form.tiny for form in forms], [form.u for form in forms]])
        error = pairs.size - pairs.values
        strayed = np.abs(error)
        strayed -= half_gaps(pairs.size, pairs.places.spread(tiny), pairs.places.spread(u), error < 0)
        np.maximum(strayed, 0.0, out=strayed)
        if pairs.nan is not None:
            strayed[pairs.nan] = 0.0
        # Where zero is exact what strays is further away than anything is allowed, and where NaN is nothing strays.
        strayed /= np.fmax(pairs.values, _LEAST)
        relative = np.copysign(strayed, error)
        rows = Rows.of([got.shape for _, got in self.pairs])
        # Zeros get a sign of their own: their ratio would be shown with it.
        low = np.maximum(0.0 - np.minimum.reduceat(relative, rows.elements.starts), 0.0)
        high = np.maximum(np.maximum.reduceat(relative, rows.elements.starts), 0.0) + 0.0
        agrees = pairs.places.every(pairs.agrees).tolist()
        near = [beam.reaches(tracks) for beam in self.beams]
        asks = [ask for ask in self.asks if agrees[ask.pair] and near[ask.beam.number]]
        if asks:
            self._pass(asks, pairs, relative, (low, high), rows, tracks)

    def _pass(
        self, asks: Sequence[Ask], pairs: Pairs, relative: F64, sides: tuple[F64, F64], rows: Rows, tracks: Tracks
    ) -> None:
        of_pair = [ask.pair for ask in asks]
        spans = Ragged(rows.places.lengths[of_pair])
        at_pair = spans.places_from(rows.places.starts[of_pair])
        widths = _widths(asks, spans, tracks)
        low, high = (side[at_pair] for side in sides)
        slack = 2 * spans.spread(np.array([ask.beam.lane.allowed.own for ask in asks]))
        inside = spans.every((low <= widths[0] - slack) & (high <= widths[1] - slack))
        ratios = low / widths[0], high / widths[1]
        below, above = (spans.largest(each) for each in ratios)
        # Of equal ratios the first counts, and that side comes first where an output is too small.
        is_above = below < above
        worst = np.where(is_above, above, below)
        chosen = np.where(spans.spread(is_above), ratios[1], ratios[0])
        in_row = spans.first(chosen == spans.spread(worst))
        passed, at_rows = list[tuple[Ask, int, float]](), (in_row + spans.starts)[inside]
        known: dict[tuple[int, bool, int], int] = {}
        found = zip(asks, inside.tolist(), is_above.tolist(), in_row.tolist(), worst.tolist(), strict=True)
        for ask, is_inside, side, row, ratio in found:
            if not is_inside:
                continue
            key = ask.pair, side, row
            if key not in known:
                at = rows.row(ask.pair, row)
                place = relative[at].argmax() if side else relative[at].argmin()
                known[key] = at.start + int(place) - pairs.places.slices[ask.pair].start
            passed.append((ask, known[key], ratio))
        self._note(passed, pairs, np.maximum(*widths)[at_rows])

    def _note(self, passed: Sequence[tuple[Ask, int, float]], pairs: Pairs, widths: F64) -> None:
        """What passes, with the place of its worst element and the ratio there; and how far that may stray."""
        if not passed:
            return
        at = pairs.places.starts[[ask.pair for ask, _, _ in passed]] + [flat for _, flat, _ in passed]
        forms = [ask.beam.passage.target for ask, _, _ in passed]
        tiny, u = np.array([[form.tiny for form in forms], [form.u for form in forms]])
        size = pairs.size[at]
        # See `enclosure.is_blunt`.
        blunt = ~(half_gaps(size, tiny, u, np.zeros(len(size), bool)) < widths * pairs.values[at])
        for (ask, flat, ratio), is_blunt in zip(passed, blunt.tolist(), strict=True):
            ask.worst = Worst(flat, ratio, is_blunt)


def _widths(asks: Sequence[Ask], spans: Ragged, tracks: Tracks) -> tuple[F64, F64]:
    """How far each row of each ask may stray downwards and upwards, joined; as `Allowance.widths`."""
    shares = tracks.shares[spans.places_from(tracks.rows.starts[[ask.beam.lane.track for ask in asks]])]
    factors = np.array([(*ask.beam.factors, *ask.beam.lane.allowed.ends[ask.contract]) for ask in asks]).T
    down, up, most, least, more, less = factors.repeat(spans.lengths, axis=1)
    below = np.abs(down / np.sqrt((1.0 + more * shares) * most) - 1.0)
    above = np.abs(up / np.sqrt((1.0 + less * shares) * least) - 1.0)
    for ask, span in zip(asks, spans.slices, strict=True):
        overflow = ask.beam.lane.allowed.overflow
        if overflow is not None:
            below[span][overflow] = above[span][overflow] = 1.0
    return below, above


def block_of(passage: Passage | Rounded) -> Block:
    """An empty block for outputs like this one."""
    if isinstance(passage, Rounded):
        return Given()
    return Near() if passage.point is None else Pointed(passage)
