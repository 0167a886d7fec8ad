"""The search of one op: 64 shards that take turns. The cases of a turn depend only on its place and shard's state."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import count

from fuzz.core.base.capability import Capability
from fuzz.core.base.case import BIG
from fuzz.core.base.draw import Draw
from fuzz.core.base.errors import UsageError
from fuzz.core.base.kernel import Kernel, capabilities_of
from fuzz.core.base.numbers import in_turn
from fuzz.core.base.stream import Dice, Stream
from fuzz.core.generate.big import Due, big_case, series
from fuzz.core.generate.capabilities import anything
from fuzz.core.generate.menus import check_menus
from fuzz.core.generate.realise import cases_of, laid
from fuzz.core.generate.relatives import mate
from fuzz.core.generate.turn import BATCH, PLACES, Made, Turn, TurnMaker
from oracles.operand import OpError
from oracles.ops import OPS

SHARDS = 64
"""The number of shards of a search, however many processes run their turns."""


_MATES = 1 << 16
"""The first number of mates is this times PLACES. No other case of a turn has a number that large."""
_PLANS = 1 << 20
"""The number of draws for pairs with one of which a search begins, so that two seeds pair conditions differently."""
_EACH = 32
"""The number of mates that each case of a turn may have."""


Proposal = tuple[Draw, Capability, int]
"""A draw that a guide proposes, its capability, and its place in a turn."""


class Search:
    """The search of one op: the capability of each turn, and its cases.

    Cases depend only on the op, the seed, the declarations of kernels and the numbers in their sources, not on which
    kernels really run or on verdicts. Cases are within the capabilities of the kernels of the op or, without kernels,
    within everything that the op allows. Raise UsageError if inputs of the op cannot be drawn.
    """

    def __init__(self, op: str, seed: int, kernels: Iterable[Kernel] = (), *, sequences: bool = True) -> None:
        try:
            check_menus(OPS[op])
        except OpError as error:
            raise UsageError(str(error)) from error
        self.op, self.seed, self.sequences = op, seed, sequences
        self._kernels = [kernel for kernel in kernels if kernel.op == op]
        self.capabilities = capabilities_of(self._kernels, op) or (anything(op),)
        """Each distinct capability once, in the order of the kernels."""
        self._makers: dict[int, TurnMaker] = {}

    def turns(self, chosen: Collection[Capability] | None = None) -> Iterator[Turn]:
        """Yield turns without end: turn 0 of each shard, then turn 1 of each, and so on. If `chosen` is given, yield
        only turns for these capabilities. Raise UsageError if the search does not have them."""
        wanted = self.capabilities if chosen is None else [each for each in self.capabilities if each in chosen]
        if not wanted:
            raise UsageError(f"op {self.op}: none of the chosen kernels is of the search")
        every = (Turn(shard, number) for number in count() for shard in range(SHARDS))
        return (turn for turn in every if self.capability(turn) in wanted)

    def capability(self, turn: Turn) -> Capability:
        """Return the capability whose cases the turn makes."""
        return self.capabilities[(turn.number + turn.shard) % len(self.capabilities)]

    def cases(self, turn: Turn, state: bytes) -> tuple[list[Made], bytes]:
        """Return a turn's cases, without a guide's relatives, and the state for the shard's next turn of this
        capability. The state for the first turn is b''."""
        maker = self._maker((turn.number + turn.shard) % len(self.capabilities))
        stream = Stream(0).child(f"{self.seed}:{self.op}:{turn.shard}:{turn.number}")
        return maker.cases(turn, stream, self._rank(turn), state)

    def relatives(self, proposed: Sequence[Proposal], turn: Turn) -> list[Made | None]:
        """Return the cases of draws that a guide proposes for places of a turn, with None if its capability refuses."""
        cases = cases_of([laid(draw, turn.shard, turn.first - 1 + place) for draw, _, place in proposed])
        return [
            Made(case, draw, capability) if capability.refusal(case) is None else None
            for case, (draw, capability, _) in zip(cases, proposed, strict=True)
        ]

    def with_mates(self, made: Sequence[Made], turn: Turn, count: int) -> list[Made]:
        """Return the cases of a turn, each followed by up to `count` mates. Mates run the same program in kernels that
        are compiled for each length. Mates that the capability refuses are left out."""
        found = list[Made]()
        for index, each in enumerate(made):
            found.append(each)
            found += [mate for mate in _mates(each, turn, index, range(count)) if mate is not None]
        return found

    def case(self, shard: int, number: int) -> Made | None:
        """Return the case of a shard with this number, or None if the number is that of a guide's relative."""
        turn, place = Turn(shard, number // PLACES), number % PLACES
        if not place and turn.number >= _MATES:
            return self._mate(Turn(shard, turn.number // _MATES - 1), *divmod(turn.number % _MATES, _EACH))
        if not (0 <= shard < SHARDS and turn.number >= 0 and 1 <= place <= BATCH):
            return None
        state, made = b"", list[Made]()
        for earlier in range(turn.number % len(self.capabilities), turn.number + 1, len(self.capabilities)):
            made, state = self.cases(Turn(shard, earlier), state)
        return made[place - 1]

    def _mate(self, turn: Turn, index: int, number: int) -> Made | None:
        own = self.case(turn.shard, turn.first + index)
        return None if own is None else _mates(own, turn, index, range(number, number + 1))[0]

    @cached_property
    def big_series(self) -> tuple[Due, ...]:
        """The big cases, each with the number of turns after which it is due. They are the same for every seed."""
        return tuple(series(self.op))

    def big(self, number: int, chosen: Collection[Capability] | None = None) -> Made | None:
        """Return the big case of this number, from 1, or None if there is none or no `chosen` capability takes it."""
        for due in self.big_series:
            if due.number == number:
                case = big_case(due.big, self.op, due.optional)
                takers = [each for each in self.capabilities if chosen is None or each in chosen]
                taker = next((each for each in takers if each.refusal(case) is None), None)
                placed = replace(case, origin=replace(case.origin, shard=BIG, number=number))
                return Made(placed, None, taker) if taker is not None else None
        return None

    def _maker(self, place: int) -> TurnMaker:
        """Return the `TurnMaker` of the capability at index `place`. Making it takes tens of milliseconds."""
        if place not in self._makers:
            ahead = -(-SHARDS // len(self.capabilities))
            capability = self.capabilities[place]
            sources = [kernel.numbers for kernel in self._kernels if kernel.capability == capability]
            kinds, numbers = len(self.capabilities), in_turn(sources)
            first = Dice(Stream(0).child(f"pairs of {self.seed}:{self.op}")).below(_PLANS)
            self._makers[place] = TurnMaker(
                capability, place * ahead, self.sequences, numbers, kinds=kinds, first_pair=first + place
            )
        return self._makers[place]

    def _rank(self, turn: Turn) -> int:
        """Return the number of turns for the same capability that come before this turn."""
        kinds = len(self.capabilities)
        index = (turn.number + turn.shard) % kinds
        whole, rest = divmod(turn.number, kinds)  # in each `kinds` turns of all shards, a capability has SHARDS turns
        before = sum(_in_round(SHARDS, (index - number) % kinds, kinds) for number in range(rest))
        return whole * SHARDS + before + _in_round(turn.shard, (index - turn.number) % kinds, kinds)


def _mates(made: Made, turn: Turn, index: int, numbers: Sequence[int]) -> list[Made | None]:
    """Return the mates with these numbers of the case at `index` of a turn, or None if its capability refuses one."""
    if made.draw is None:
        return [None for _ in numbers]
    draws = [mate(made.draw, made.capability, number) for number in numbers]
    first = (turn.number + 1) * _MATES + index * _EACH
    cases = cases_of([laid(d, turn.shard, (first + n) * PLACES) for d, n in zip(draws, numbers, strict=True)])
    return [
        Made(case, draw, made.capability) if made.capability.refusal(case) is None else None
        for case, draw in zip(cases, draws, strict=True)
    ]


def _in_round(shards: int, first: int, kinds: int) -> int:
    """Return how many of the first `shards` shards have a turn for one capability: every `kinds`-th from `first`."""
    return max(0, -(-(shards - first) // kinds))


def batches(
    search: Search, chosen: Collection[Capability] | None = None, *, big_first: bool = False
) -> Iterator[list[Made]]:
    """Yield the cases of a search without end, turn by turn. Each big case comes alone: when it is due or, with
    `big_first`, one after each turn."""
    states: dict[tuple[int, Capability], bytes] = {}
    waiting = [(due.place if big_first else due.after, due.number) for due in search.big_series]
    for taken, turn in enumerate(search.turns(chosen)):
        shard = (turn.shard, search.capability(turn))
        made, states[shard] = search.cases(turn, states.get(shard, b""))
        yield made
        for number in [number for after, number in waiting if after == taken]:
            big = search.big(number, chosen)
            if big is not None:
                yield [big]
