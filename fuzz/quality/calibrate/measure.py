"""Calibration of ops: the pack of each contract is searched, spread over processes; what was judged, what was accused,
and which pairs of values met."""

from __future__ import annotations

import math
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from fuzz.campaign.parallel import spread
from fuzz.campaign.search.schedule import known_at
from fuzz.campaign.search.turn_runner import TOGETHER, SearchScope, TurnJob, TurnReport, TurnRunner
from fuzz.core.adapters.pack import Pack, PackError, load
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import NotRun, Target
from fuzz.core.base.case import Case
from fuzz.core.base.outcome import Status
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.generate.turn import BATCH
from fuzz.core.judge.judge import EntryJudge, Judgement
from fuzz.core.laws.registry import Entry
from fuzz.findings import casefile
from fuzz.quality.calibrate.contracts import SimulatedPack, case_of, contracts, covering, fields, pairs_of, problems
from oracles.op import Op
from oracles.ops import OPS

_KEPT = 3
"""How many alarms of a contract are kept as case files."""
_EXTREMES = 2
"""The number of problems at the ends of each dtype. Each has two dozen rows, where an op may have any number."""
_LONG_S = 2.0
"""In work that ends by time, turns that together take longer are not taken more at a time: it could not end within
them. Other work never depends on a clock."""
_CASE_LIMIT_S = 60.0
"""The limit of a case in seconds. It only ends what hangs: the kernels are correct, and being slow is no alarm."""


@dataclass(frozen=True)
class Work:
    """The kernel of one contract, and how many runs of it are judged."""

    op: str
    number: int
    folder: Path
    """The folder in which their pack is written."""
    seed: int
    runs: int
    pack: Path | None = None
    """The pack that brings the op."""
    until: float = math.inf
    """The time, by the monotonic clock, after which no further turn begins, however few runs were judged."""
    end: float = math.inf
    """The time at which it ends, after the case that is being judged."""


@dataclass
class ContractMeasurement:
    """What came of one contract."""

    op: str
    number: int
    contract: str
    runs: int = 0
    """The number of judged runs."""
    elements: int = 0
    """The number of elements that the kernel returned."""
    ratio: float = 0.0
    """The largest err/budget of a passing run."""
    found: int = 0
    """The number of judged runs that did not pass; each is a false alarm, since the kernel is correct."""
    gave_up: int = 0
    alarms: list[str] = field(default_factory=list)
    """The first false alarms, in words."""
    undecided: str = ""
    """How to reproduce the last run that the oracle gave up on."""
    not_run: str = ""
    """Why it was not judged."""
    extremes: int = 0
    """The number of judged runs of problems at the ends of dtypes, which `runs` does not count."""
    seconds: float = 0.0
    """The seconds that all of it took."""


def measured(work: Work, made: SimulatedPack, clock: Callable[[], float] = time.monotonic) -> ContractMeasurement:
    """Write the kernel, and search it."""
    found = ContractMeasurement(work.op, work.number, str(made.contract))
    made.write(work.folder, work.pack)
    try:
        pack = load(work.folder)
    except PackError as error:
        found.not_run = str(error).removeprefix(f"{work.folder / 'pack.py'}: ")
        return found
    [target] = expand(pack.kernels)
    with WorkerPool([target], jobs=1, limit=_CASE_LIMIT_S) as pool:
        status = pool.statuses[target.id]
        if isinstance(status, NotRun):
            found.not_run = status.reason
            return found
        _judge_extremes(work, made, target, pool, found)
        _search(work, pack, target, pool, found, clock)
    return found


def _judge_extremes(
    work: Work, made: SimulatedPack, target: Target, pool: WorkerPool, found: ContractMeasurement
) -> None:
    """Judge the kernel on problems at the ends of dtypes, which a search seldom meets."""
    cases = [case_of(each) for each in problems(made.op, made.main, _EXTREMES, work.seed)]
    for case, outcomes in zip(cases, pool.submit(cases).outcomes(), strict=True):
        if target.id not in outcomes or outcomes[target.id].status is Status.REJECTED:
            continue
        judgement = EntryJudge(Entry(case), outcomes).judge(target)
        found.extremes += 1
        found.gave_up += judgement.verdict is Verdict.ORACLE_GAVE_UP
        found.ratio = max(found.ratio, judgement.ratio if judgement.verdict is Verdict.PASS else 0.0)
        if judgement.verdict.is_finding:
            found.found += 1
            found.alarms += [_told(case, judgement, work)] if len(found.alarms) < _KEPT else []


