"""What a selftest says of its mutants: one record of each, a line in a table, and what was explained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.table import Table

from fuzz.campaign.selftest.hunt import MutantResult, Statement
from fuzz.report.console import bare_table


@dataclass(frozen=True)
class HuntedOn:
    """What became of a mutant on one target."""

    target: str
    cases: int
    verdict: str
    """What it was killed as, with the law where that is one; '' where it was not killed."""
    where: str
    trouble: str
    """Why it does not count as killed there."""


@dataclass(frozen=True)
class Hunted:
    """What became of a mutant: the record that processes hand on and that `--json` writes."""

    mutant: str
    base: str
    trigger: str
    provenance: str
    passed: bool
    failed: bool
    """It survived somewhere, or was killed for another reason."""
    not_run: str
    """Why one of its targets did not run."""
    targets: tuple[HuntedOn, ...]
    explained: Statement | None = None


def hunted(result: MutantResult) -> Hunted:
    """The record of a hunt."""
    mutant, runs = result.mutant, []
    for run in result.runs:
        killed = run.killed_by
        verdict = f"{killed.verdict.value} {killed.broken_law_name}".rstrip() if killed is not None else ""
        runs.append(HuntedOn(run.target.id, run.cases, verdict, run.where, run.trouble))
    return Hunted(
        mutant.name, mutant.base, mutant.trigger, mutant.provenance, result.passed, result.failed, result.not_run,
        tuple(runs), result.explained,
    )  # fmt: skip


def mutant_table(results: Sequence[Hunted]) -> Table:
    """Where each was killed, after how many cases, and as what."""
    table = bare_table()
    for column in ("mutant", "base"):
        table.add_column(column, no_wrap=True)
    for column in ("killed on", "cases"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("caught as, on", overflow="fold")
    for result in results:
        killed = [run for run in result.targets if run.verdict and not run.trouble]
        cases = [str(run.cases) for run in killed]
        spread = f"{min(cases, key=int)}..{max(cases, key=int)}" if len(set(cases)) > 1 else "".join(cases[:1])
        counts = f"{len(killed)} of {len(result.targets)} targets"
        table.add_row(
            result.mutant, result.base, counts, spread, _how(result), style="" if result.passed else "red"
        )  # fmt: skip
    return table


def _how(result: Hunted) -> str:
    troubles = {f"{run.target}: {run.trouble}" for run in result.targets if run.trouble}
    if troubles:
        return "; ".join(sorted(troubles))
    if result.not_run:
        return f"NOT_RUN: {result.not_run}"
    verdicts = sorted({run.verdict for run in result.targets if run.verdict})
    return f"{', '.join(verdicts)} on {result.targets[0].where}"


def explained_lines(results: Sequence[Hunted]) -> Iterator[str]:
    """What was planted and what was said of it, one after the other."""
    said = [(result, result.explained) for result in results if result.explained is not None]
    for result, each in said:
        yield f"{result.mutant}: {each.seconds:.1f} s, shrunk to {each.case}"
        yield f"  planted  {result.trigger}"
        yield f"  stated   {each.stated}"
        yield f"  smallest {each.smallest}"
        yield f"  cause    {each.cause}"
        yield from [f"  MISSING  {', '.join(each.missing)}"] if each.missing else []
    named, slowest = sum(not each.missing for _, each in said), max((each.seconds for _, each in said), default=0.0)
    smallest = sum(each.is_smallest for _, each in said)
    yield f"{named} of {len(said)} mutants explained by what was planted; the slowest took {slowest:.1f} s"
    yield f"{smallest} of {len(said)} shrunk cases are the smallest that fail: every smaller one was tried"
