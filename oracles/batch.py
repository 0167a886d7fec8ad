"""Batch: the screen of many problems at once, for searches, whose problems are small.

A screen (see `oracles.screen`) calls NumPy some fifty times for each problem, which for a few hundred elements is
nearly all that it costs. Here the rows of all problems and the outputs of all kernels are joined, and each step is
taken once. What is decided, and what is said of it, is what `oracles.screen` says of one problem after the other, bit
for bit: the same operations are done to every element, and of rows and outputs only maxima and minima are formed. So
its bounds are those that are derived there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oracles.blocks import Ask, Beam, Block, block_of
from oracles.enclosure import Worst
from oracles.lanes import Lane, Screened, Tracks
from oracles.numerics import Groups, Numerics, NumericsError, alike
from oracles.rows import FLOAT64, Squares, prepare
from oracles.screen import Received, Rounded
from oracles.steps import Passage

Query = tuple[Any, Received]
"""A contract, and all outputs of a kernel that promises it."""

JOINED_ELEMENTS = 1 << 15
"""Outputs of about so many elements are joined, so that what is made of them fits into a processor's own cache: with 1
MiB of it this took 0.18 ms a case of a search, all of 190 cases together 0.23 and a quarter as many elements 0.27."""


@dataclass(eq=False, slots=True)
class Asked:
    """Outputs of one problem that are to be judged."""

    op: Screened
    structured: bool
    queries: Sequence[Query]

    @property
    def size(self) -> int:
        """The elements of its outputs; equal ones are the same object."""
        received = {id(received): received for _, received in self.queries}
        return sum(got.size for each in received.values() for got in each.values.values())


Answer = Sequence[Worst] | None
"""The worst element of each output of a kernel, where all elements of all of them certainly conform; None decides
nothing."""


def certain(asked: Sequence[Asked]) -> list[list[Answer]]:
    """An answer to each query."""
    found, joined, size = list[list[Answer]](), list[Asked](), 0
    for each, own in ((each, each.size) for each in asked):
        if size and size + own > JOINED_ELEMENTS:
            found += _joined(joined)
            joined, size = [], 0
        joined.append(each)
        size += own
    return found + _joined(joined)


def _joined(asked: Sequence[Asked]) -> list[list[Answer]]:
    batch = _Batch()
    # NaN, inf, overflow and division by zero are ordinary values here.
    with np.errstate(all="ignore"):
        groups = [alike(tuple(dict(each.queries)), each.op.dtype.name) for each in asked]
        prepare(_squares(asked, groups))
        asks = [batch.asks(each, of_each) for each, of_each in zip(asked, groups, strict=True)]
        batch.decide()
    return [[_answer(of_query) for of_query in each] for each in asks]


def _answer(asks: Sequence[Ask]) -> Answer:
    found = [ask.worst for ask in asks if ask.worst is not None]
    return found if found and len(found) == len(asks) else None


def _squares(asked: Sequence[Asked], groups: Sequence[Groups]) -> list[Squares]:
    """Those of all that is normalised, once each."""
    every: dict[int, Squares] = {}
    for each, of_each in zip(asked, groups, strict=True):
        for group in of_each:
            squares = each.op.operand(next(iter(group.values()))).squares
            if squares.x.size and squares.arithmetic is FLOAT64:
                every[id(squares)] = squares
    return list(every.values())


class _Batch:
    def __init__(self) -> None:
        self.tracks = Tracks()
        self.blocks: dict[object, Block] = {}

    def asks(self, asked: Asked, groups: Groups) -> list[list[Ask]]:
        """What blocks are asked for each query: nothing where a screen cannot tell."""
        places = dict[Numerics, tuple[Sequence[Beam], int]]()
        for group in groups:
            beams = self._beams(asked, list(group.values()), list(asked.queries[0][1].values))
            places.update((numerics, (beams, place)) for place, numerics in enumerate(group))
        found = []
        for numerics, received in asked.queries:
            known, place = places[numerics]
            got = received.values.values()
            found.append([beam.block.ask(beam, place, each) for beam, each in zip(known, got, strict=False)])
        return found

    def _beams(self, asked: Asked, contracts: Sequence[Numerics], outputs: Sequence[str]) -> list[Beam]:
        """For all outputs, under settled contracts that differ in their summation alone; none where a screen cannot
        tell of all of them."""
        op = asked.op
        try:
            allowed = op.allowed(contracts, asked.structured)
        except NumericsError:  # the others have their enclosures
            return []
        passages = [passage for name in outputs if (passage := op.passage(name, contracts[0])) is not None]
        if allowed is None or len(passages) < len(outputs):
            return []
        lane = Lane(op, contracts[0], allowed, self.tracks.place(op.operand(contracts[0]), allowed))
        return [self._block(passage).beam(lane, passage) for passage in passages]

    def _block(self, passage: Passage | Rounded) -> Block:
        if passage.way not in self.blocks:
            self.blocks[passage.way] = block_of(passage)
        return self.blocks[passage.way]

    def decide(self) -> None:
        """Find the worst elements."""
        self.tracks.join()
        for block in self.blocks.values():
            block.decide(self.tracks)
