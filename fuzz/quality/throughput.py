"""How many runs the tool judges, what each costs and where, and how that compares with the plain way."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from fuzz.adapters.pack import built_in
from fuzz.adapters.target import Target
from fuzz.base.errors import UsageError
from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.cli.options import duration, loaded
from fuzz.quality.pace import STAGES, Cost, Plain, Scaling, plain, scaling, stages
from fuzz.report import console
from fuzz.report.console import PlainTable, print_table
from fuzz.report.records import write_record
from fuzz.report.totals import not_run_lines
from fuzz.uses.starting import select_targets

_DEFAULT = ("c-sve@qemu:*,gcc-O2", "c-avx2@native:gcc-O2", "c-generic@native:gcc-O2")
_LEAST_RUN_S = 1.0
"""A command that starts its processes first judges nothing in less, on a machine that is busy."""
LENGTHS = (16, 64, 256, 1024, 4096, 32768)
ROWS = (1, 4, 16, 64, 256)
_LENGTH, _FEW = 64, 4
"""The length of rows where their number grows, and the number of rows where their length does."""


@dataclass(frozen=True)
class ThroughputOptions:
    """The options of `python3 -m fuzz.quality throughput`."""

    selection: options.Selection = field(default_factory=options.Selection)
    max_n: Annotated[int, typer.Option("--max-n", min=1, help="Longest row of the searches.")] = 600
    seconds: Annotated[
        float, typer.Option("--seconds", parser=duration, metavar="5s", help="For each thing that is measured.")
    ] = 5.0
    jobs: Annotated[
        int, typer.Option("-j", "--jobs", min=0, help="Most processes of the search. 0: one per processor.")
    ] = 0
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the searches.")] = 1
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw it to this file (needs matplotlib).")] = None
    pack: options.PackFolder = None
    markdown: options.Markdown = False
    json: options.Json = None


@dataclass(frozen=True)
class Measured:
    """All that was measured."""

    targets: Sequence[Cost]
    """One for each target alone, then all together."""
    plain: Mapping[str, Plain]
    """By target, of those that it can test."""
    scaling: Sequence[Scaling]
    sizes: Mapping[tuple[int, int], Cost]
    """By the number of rows and their length."""

    @property
    def plainly(self) -> Plain | None:
        """The plain way on all of these targets."""
        each = self.plain.values()
        if not each:
            return None
        runs, failures = sum(one.runs for one in each), sum(one.failures for one in each)
        return Plain("all", runs, failures, sum(one.seconds for one in each), sum(one.cpu for one in each))


def throughput(options: ThroughputOptions) -> Exit:
    """Measure judged runs a second: by target and stage, by processes, by size, and beside the plain way.

    The plain way is Hypothesis' arrays, one process per case, mpmath for each element.
    """
    targets = _targets(options)
    measured = _measured(targets, options)
    for title, table in _tables(measured):
        console.results().print(f"\n{title}\n", soft_wrap=True)
        print_table(table, markdown=options.markdown)
    for line in _summary(measured, options):
        console.results().print(line, soft_wrap=True)
    if options.plot is not None:
        _plot(measured, options.plot)
    write_record(options.json, _record(measured))
    return Exit.OK


def _targets(options: ThroughputOptions) -> tuple[Target, ...]:
    """Those that run here, bounded."""
    wanted = options.selection.target or _DEFAULT
    kernels = [scaling.bounded(kernel, options.max_n) for kernel in loaded(options.pack).kernels]
    chosen = select_targets(kernels, options.selection.ops, wanted, options.selection.keyword)
    missing = {target.id: reason for target in chosen if (reason := target.unavailable()) is not None}
    for line in not_run_lines(missing):
        console.progress().print(line, style="yellow")
    here = tuple(target for target in chosen if target.id not in missing)
    if not here:
        raise UsageError("nothing to measure: no chosen target runs here")
    return here


def _measured(targets: Sequence[Target], options: ThroughputOptions) -> Measured:
    seconds, seed, done = options.seconds, options.seed, console.progress()
    with done.status("Measuring ...") as status:

        def now(what: str) -> None:
            status.update(f"Measuring {what} ...")

        costs = []
        for target in targets:
            now(target.id)
            costs.append(stages.of_search([target], seconds, seed, target.id))
        now("all targets together")
        costs.append(stages.of_search(targets, seconds, seed, f"all {len(targets)} together"))
        plainly = {}
        for target in filter(_is_plain, targets):
            now(f"the plain way on {target.id}")
            plainly[target.id] = plain.measure(target, options.max_n, seconds, seed)
        by_processes = []
        with scaling.bounded_pack(options.pack or built_in(), options.max_n) as pack:
            for processes in counts(options.jobs or os.cpu_count() or 1):
                now(f"{processes} processes")
                by_processes.append(scaling.measure(pack, targets, processes, max(seconds, _LEAST_RUN_S), seed))
        now("larger cases")
        sizes = dict.fromkeys([*((_FEW, n) for n in LENGTHS), *((rows, _LENGTH) for rows in ROWS)])
        grown = dict(stages.of_sizes(_unbounded(targets, options), sizes, seconds / 10))
    return Measured(costs, plainly, by_processes, grown)


def _is_plain(target: Target) -> bool:
    """What plain.c can call."""
    return target.name.kind == "c" and target.kernel.op == "rms_norm" and "f32" in target.kernel.able.dtypes


def _unbounded(targets: Sequence[Target], options: ThroughputOptions) -> tuple[Target, ...]:
    """The targets of the first op, as their kernels declare them."""
    names, op = {target.id for target in targets}, targets[0].kernel.op
    return tuple(t for t in select_targets(loaded(options.pack).kernels, op) if t.id in names)


def counts(most: int) -> list[int]:
    """1, 2, 4, ... and `most` itself."""
    return sorted({*(1 << power for power in range(most.bit_length())), most})


def _tables(measured: Measured) -> Iterator[tuple[str, PlainTable]]:
    columns = ("target", "judged runs/s", *(f"{stage} us" for stage in STAGES), *(f"{stage} %" for stage in STAGES))
    found = {**measured.plain, measured.targets[-1].what: measured.plainly}
    rows = [
        (*_line(cost), *(f"{cost.share(stage):.0%}" for stage in STAGES), *_beside(cost, found.get(cost.what)))
        for cost in measured.targets
    ]
    yield (
        "Judged runs a second of one processor, and what one takes of it, by stage",
        PlainTable((*columns, "plain way/s", "times"), rows),
    )
    one = measured.scaling[0].rate
    yield (
        "Judged runs a second of one command, by processes",
        PlainTable(
            ("processes", "judged runs/s", "times one"),
            [(str(each.processes), f"{each.rate:,.0f}", f"{each.rate / one:.2f}") for each in measured.scaling],
        ),
    )
    yield (
        "What a judged run takes, by its rows and their length",
        PlainTable(("rows x n", *columns[1:6]), [_line(cost) for cost in measured.sizes.values()]),
    )


def _line(cost: Cost) -> tuple[str, ...]:
    return (cost.what, f"{cost.rate:,.0f}", *(f"{cost.each(stage) * 1e6:,.0f}" for stage in STAGES))


def _beside(cost: Cost, plainly: Plain | None) -> tuple[str, str]:
    return ("", "") if plainly is None else (f"{plainly.rate:,.0f}", f"{cost.rate / plainly.rate:,.0f}")


def _summary(measured: Measured, options: ThroughputOptions) -> Iterator[str]:
    """The best of the command beside the plain way, both by the clock on the wall."""
    best = max(measured.scaling, key=lambda each: each.rate)
    yield ""
    yield f"n <= {options.max_n}, seed {options.seed}, {options.seconds:g} s for each of these measurements"
    plainly = measured.plainly
    if plainly is not None:
        rate = plainly.runs / plainly.seconds
        yield (
            f"{best.rate:,.0f} judged runs/s with {best.processes} processes, {best.rate / rate:,.0f} times the "
            f"{rate:,.0f}/s of the plain way, which failed {plainly.failures:,} of {plainly.runs:,}"
        )


def _plot(measured: Measured, path: Path) -> None:
    from fuzz.quality.pace.plot import draw

    try:
        draw(measured.targets, measured.scaling, measured.sizes, path)
    except ModuleNotFoundError as error:
        raise UsageError("--plot needs matplotlib: pip install matplotlib") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"--plot {path}: {error}") from error


def _record(measured: Measured) -> dict[str, Any]:
    return {
        "targets": [asdict(cost) for cost in measured.targets],
        "plain": [asdict(each) for each in measured.plain.values()],
        "scaling": [asdict(each) for each in measured.scaling],
        "sizes": [{"rows": rows, "n": n, **asdict(cost)} for (rows, n), cost in measured.sizes.items()],
    }
