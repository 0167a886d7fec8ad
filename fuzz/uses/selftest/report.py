"""What a selftest says of its mutants: a line for each, and a record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from fuzz.findings.accuracy import whereabouts
from fuzz.judge.judge import Judgement
from fuzz.report.console import bare_table
from fuzz.uses.selftest.explained import ExplainedMutant
from fuzz.uses.selftest.hunt import MutantResult


def mutant_table(results: Sequence[MutantResult]) -> Table:
    """Where each was killed, after how many cases, and as what."""
    table = bare_table()
    for column in ("mutant", "base"):
        table.add_column(column, no_wrap=True)
    for column in ("killed on", "cases"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("caught as, on", overflow="fold")
    for result in results:
        killed = [run for run in result.runs if run.ok]
        cases = [str(run.cases) for run in killed]
        spread = f"{min(cases, key=int)}..{max(cases, key=int)}" if len(set(cases)) > 1 else "".join(cases[:1])
        style = "" if result.passed else "red"
        counts = f"{len(killed)} of {len(result.runs)} targets"
        table.add_row(result.mutant.name, result.mutant.base, counts, spread, _how(result), style=style)
    return table


def _how(result: MutantResult) -> str:
    troubles = {f"{run.target.id}: {run.trouble}" for run in result.runs if run.trouble}
    if troubles:
        return "; ".join(sorted(troubles))
    if result.not_run:
        return f"NOT_RUN: {result.not_run}"
    verdicts = sorted({_verdict(run.killed_by) for run in result.runs if run.killed_by})
    return f"{', '.join(verdicts)} on {result.runs[0].where}"


def _verdict(judgement: Judgement) -> str:
    """The verdict, and for FAIL_LAW the law."""
    return f"{judgement.verdict.value} {judgement.broken_law_name}".rstrip()


def mutant_facts(results: Sequence[MutantResult]) -> dict[str, Any]:
    """For the JSON record."""
    return {
        "mutants": [
            {
                "mutant": result.mutant.name,
                "base": result.mutant.base,
                "trigger": result.mutant.trigger,
                "provenance": result.mutant.provenance,
                "passed": result.passed,
                "not_run": result.not_run,
                **({"explained": _explained(result.explained)} if result.explained is not None else {}),
                "targets": [
                    {
                        "target": run.target.id,
                        "cases": run.cases,
                        "verdict": run.killed_by.verdict.value if run.killed_by else None,
                        "where": run.where,
                        "trouble": run.trouble,
                    }
                    for run in result.runs
                ],
            }
            for result in results
        ],
    }


def _explained(mutant: ExplainedMutant) -> dict[str, Any]:
    return {
        "stated": mutant.stated,
        "missing": list(mutant.missing),
        "case": whereabouts(mutant.finding.case),
        "smallest": str(mutant.swept),
        "seconds": round(mutant.seconds, 1),
        "lines": list(mutant.finding.lines()),
    }