def _search(
    work: Work, pack: Pack, target: Target, pool: WorkerPool, found: ContractMeasurement, clock: Callable[[], float]
) -> None:
    def counted(judge: EntryJudge) -> None:
        if target.id in judge.outcomes and judge.outcomes[target.id].status is Status.RAN:
            found.elements += sum(output.layout.size for output in judge.entry.case.outputs.values())

    turn_runner = TurnRunner(pool, [target], SearchScope(pack.kernels), counted, lambda: clock() >= work.end)
    for place, reports in enumerate(_reports(turn_runner, work, work.runs // BATCH, clock)):
        for report in reports:
            _count(report, work, found)
        enough = found.runs >= work.runs or place >= work.runs  # of a contract that takes no case
        if enough or clock() >= work.until:
            return


def _count(report: TurnReport, work: Work, found: ContractMeasurement) -> None:
    for name, line in report.tally.targets.items():
        found.runs += line.judged
        found.found += line.findings
        found.gave_up += line.gave_up
        if line.undecided:
            option = f"--pack {work.folder} --target {name}"
            found.undecided = f"kernelfuzz repro {work.seed}:{line.undecided} {option}"
        found.ratio = max([found.ratio, *(worst.ratio for worst in line.worst.values())])
        if line.not_run and not line.judged:
            found.not_run = found.not_run or line.not_run_reason
    failing = [(each.case, run) for each in report.sightings for run in each.judgements]
    found.alarms += [_told(case, run, work) for case, run in failing[: max(0, _KEPT - len(found.alarms))]]
    for words, case in report.errors[: max(0, _KEPT - len(found.alarms))]:
        path = _kept(case, work)
        found.alarms.append(f"{words}\n  kernelfuzz repro {path} --pack {work.folder}")
    found.found += len(report.errors)


def _told(case: Case, judgement: Judgement, work: Work) -> str:
    """Return the alarm, and the commands that reproduce it."""
    path = _kept(case, work)
    check, option = judgement.worst, f"--pack {work.folder} --target {judgement.target}"
    what, explain = f"{judgement.verdict.value} {judgement.reason}".strip(), ""
    if check is not None and check.worst_index is not None:
        index = ",".join(map(str, check.worst_index))
        what += f", {check.output}[{index}]: {judgement.ratio:.4g} of its budget"
        explain = f"\n  kernelfuzz explain-budget {path} {option} --output {check.output} --index {index}"
    return f"{judgement.target}: {what}\n  kernelfuzz repro {path} {option}{explain}"


def _kept(case: Case, work: Work) -> Path:
    """Return the file in which the case is kept, beside its pack."""
    path = work.folder / f"alarm-{case.digest[:12]}.json"
    casefile.save(path, case)
    return path


def _reports(
    turn_runner: TurnRunner, work: Work, most: int, clock: Callable[[], float]
) -> Iterator[Sequence[TurnReport]]:
    """Yield the reports of a search of the op without its big cases, which test how a kernel finds its elements and not
    what it calculates. One turn comes first, then more at a time, which is cheaper, unless they take too long."""
    known = turn_runner.searched(work.op, work.seed)
    states, turns, place, together = dict[object, bytes](), known.search.turns(), 0, 1
    while True:
        started = clock()
        shards, tasks = list[object](), list[TurnJob]()
        while len(tasks) < together and known_at(place) <= len(known.lessons):
            turn = next(turns)
            shards.append((turn.shard, known.search.capability(turn)))
            state = states.get(shards[-1], b"")
            tasks.append(TurnJob(place, work.op, work.seed, turn, state, known=known_at(place)))
            place += 1
        turn_runner.begin(*tasks)
        reports = turn_runner.end()
        known.lessons += [report.lessons for report in reports]
        states.update((shard, report.state) for shard, report in zip(shards, reports, strict=True))
        yield reports
        if work.until == math.inf or clock() - started < _LONG_S:
            together = min(2 * together, TOGETHER, max(1, most))


@dataclass(frozen=True)
class Calibrated:
    """What came of one op."""

    op: str
    contracts: Sequence[ContractMeasurement]
    covered: int
    """The number of pairs of values of two fields of which some kernel was judged."""
    missing: Mapping[str, int]
    """The number of the other pairs, by the reason why no kernel was judged."""

    def total(self, count: str) -> int:
        """Return the sum of a count over the contracts."""
        return sum(getattr(each, count) for each in self.contracts)

    @property
    def ratio(self) -> float:
        return max((each.ratio for each in self.contracts), default=0.0)


def work_list(ops: Sequence[Op], runs: int, seed: int, folder: Path, pack: Path | None) -> list[Work]:
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


def carried_out(listed: Sequence[Work], jobs: int, seconds: float = math.inf) -> Iterator[ContractMeasurement]:
    """Yield what came of each piece of work, as it ends, in `jobs` processes; with one job in this process. After
    `seconds` no further contract is begun, nor one for which too few seconds are left; each may take an equal share of
    what is left when its turn comes."""
    end, took = time.monotonic() + seconds, list[float]()
    works = begun(listed, jobs, end, took)
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


def begun(listed: Sequence[Work], jobs: int, end: float, took: Sequence[float]) -> Iterator[Work]:
    """Yield each piece when its turn comes, with the time at which it shall end, so that slow kernels leave time for
    others. None gets less than the quickest of the finished ones `took`."""
    for place, work in enumerate(listed):
        now = time.monotonic()
        if now + min(took, default=0.0) >= end:
            return
        share = min(1.0, jobs / (len(listed) - place))
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
