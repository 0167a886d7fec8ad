"""How many runs the tool judges a second, op by op, and what takes the time: processor time by stage."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated

import typer

from fuzz.campaign.search.examiner import Examiner
from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.cli.options import duration, loaded
from fuzz.core.adapters.target import Target
from fuzz.core.base.errors import UsageError
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.generate.search import Search, batches
from fuzz.core.laws.registry import declared, with_twins
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
