"""`python3 -m fuzz.quality calibrate`: whether correct kernels of any contract pass, and how far they stray."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import track

from fuzz.campaign.parallel import spread_answers
from fuzz.campaign.starting import writable
from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.cli.options import loaded
from fuzz.core.base.errors import UsageError
from fuzz.quality.calibrate.measure import Calibrated, ContractMeasurement, calibrated, carried_out, work_list
from fuzz.quality.calibrate.nearest import accused, accused_of_formulas
from fuzz.report import console
from fuzz.report.console import PlainTable, print_table
from oracles.dtypes import DOUBLE, NARROW, SINGLE
from oracles.op import Op
from oracles.ops import OPS


@dataclass(frozen=True)
class CalibrateOptions:
    """The options of `python3 -m fuzz.quality calibrate`."""

    op: Annotated[str, typer.Option("--op", help="Ops (a glob).")] = "*"
    runs: Annotated[int, typer.Option("--runs", min=1, help="Judged runs of each op, at least.")] = 20_000
    max_time: Annotated[
        float | None,
        typer.Option(
            "--max-time",
            parser=options.duration,
            metavar="30s|5m|8h",
            help="Take about this long: the contracts share it, and those that are not reached count as not run.",
        ),
    ] = None
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the first contract's cases.")] = 1
    nearest: Annotated[
        int,
        typer.Option("--nearest", min=0, help="Cases of exact values rounded once, half of them of random formulas."),
    ] = 12_000
    jobs: options.Processes = 0
    output: Annotated[Path, typer.Option("--output", help="Folder for the kernels, a pack for each contract.")] = Path(
        "calibration"
    )
    pack: options.PackFolder = None
    full: Annotated[bool, typer.Option("--full", help="A line for each contract too.")] = False
    markdown: options.Markdown = False


def calibrate(options: CalibrateOptions) -> Exit:
    """Judge correct kernels under contracts in which any two values of two fields meet; exit code 1 for an alarm.

    For each contract there is a kernel that is simulated from the op's formula. Its cases are those of an ordinary
    search. What is accused is a false alarm: it is printed with the commands that show it again. So are exact values,
    rounded once, that are accused: of all ops, and of formulas made at random.
    """
    out, err, started = console.results(), console.progress(), time.monotonic()
    if options.pack is not None:
        loaded(options.pack)
    chosen = [op for op in OPS.values() if fnmatchcase(op.name, options.op)]
    if not chosen:
        raise UsageError(f"--op {options.op}: no such op; there are {', '.join(OPS)}")
    folder = writable(options.output)
    listed = work_list(chosen, options.runs, options.seed, folder, options.pack)
    work = carried_out(listed, options.jobs or os.cpu_count() or 1, options.max_time or math.inf)
    every, interrupted = list[ContractMeasurement](), False
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a time limit from outside counts like Ctrl-C
    try:
        for measured in track(work, "Judging correct kernels", total=len(listed), console=err, transient=True):
            every.append(measured)
            if measured.found:
                err.print(f"{measured.op}, contract {measured.number}: {measured.found} false alarms", style="red")
    except KeyboardInterrupt:  # what was judged so far is reported
        interrupted = True
    found = [calibrated(op, [each for each in every if each.op == op.name]) for op in chosen]
    rows = [row for each in found for row in _rows(each, full=options.full)]
    print_table(PlainTable(_COLUMNS, rows + [_row("all", found)] * (len(found) > 1)), markdown=options.markdown)
    for each in found:
        for reason, count in each.missing.items():
            out.print(f"{each.op}: {count:,} pairs not run: {reason}", soft_wrap=True)
    for measured in every:
        for text in measured.alarms:
            out.print(f"\n{text}\n  under {measured.contract}", soft_wrap=True)
        if measured.undecided:
            out.print(f"\nthe oracle gave up {measured.gave_up} times, the last time here:", soft_wrap=True)
            out.print(f"  {measured.undecided}\n  under {measured.contract}", soft_wrap=True)
    nearest = () if interrupted else _nearest(options, chosen)
    for accusation in nearest:
        out.print(f"\n{accusation}", soft_wrap=True)
    alarms, runs = sum(each.found for each in found) + len(nearest), sum(each.runs for each in found)
    met, missing = sum(each.covered for each in found), sum(sum(each.missing.values()) for each in found)
    took = time.monotonic() - started
    out.print(
        f"\n{runs:,} judged runs, {sum(each.elements for each in found):,} elements, {met:,} pairs met and "
        f"{missing:,} not run, {alarms} false alarms, {sum(each.gave_up for each in found)} undecided, seed "
        f"{options.seed}, {took:,.0f} s",
        soft_wrap=True,
    )
    if interrupted and not alarms:
        raise KeyboardInterrupt
    return Exit.FINDINGS if alarms else Exit.OK if runs else Exit.NOTHING_RAN


def _nearest(options: CalibrateOptions, ops: Sequence[Op]) -> Sequence[str]:
    """What is accused of the exact values, rounded once, of these ops and of formulas made at random, in words."""
    half = options.nearest - options.nearest // 2
    each_op, dtypes = -(-half // len(ops)), (SINGLE.name, DOUBLE.name, *NARROW)
    pieces = [range(first, min(first + _PIECE, half)) for first in range(0, half, _PIECE)]
    work: list[Op | range] = [*ops, *pieces]

    def ask(item: Op | range) -> list[str]:
        found = accused_of_formulas(item, options.seed) if isinstance(item, range) else (
            accused(item, dtypes, each_op, options.seed)
        )  # fmt: skip
        return [*map(str, found)]

    answers = spread_answers(
        work, ask, list[str], options.jobs or os.cpu_count() or 1, lambda: False,
        lambda item: "random formulas" if isinstance(item, range) else item.name, "ended from outside",
    )  # fmt: skip
    progress = track(answers, "Rounding exact values", total=len(work), console=console.progress(), transient=True)
    found = [*chain.from_iterable(progress)]
    console.results().print(
        f"\n{options.nearest:,} cases of exact values rounded once, of {len(ops)} ops and of random formulas: "
        f"{len(found)} accused", soft_wrap=True,
    )  # fmt: skip
    return found


_PIECE = 250
"""Random formulas that a process judges at a time: some 5 s of work."""
_COLUMNS = (
    "op", "contracts", "pairs", "not run", "judged runs", "judged elements", "worst err/budget", "false alarms",
)  # fmt: skip


def _rows(of: Calibrated, *, full: bool) -> list[tuple[str, ...]]:
    lines = [
        ("", each.contract, "", "", f"{each.runs:,}", f"{each.elements:,}", f"{each.ratio:.3g}", str(each.found))
        for each in of.contracts
        if full
    ]  # fmt: skip
    return [_row(of.op, [of]), *lines]


def _row(name: str, every: Sequence[Calibrated]) -> tuple[str, ...]:
    numbers = [sum(len(each.contracts) for each in every), sum(each.covered for each in every)]
    numbers.append(sum(sum(each.missing.values()) for each in every))
    numbers += [sum(getattr(each, name) for each in every) for name in ("runs", "elements")]
    worst = max(each.ratio for each in every)
    return name, *(f"{each:,}" for each in numbers), f"{worst:.3g}", str(sum(each.found for each in every))
