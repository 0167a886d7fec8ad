"""Which op is given the next turn where several share processes and time."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from fuzz.campaign.search.schedule import OpShares, fittest

_READS_S = 1.0


@dataclass
class _Process:
    """A process in a simulation: what is in its queue, and until when it is at the first turn."""

    tasks: deque[str] = field(default_factory=deque)
    told: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)
    until: float = 0.0


def _simulated(
    costs: Mapping[str, float], weights: Mapping[str, int], processes: int, seconds: float
) -> tuple[OpShares, int]:
    """Return the shares after a search of `seconds` in which a turn of each op takes as long as `costs` say, and how
    often a process has read an op."""
    shares, crew, now = OpShares(weights, processes), [_Process() for _ in range(processes)], 0.0
    while now < seconds:
        while (in_hand := sum(pace.on_their_way for pace in shares.paces.values())) < 4 * processes:
            ready = (op for op in shares.in_turn(seconds - now, in_hand) if shares.paces[op].on_their_way < 8)
            op = next(ready, None)
            if op is None:
                break
            process = crew[fittest([(len(each.tasks), op in each.told) for each in crew])]
            process.tasks.append(op)
            process.told.add(op)
            shares.paces[op].begun += 1
        for process in crew:
            while process.tasks and process.until <= now:
                op = process.tasks[0]
                if op not in process.read:
                    process.read.add(op)
                    process.until = now + _READS_S
                    shares.paces[op].seconds += _READS_S
                    break
                process.until = now + costs[op]
                shares.paces[op].seconds += costs[op]
                shares.paces[op].ended += 1
                process.tasks.popleft()
        now += 0.05
    return shares, sum(len(process.read) for process in crew)


def test_an_op_is_read_by_few_processes_and_every_op_has_its_time() -> None:
    """With a second for each reading, 55 ops in 16 processes would take 880 seconds of the 640 that there are."""
    ops = [f"op{number}" for number in range(55)]
    shares, reads = _simulated(dict.fromkeys(ops, 0.1), dict.fromkeys(ops, 1), 16, 40.0)
    assert all(pace.ended > 0 for pace in shares.paces.values())
    assert reads <= 130
    assert sum(pace.seconds for pace in shares.paces.values()) > 0.9 * 640


def test_a_single_op_has_all_processes() -> None:
    shares, reads = _simulated({"softmax": 0.1}, {"softmax": 1}, 4, 20.0)
    assert reads == 4
    assert shares.paces["softmax"].seconds > 0.8 * 4 * 20.0 / 2


def test_the_time_of_an_op_grows_with_its_capabilities_whatever_its_turns_cost() -> None:
    shares, _ = _simulated({"a": 0.1, "b": 0.8, "c": 0.1}, {"a": 1, "b": 1, "c": 4}, 2, 120.0)
    a, b, c = (shares.paces[op].seconds for op in "abc")
    assert 0.6 < a / b < 1.6
    assert 2.5 < c / a < 6.0
    assert shares.paces["a"].ended > 3 * shares.paces["b"].ended


def test_without_a_limit_of_time_each_op_has_its_turn() -> None:
    shares = OpShares({"a": 1, "b": 1, "c": 1}, 1)
    visited = []
    for _ in range(60):
        op = shares.in_turn(math.inf, 2)[0]
        visited.append(op)
        shares.paces[op].begun += 1
        shares.paces[op].ended += 1
        shares.paces[op].seconds += 1.0
    assert visited.count("a") == visited.count("b") == visited.count("c") == 20
    assert len([1 for one, other in pairwise(visited) if one != other]) < 12


def test_an_op_that_is_not_due_begins_only_where_a_process_would_be_idle() -> None:
    shares = OpShares({"a": 1, "b": 1, "c": 1}, 2)
    assert shares.in_turn(60.0, 0) == ["a", "b", "c"]
    assert shares.in_turn(60.0, 4) == ["a", "b"]


def test_all_ops_whose_programs_are_compiled_are_searched_at_once_the_one_with_the_least_time_first() -> None:
    shares = OpShares({"a": 1, "b": 1, "c": 1}, 1, compiled=True)
    for op, seconds in (("a", 2.0), ("b", 30.0)):
        shares.paces[op].begun, shares.paces[op].ended, shares.paces[op].seconds = 1, 1, seconds
    assert shares.in_turn(60.0, 2) == ["c", "a", "b"]
    assert not shares.in_turn(60.0, 3)
