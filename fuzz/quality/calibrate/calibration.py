"""Calibration of ops: the kernels of all contracts of a covering array, spread over processes, and which pairs met."""

from __future__ import annotations

import math
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from fuzz.campaign.parallel import spread
from fuzz.core.adapters.pack import load
from fuzz.quality.calibrate.contracts import contracts, covering, fields, pairs_of
from fuzz.quality.calibrate.measure import ContractMeasurement, Work, measured
from fuzz.quality.calibrate.packs import SimulatedPack
from oracles.op import Op
from oracles.ops import OPS


@dataclass(frozen=True)
class Calibrated:
    """What came of one op."""

    op: str
    contracts: Sequence[ContractMeasurement]
    covered: int
    """The number of pairs of values of two fields of which some kernel was judged."""
    missing: Mapping[str, int]
    """The number of the other pairs, by the reason why no kernel was judged."""

    @property
    def runs(self) -> int:
        return sum(each.runs for each in self.contracts)

    @property
    def elements(self) -> int:
        return sum(each.elements for each in self.contracts)

    @property
    def ratio(self) -> float:
        return max((each.ratio for each in self.contracts), default=0.0)

    @property
    def found(self) -> int:
        """The number of false alarms."""
        return sum(each.found for each in self.contracts)

    @property
    def gave_up(self) -> int:
        return sum(each.gave_up for each in self.contracts)


def planned(ops: Sequence[Op], runs: int, seed: int, folder: Path, pack: Path | None) -> list[Work]:
    """Return the work: for each op about `runs` runs, spread over its contracts. The ops take turns, in an order that
    follows from the seed, so that calibrations without the time for all of it judge other contracts with another
    seed."""
    found = list[tuple[int, Work]]()
    for op in ops:
        count = len(contracts(op))
        order, share = Random(seed).sample(range(count), count), -(-runs // count)
        found += [
            (place, Work(op.name, at, folder / f"{op.name}-{at:02}", seed + at, share, pack))
            for place, at in enumerate(order)
        ]
    return [work for _, work in sorted(found, key=lambda each: each[0])]


def carried_out(plan: Sequence[Work], jobs: int, seconds: float = math.inf) -> Iterator[ContractMeasurement]:
    """Yield what came of each piece of work, as it ends, in `jobs` processes; with one job in this process. After
    `seconds` no further contract is begun, nor one for which too few seconds are left; each may take an equal share of
    what is left when its turn comes."""
    end, took = time.monotonic() + seconds, list[float]()
    works = begun(plan, jobs, end, took)
    if jobs == 1:
        for work in works:
            found = _carry_out(work)
            took.append(found.seconds)
            yield found
        return
    for work, came in spread(_carry_out, works, jobs, "spawn"):
        words = f"{work.op}, contract {work.number}: its process ended, or another one did"
        found = came or ContractMeasurement(work.op, work.number, "", found=1, alarms=[words])
        took.append(found.seconds)
        yield found


def begun(plan: Sequence[Work], jobs: int, end: float, took: Sequence[float]) -> Iterator[Work]:
    """Yield each piece when its turn comes, with the time at which it shall end, so that slow kernels leave time for
    others. None gets less than the quickest of the finished ones `took`."""
    for place, work in enumerate(plan):
        now = time.monotonic()
        if now + min(took, default=0.0) >= end:
            return
        share = min(1.0, jobs / (len(plan) - place))
        yield work if end == math.inf else replace(work, until=now + (end - now) * share, end=end)


def _carry_out(work: Work) -> ContractMeasurement:
    """Measure one piece of work. An internal error counts as an alarm, so that the rest goes on."""
    started = time.monotonic()
    try:
        if work.op not in OPS:  # a process of its own
            load(work.pack)
        op = OPS[work.op]
        found = measured(work, SimulatedPack(op, contracts(op)[work.number], work.number))
    except Exception:
        words = f"{work.op}, contract {work.number}: internal error\n{traceback.format_exc()}"
        found = ContractMeasurement(work.op, work.number, "", found=1, alarms=[words])
    return replace(found, seconds=time.monotonic() - started)


def calibrated(op: Op, every: Sequence[ContractMeasurement]) -> Calibrated:
    """Return what came of one op, and which pairs did not meet."""
    rows, names = covering(fields(op)), list(fields(op))
    met, reasons = set[object](), dict[object, str]()
    for each in every:
        mine = pairs_of(rows[each.number], names)
        if each.runs:
            met |= mine
        else:
            reasons |= dict.fromkeys(mine, each.not_run or "no case of its search could be given to it")
    pairs = {pair for row in rows for pair in pairs_of(row, names)}
    missing = Counter(reasons.get(pair, "its contract was not reached") for pair in pairs - met)
    return Calibrated(op.name, every, len(met), missing)
