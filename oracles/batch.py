"""Batch: the screen of many problems at once, for searches, whose problems are small.

A screen (see `oracles.screen`) calls NumPy some fifty times for each problem, which for a few hundred elements is
nearly all that it costs. Here the rows of all problems and the outputs of all kernels are joined, and each step is
taken once. What is decided, and what is said of it, is what `oracles.screen` says of one problem after the other under
one contract, bit for bit: the same operations are done to every element, and of rows and outputs only maxima and minima
are formed. So its bounds are those that are derived there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oracles.blocks import Ask, Block, Lane, Screened, Tracks, block_of
from oracles.enclosure import Worst
from oracles.numerics import Numerics, NumericsError
from oracles.screen import Received

Query = tuple[Numerics, Received]
"""A contract, and all outputs of a kernel that promises it."""


@dataclass(frozen=True, eq=False)
class Asked:
    """Outputs of one problem that are to be judged."""

    op: Screened
    structured: bool
    queries: Sequence[Query]


Answer = Sequence[Worst] | None
"""The worst element of each output of a kernel, where all elements of all of them certainly conform; None decides
nothing."""


def certain(asked: Sequence[Asked]) -> list[list[Answer]]:
    """An answer to each query."""
    # NaN, inf, overflow and division by zero are ordinary values here.
    with np.errstate(all="ignore"):
        tracks, blocks = Tracks(), dict[object, Block]()
        asks = [_asks(each, tracks, blocks) for each in asked]
        tracks.join()
        for block in blocks.values():
            block.decide(tracks)
    return [[_answer(of_query) for of_query in each] for each in asks]


def _answer(asks: Sequence[Ask]) -> Answer:
    found = [ask.worst for ask in asks if ask.worst is not None]
    return found if found and len(found) == len(asks) else None


def _asks(asked: Asked, tracks: Tracks, blocks: dict[object, Block]) -> list[list[Ask]]:
    """What blocks are asked for each query: nothing where a screen cannot tell."""
    lanes = dict[Numerics, Lane | None]()
    found = []
    for numerics, received in asked.queries:
        if numerics not in lanes:
            lanes[numerics] = _lane(asked, numerics, tuple(received.values), tracks)
        lane, asks = lanes[numerics], list[Ask]()
        if lane is not None:
            for output, passage in lane.passages.items():
                if passage.way not in blocks:
                    blocks[passage.way] = block_of(passage)
                asks.append(blocks[passage.way].ask(lane, passage, received.values[output]))
        found.append(asks)
    return found


def _lane(asked: Asked, numerics: Numerics, outputs: Sequence[str], tracks: Tracks) -> Lane | None:
    op, settled = asked.op, numerics.settled(asked.op.dtype.name)
    try:
        allowed = op.allowed([settled], asked.structured)
    except NumericsError:
        return None
    passages = {output: passage for output in outputs if (passage := op.passage(output, settled)) is not None}
    if allowed is None or len(passages) < len(outputs):
        return None
    return Lane(op, settled, allowed, tracks.place(op.operand(settled), allowed), passages)
