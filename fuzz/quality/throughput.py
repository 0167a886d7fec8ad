"""Processor time: how many runs the tool judges a second, op by op, and what takes the time, by stage; and whether a
night finds more planted bugs if its time goes where most is new, or in turn. Both ways of sharing it have the time of
the same recorded searches, so that nothing else differs between them."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated

import typer

from fuzz.campaign.nightly.sharing import FLOOR, News, PastSlice, chosen
from fuzz.campaign.parallel import spread_answers
from fuzz.campaign.search.examiner import Examiner
from fuzz.campaign.search.stopping import Interruption
from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.cli.options import duration, loaded
from fuzz.core.adapters.pack import Pack
from fuzz.core.adapters.target import Target
from fuzz.core.base.errors import UsageError
from fuzz.core.base.kernel import Mutant
from fuzz.core.base.text import counted
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.generate.search import Search, batches
from fuzz.core.laws.registry import declared, with_twins
from fuzz.quality.detection import Hunt, PlantedBugs, hunters, targets_of
from fuzz.report import console
from fuzz.report.console import PlainTable, print_table
from fuzz.report.records import write_record
from fuzz.report.totals import not_run_lines

STAGES = ("drawing", "transport", "executing", "judging")
"""Drawing makes a case bit-exact; transport takes it to workers and the outcome back; executing is all that workers and
emulators do; judging asks the oracle and the laws."""
_DEFAULT = ("c-*@native:gcc-O2",)
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class ThroughputOptions:
    """The options of `python3 -m fuzz.quality throughput`."""

    selection: options.Selection = field(default_factory=options.Selection)
    seconds: Annotated[
        float, typer.Option("--seconds", parser=duration, metavar="5s", help="Processor time for each op.")
    ] = 5.0
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the searches.")] = 1
    pack: options.PackFolder = None
    markdown: options.Markdown = False
    json: options.Json = None


@dataclass(frozen=True)
class Cost:
    """Seconds of processor time for judged runs of an op, by stage. Other work on the machine changes them little."""

    op: str
    runs: int
    drawing: float
    transport: float
    executing: float
    judging: float

    @property
    def cells(self) -> tuple[str, ...]:
        """Its row of the table: judged runs a second of one processor, and microseconds a run by stage."""
        spent = [float(getattr(self, stage)) for stage in STAGES]
        return (self.op, f"{self.runs / sum(spent):,.0f}", *(f"{each / self.runs * 1e6:,.0f}" for each in spent))


def throughput(options: ThroughputOptions) -> Exit:
    """Measure the judged runs a second of one processor for each op, and what takes the time."""
    chosen = options.selection if options.selection.target else replace(options.selection, target=_DEFAULT)
    targets = chosen.targets(loaded(options.pack))
    missing = {target.id: reason for target in targets if (reason := target.unavailable()) is not None}
    for line in not_run_lines(missing):
        console.progress().print(line, style="yellow")
    here = [target for target in targets if target.id not in missing]
    if not here:
        raise UsageError("nothing to measure: no chosen target runs here")
    found = list[Cost]()
    for op in dict.fromkeys(target.kernel.op for target in here):
        with console.progress().status(f"Measuring {op} ..."):
            found.append(measured([each for each in here if each.kernel.op == op], options.seconds, options.seed))
    columns = ("op", "judged runs/s", *(f"{stage} us" for stage in STAGES))
    print_table(PlainTable(columns, [each.cells for each in found]), markdown=options.markdown)
    write_record(options.json, {"seed": options.seed, "ops": [asdict(each) for each in found]})
    return Exit.OK


def measured(targets: Sequence[Target], seconds: float, seed: int) -> Cost:
    """Return what a search of one op costs on these targets, until `seconds` seconds of processor time are spent."""
    op, kernels = targets[0].kernel.op, tuple(dict.fromkeys(target.kernel for target in targets))
    spent, runs, laws = dict.fromkeys(STAGES, 0.0), 0, declared(kernels)
    with WorkerPool(targets) as pool:
        examiner, drawn = Examiner(pool, targets), batches(Search(op, seed, kernels))
        others = [name for name in pool.pids if name not in examiner.targets]
        workers, last = workers_cpu(pool), time.process_time()

        def note(stage: str) -> None:
            nonlocal last
            now = time.process_time()
            spent[stage], last = spent[stage] + now - last, now

        while sum(spent.values()) < seconds:
            entries = with_twins([made.case for made in next(drawn)], laws)
            note("drawing")
            batch = examiner.submit(entries, others)
            batch.outcomes()
            note("transport")
            runs += sum(map(len, examiner.examined([entries], batch)[0].judgements))
            note("judging")
            spent["executing"] = workers_cpu(pool) - workers
    return Cost(op, runs, **spent)


def workers_cpu(pool: WorkerPool) -> float:
    """Return the seconds of processor time that workers used, including children that have ended."""
    ended = os.times()
    return sum(map(_process_cpu, pool.pids.values())) + ended.children_user + ended.children_system


def _process_cpu(pid: int) -> float:
    """Return the seconds of processor time of a process, including children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15])) / _TICK


_SLICES = 8
"""The number of slices in an equal share of the time: a night of eight hours gives each op about as many."""
_IN_TURN = 1.0
"""The floor with which all time goes in turn."""


@dataclass(frozen=True)
class SharingOptions:
    """The options of `python3 -m fuzz.quality sharing`."""

    planted: PlantedBugs = field(default_factory=PlantedBugs)
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How many nights, each with its own seed.")] = 10
    each: Annotated[
        float, typer.Option("--each", metavar="2s", parser=duration, help="An equal share: processor time of a kernel.")
    ] = 2.0
    most: Annotated[float, typer.Option("--most", min=1.0, help="How many equal shares of a kernel are recorded.")] = (
        4.0
    )
    pack: options.PackFolder = None
    markdown: options.Markdown = False
    json: options.Json = None
    jobs: options.Processes = 1


