"""`kernelfuzz learn`: which contracts of its op fit a kernel of which nothing is known."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.cli.options import loaded

if TYPE_CHECKING:
    from fuzz.uses.learn.evidence import KernelRuns
    from fuzz.uses.learn.learning import Candidate, LearnedContracts


_LISTED = 6
"""The most contracts that no run tells apart which are listed: all of them are in `--json`."""


@dataclass(frozen=True)
class LearnOptions:
    """The options of `kernelfuzz learn`."""

    kernel: Annotated[str, typer.Argument(help="A kernel, as `kernelfuzz list kernels` names it.", show_default=False)]
    max_time: Annotated[
        float, typer.Option("--max-time", parser=options.duration, metavar="30s|5m|8h", help="Stop after this long.")
    ] = 180.0
    max_cases: Annotated[int, typer.Option("--max-cases", min=1, help="Run this many cases.")] = 150
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Same seed, same cases. Default: fresh.")] = None
    target: options.Targets = ()
    pack: options.PackFolder = None
    untrusted: options.Untrusted = False
    json: options.Json = None
    jobs: options.Jobs = 0


def learn(options: LearnOptions) -> Exit:
    """Find out what a kernel can promise about its arithmetic: print the narrowest contract that fits its results.

    Its runs are judged under the contracts of its op, whatever it declares. What no run contradicts is a guess that
    fits; more cases may contradict it too. Exit code 1: every contract that was tried is contradicted.

    For example: kernelfuzz learn softmax --pack mine
    """
    from fuzz.base.errors import UsageError
    from fuzz.report import console
    from fuzz.report.records import RecordLog
    from fuzz.uses.learn.evidence import gathered
    from fuzz.uses.learn.learning import Learning
    from fuzz.uses.starting import select_targets, started
    from oracles.ops import OPS

    out, err = console.results(), console.progress()
    pack = loaded(options.pack, untrusted=options.untrusted)
    known = [each for each in (*pack.kernels, *pack.mutated_kernels()) if each.name == options.kernel]
    if not known:
        raise UsageError(f"{options.kernel}: no such kernel; see: kernelfuzz list kernels")
    seed = secrets.randbelow(2**32) if options.seed is None else options.seed
    targets, began = select_targets(known[:1], patterns=options.target), time.monotonic()

    def over(share: float) -> bool:
        return time.monotonic() > began + share * options.max_time

    with RecordLog(options.json) as log, started(targets, options.jobs, err) as pool:
        log.header(seed, pool.statuses)
        with err.status("running cases ..."):
            evidence = gathered(pool, targets, seed, options.max_cases, lambda: over(0.5))
        if not evidence.runs:
            out.print("nothing ran that could be judged")
            return Exit.NOTHING_RAN
        with err.status(f"judging {evidence.judged:,} runs under contracts of {known[0].op} ..."):
            found = Learning(OPS[known[0].op], evidence, lambda: over(1.0)).learned()
        log.note("learned", _record(found, evidence))
        if log.trouble:
            err.print(log.trouble, style="yellow")
    _print(found, evidence, options.kernel, seed)
    return Exit.OK if found.fitting else Exit.FINDINGS


def _print(found: LearnedContracts, evidence: KernelRuns, kernel: str, seed: int) -> None:
    from fuzz.report import console
    from oracles.formula.neighbours import declaration

    out = console.results()
    judged = f"{evidence.judged:,} judged runs of {evidence.cases:,} cases, seed {seed}"
    # Before anything is said of what fits: of these runs nothing is known.
    raised = "".join(f"; {count:,} further runs were not judged: {what}" for what, count in evidence.unjudged.items())
    if found.fitting:
        first, *others = found.fitting
        says = declaration(first.contract)
        out.print(f"{kernel}: {says} is the narrowest contract found that fits all {judged}{raised}", soft_wrap=True)
        out.print(f"its worst err/budget is {first.ratio:.3g}")
        _print_all("these are wider, and fit too", others, first)
        if found.alike:
            more = f", and {len(found.alike) - _LISTED} more" if len(found.alike) > _LISTED else ""
            alike = " or ".join(each.text for each in found.alike[:_LISTED])
            out.print(f"\nno run tells it from one with {alike}{more}", soft_wrap=True)
        _print_all("these are no wider, and contradicted", found.contradicted, first)
    else:
        why = "it has a bug, or calculates as no contract says" if found.whole else "more time may find one: --max-time"
        which = "contract" if found.whole else "contract that was tried in the time"
        out.print(f"{kernel}: no {which} fits {judged}: {why}{raised}", soft_wrap=True)
        widest = min(found.contradicted, key=lambda each: len(declaration(each.contract)), default=None)
        if widest is not None:
            says = f"runs that contradict the widest of each dtype, {declaration(widest.contract)} and the same with"
            _print_all(says, found.contradicted, widest)
    if not found.whole or evidence.cut_short:
        only = f"only {evidence.cases:,} cases were run"
        what = only if evidence.cut_short else "contracts are left that were not tried"
        out.print(f"not finished: the time was over, and {what}; see --max-time", soft_wrap=True)
    if found.fitting:
        out.print(f"\ncontract={declaration(found.fitting[0].contract)}", soft_wrap=True)


def _print_all(title: str, candidates: Sequence[Candidate], best: Candidate) -> None:
    """A line for each, with what it says in place of the best one."""
    from fuzz.findings.accuracy import whereabouts
    from fuzz.report import console
    from fuzz.report.console import PlainTable, print_table
    from oracles.formula.neighbours import differing

    if not candidates:
        return
    rows = []
    for each in candidates:
        says = differing(each.contract, best.contract) or "no change"
        first = "" if each.first is None else f"{whereabouts(each.first)} ({each.first.digest[:12]})"
        rows.append((says, f"{each.width:.3g}", f"{each.contradicted:,}", f"{each.ratio:.3g}", first))
    console.results().print(f"\n{title}:", soft_wrap=True)
    columns = ("contract", "width", "contradicted", "err/budget", "first by")
    print_table(PlainTable(columns, rows), markdown=False)


def _record(found: LearnedContracts, evidence: KernelRuns) -> dict[str, object]:
    from fuzz.findings.casefile import to_json
    from oracles.formula.neighbours import declaration

    def records(candidates: Sequence[Candidate]) -> list[dict[str, object]]:
        return [
            {**vars(each), "contract": declaration(each.contract), "first": each.first and to_json(each.first)}
            for each in candidates
        ]

    return {
        "runs": evidence.judged,
        "cases": evidence.cases,
        "unjudged": dict(evidence.unjudged),
        "fitting": records(found.fitting),
        "alike": [declaration(each.contract) for each in found.alike],
        "contradicted": records(found.contradicted),
        "whole": found.whole,
    }
