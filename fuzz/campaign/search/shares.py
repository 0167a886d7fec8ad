"""Which of the ops that are searched together is given the next turn, and for how long."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

LEAST_ON_THEIR_WAY = 2
"""At least this many turns per process are handed out, at any pace: one is judged while the next one runs."""
_MOST_COMPILED = 3
"""At most this many turns per process are handed out if programs are compiled for them. Which op is next is decided
when a turn is handed out, from what earlier turns took."""
_STINT_S = 5.0
"""Without a limit of time, an op keeps its processes for this many seconds for each of its capabilities, then others
have them. Chosen: five times what a process needs to read an op."""
_FIRST_TURN_S = 1.0
"""The assumed seconds of a turn before any has ended."""


@dataclass
class Pace:
    """The turns of one op: how many began and ended, and how many seconds they took."""

    begun: int = 0
    ended: int = 0
    seconds: float = 0.0
    rounds: int = 0
    """How often the op has had its share of the time."""

    @property
    def on_their_way(self) -> int:
        """The number of turns that have begun and not ended."""
        return self.begun - self.ended

    @property
    def expected(self) -> float:
        """The seconds that processes have spent on the op, and will spend on the turns that have begun."""
        return self.seconds + self.on_their_way * (self.seconds / self.ended if self.ended else _FIRST_TURN_S)


@dataclass
class OpShares:
    """The shares of the ops in the time of the processes. Reading an op takes a process about a second, and a minute
    may be shared by fifty ops, so that no more ops are searched at once than there are processes. Each op keeps its
    processes until it has had its share of the time."""

    weights: Mapping[str, int]
    """The ops, in the order in which they begin, with the number of capabilities that share each op's time."""
    processes: int
    compiled: bool = False
    """Whether turns wait seconds for programs to be compiled. Then all ops are searched at once, the one with the least
    time first: some compile while others run."""
    paces: Mapping[str, Pace] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.paces = {op: Pace() for op in self.weights}

    def in_turn(self, seconds: float, on_their_way: int) -> Sequence[str]:
        """Return the ops that may be given a turn, first the one with the fewest on their way. `seconds` are left by
        the clock, infinite where no limit is set. An op that is not due begins only if a process would be idle."""
        if self.compiled:
            return self.by_time() if on_their_way < _MOST_COMPILED * self.processes else ()
        left = self._left(seconds * self.processes)
        # An op begins on the process of one that has had its share and whose last turns have ended.
        ending = sum(pace.on_their_way > 0 for op, pace in self.paces.items() if op not in left)
        count = max(1, self.processes - ending)
        due = sorted(left[:count], key=lambda op: self.paces[op].on_their_way)
        if on_their_way >= LEAST_ON_THEIR_WAY * self.processes:
            return due
        return [*due, *left[count:], *(op for op in self.weights if op not in left)]

    def by_time(self) -> Sequence[str]:
        """Return all ops, first the one that had the least time."""
        return sorted(self.weights, key=lambda op: self.paces[op].expected)

    def _left(self, to_come: float) -> Sequence[str]:
        """Return the ops that have not had their share of the time in this round, at least one."""
        now = min(pace.rounds for pace in self.paces.values())
        left = [op for op, pace in self.paces.items() if pace.rounds == now]
        share = (to_come + sum(self.paces[op].seconds for op in left)) / sum(self.weights[op] for op in left)
        each = (now + 1) * _STINT_S if share == math.inf else share
        done = [op for op in left if self.paces[op].expected >= each * self.weights[op]]
        for op in done:
            self.paces[op].rounds += 1
        return [op for op in left if op not in done] or self.by_time()


def fittest(queues: Sequence[tuple[int, bool]]) -> int:
    """Return the number of the process that takes a turn. Of each one `queues` say how many turns it has, and whether
    it has read the op. The one with the fewest turns of those that have read it takes the turn, unless another process
    would be idle."""
    fewest = min(turns for turns, _ in queues)
    most = fewest + LEAST_ON_THEIR_WAY if fewest < LEAST_ON_THEIR_WAY else math.inf
    return min(range(len(queues)), key=lambda each: (not queues[each][1] or queues[each][0] >= most, queues[each][0]))