@dataclass(frozen=True)
class RecordedTurn:
    """One turn of a recorded search: its seconds of processor time, what was new, and which bugs it was first to
    find."""

    seconds: float
    new: int
    found: tuple[str, ...] = ()


@dataclass(frozen=True)
class Recorded:
    """The searches of a correct kernel with its planted bugs, one for each seed."""

    base: str
    searches: tuple[tuple[RecordedTurn, ...], ...] = ()
    not_run: str = ""
    """Why it could not be searched."""


@dataclass
class SharedNight:
    """A night that shares its time between recorded searches."""

    searches: Mapping[str, Sequence[RecordedTurn]]
    seed: int
    slice_s: float
    floor: float
    used: dict[str, list[PastSlice]] = field(default_factory=dict)
    found: list[tuple[float, str]] = field(default_factory=list)
    """The bugs that were found, each with the seconds that the night had taken."""

    def run(self, seconds: float) -> SharedNight:
        """Share `seconds` out. A search that was not recorded for longer shows nothing more."""
        now, left = 0.0, {name: list(reversed(steps)) for name, steps in self.searches.items()}
        kernels = dict.fromkeys(self.searches, 1)
        while now < seconds:
            name = chosen(self.seed, kernels, self.used, self.floor)
            began, new = now, 0
            while now - began < self.slice_s and left[name]:
                step = left[name].pop()
                now, new = now + step.seconds, new + step.new
                self.found += [(now, each) for each in step.found]
            now = max(now, began + self.slice_s) if not left[name] else now
            self.used.setdefault(name, []).append(PastSlice(now - began, new))
        return self

    def count(self, until: float) -> int:
        """Return the number of bugs that were found by then."""
        return sum(at <= until for at, _ in self.found)


def sharing(options: SharingOptions) -> Exit:
    """Count the planted bugs that nights find in the same time, shared in turn and by what is new."""
    pack = loaded(options.pack)
    bugs = options.planted.of(pack)

    def ask(base: str) -> Recorded:
        try:
            return recorded(pack, base, bugs[base], options)
        except UsageError as error:
            return Recorded(base, not_run=str(error))

    found, out, err = list[Recorded](), console.results(), console.progress()
    with Interruption("what is known is shown") as stop:
        for each in spread_answers(
            [*bugs], ask, Recorded, options.jobs or len(os.sched_getaffinity(0)), lambda: stop.wanted, str,
            "its process was ended from outside",
        ):  # fmt: skip
            found.append(each)
            err.print(f"{len(found)} of {len(bugs)}, {each.base}: {each.not_run or 'searched'}", soft_wrap=True)
    write_record(options.json, {"found": [asdict(each) for each in found]})
    found = [each for each in found if each.searches]
    print_table(compared(found, options.seeds, options.each), markdown=options.markdown)
    planted = sum(len(bugs[each.base]) for each in found)
    of = f"{counted(planted, 'bug')} of {counted(len(found), 'kernel')}"
    out.print(f"{of}; {options.each:g} s of processor time for each kernel", soft_wrap=True)
    return Exit.OK


def recorded(pack: Pack, base: str, mutants: Sequence[Mutant], limits: SharingOptions) -> Recorded:
    """Search a correct kernel with its bugs once for each seed. Raises UsageError where it cannot."""
    searches = []
    for seed in range(1, limits.seeds + 1):
        right, wrong = targets_of(pack, base, mutants)
        with hunters((right, *wrong)) as pool:
            hunt, targets = Hunt(right, wrong), {each.id: each for each in (right, *wrong)}
            news, steps, found = News(targets), list[RecordedTurn](), set[str]()
            last = began = time.process_time() + workers_cpu(pool)
            for report in hunt.turns(pool, seed):
                news.counted(report.tally)
                for sighting in report.sightings:
                    for judgement in sighting.judgements:
                        news.failed(targets[judgement.target].kernel.name, sighting.case, judgement, 0.0)
                now = time.process_time() + workers_cpu(pool)
                fresh = hunt.found.keys() - found
                steps.append(RecordedTurn(now - last, sum(news.taken(()).values()), tuple(sorted(fresh))))
                found, last = found | fresh, now
                if now - began > limits.most * limits.each:
                    break
        searches.append(tuple(steps))
    return Recorded(base, tuple(searches))


def compared(found: Sequence[Recorded], seeds: int, each_s: float) -> PlainTable:
    """Return how many bugs each night found in each way, after a quarter of the time, half and all of it."""
    whole, parts, rows = len(found) * each_s, (0.25, 0.5, 1.0), list[tuple[str, ...]]()
    totals = dict.fromkeys([(floor, part) for part in parts for floor in (_IN_TURN, FLOOR)], 0)
    for place in range(seeds):
        searches = {each.base: each.searches[place] for each in found}
        nights = {
            floor: SharedNight(searches, place + 1, each_s / _SLICES, floor).run(whole) for floor in (_IN_TURN, FLOOR)
        }
        counts = {(floor, part): nights[floor].count(part * whole) for floor, part in totals}
        totals = {key: count + counts[key] for key, count in totals.items()}
        rows.append((str(place + 1), *map(str, counts.values())))
    rows.append(("all", *map(str, totals.values())))
    columns = [f"{way}, {part:.0%} of the time" for part in parts for way in ("in turn", "by what is new")]
    return PlainTable(("seed", *columns), rows)
