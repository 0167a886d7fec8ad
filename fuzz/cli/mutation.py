"""What `kernelfuzz selftest` does."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from fuzz.adapters.pack import Pack, built_in, load
from fuzz.adapters.target import Target, expand
from fuzz.adapters.toolchain import this_host
from fuzz.base.case import Case
from fuzz.base.mutant import Mutant
from fuzz.base.selection import SelectionError, keyword
from fuzz.cli.exits import Exit
from fuzz.cli.explained_mutants import Told, explained_on, print_told, swept, told_record
from fuzz.execute.pool import WorkerPool
from fuzz.findings.tally import whereabouts
from fuzz.generate.search import StopSearch, search
from fuzz.judge.judge import EntryJudge, Judgement
from fuzz.laws.registry import declared, with_twins
from fuzz.report import console
from fuzz.report.records import environment
from fuzz.triage.history import Need, history_line, recognise
from fuzz.triage.trial import FreshProcess
from fuzz.uses.search.calls import CallLog
from fuzz.uses.search.guide import Guide
from fuzz.uses.starting import not_running, started

_TWIN_ONE_IN = 2
"""cases of which one is checked by a law: more than in a run, since a mutant has few cases to be found in."""


@dataclass(frozen=True)
class Request:
    """The options of `kernelfuzz selftest`."""

    seed: int
    max_cases: int
    keyword: str | None
    pack: Path | None
    json: Path | None
    jobs: int
    explain: bool = False


@dataclass
class Trial:
    """One mutant on one target, beside its base on the same target."""

    mutant: Mutant
    target: Target
    base: Target
    cases: int = 0
    """cases run until it was killed, or in all."""
    killed_by: Judgement | None = None
    evidence: Case | None = None
    """the case that killed it."""
    calls: CallLog = field(default_factory=lambda: CallLog(tuple))
    guide: Guide | None = None
    """told of what is judged, where the mutant is a loss of accuracy."""
    where: str = ""
    trouble: str = ""
    """why this trial fails although, or because, of what was seen."""

    @property
    def ok(self) -> bool:
        return self.killed_by is not None and not self.trouble

    def see(self, judge: EntryJudge) -> None:
        """Judge mutant and base on one case, by its law too where it is a twin.

        A base that fails, or a failure off the trigger, ends the trial.
        """
        if self.killed_by is not None or self.trouble or self.target.id not in judge.outcomes:
            return
        self.cases += 1
        judgement = judge.judge(self.target)
        self.calls.judged(judge.entry.case, [judgement])
        if self.guide is not None:
            self.guide.judged(judge.entry.case, [judgement])
        if not judgement.verdict.is_finding:
            return
        base = judge.judge(self.base)
        case = judge.evidence(judgement)
        self.where = whereabouts(case)
        if base.verdict.is_finding:
            self.trouble = f"its base fails on the same case: {base.verdict.value}"
        elif judgement.verdict.value not in self.mutant.caught_as:
            self.trouble = f"caught as {judgement.verdict.value}, expected {' or '.join(self.mutant.caught_as)}"
        elif not self._on_trigger(case):
            self.trouble = f"fails where the defect cannot show ({self.mutant.trigger})"
        else:
            self.killed_by, self.evidence = judgement, case

    def explain(self) -> None:
        """For a mutant that needs history: see that the case passes alone, and which calls it needs."""
        if self.killed_by is None or self.evidence is None:
            return
        with WorkerPool([self.target]) as pool:
            trial = FreshProcess(pool, self.target, self.evidence, self.killed_by)
            found = recognise(trial.fails, self.evidence, self.calls.before(self.killed_by))
        if found.need is Need.HISTORY:
            self.where = history_line(found.history, self.evidence, f"{self.where}, needs history: fails")
        else:
            self.trouble = f"expected to need history: {found.need.value}"

    def _on_trigger(self, case: Case) -> bool:
        n = case.inputs["x"].layout.shape[int(case.params["axis"])]
        return self.mutant.fails_when is None or self.mutant.fails_when(n)


@dataclass
class Trials:
    """All trials of one mutant."""

    mutant: Mutant
    trials: list[Trial] = field(default_factory=list)
    not_run: str = ""
    told: Told | None = None


def run_selftest(request: Request) -> Exit:
    """Every mutant on every target where it must be killed; exit 0 only if all were, for the right reason."""
    out, err = console.results(), console.progress()
    pack = load(request.pack or built_in())
    mutants = _chosen(pack, request.keyword)
    results = []
    for number, mutant in enumerate(mutants, start=1):
        err.print(f"[{number}/{len(mutants)}] {mutant.name}: {mutant.trigger}")
        results.append(_try(pack, mutant, request, err))
    out.print(_table(results))
    killed = sum(1 for result in results if _passed(result))
    out.print(f"{killed} of {len(results)} mutants killed for the right reason, their bases clean")
    told = [result.told for result in results if result.told is not None]
    if request.explain:
        print_told(out, told)
    if request.json:
        request.json.write_text(json.dumps(_record(results), indent=1) + "\n", encoding="utf-8")
    unexplained = request.explain and not all(each.named and each.swept.smallest for each in told)
    if unexplained or any(trial.trouble or trial.killed_by is None for result in results for trial in result.trials):
        return Exit.FINDINGS
    return Exit.REQUIRED_NOT_RUN if killed < len(results) else Exit.OK


def _chosen(pack: Pack, expression: str | None) -> Sequence[Mutant]:
    matches = keyword(expression) if expression else lambda name: True
    mutants = [mutant for mutant in pack.mutants if matches(mutant.name)]
    if not pack.mutants:
        raise SelectionError(f"{pack.path} plants no bugs: its pack.py defines no MUTANTS")
    if not mutants:
        raise SelectionError(
            f"no mutant matches -k {expression!r}; there are: {', '.join(m.name for m in pack.mutants)}"
        )
    return mutants


def _try(pack: Pack, mutant: Mutant, request: Request, err: Console) -> Trials:
    """Search until every target of the mutant has killed it, or the case limit is reached."""
    base = pack.kernel(mutant.base)
    pairs = zip(expand([mutant.apply(base)], this_host()), expand([base], this_host()), strict=True)
    result = Trials(mutant)
    result.trials = [
        Trial(mutant, target, twin)
        for target, twin in pairs
        if any(fnmatchcase(target.id, pattern) for pattern in mutant.targets)
    ]
    targets = [target for trial in result.trials for target in (trial.target, trial.base)]
    with started(targets, request.jobs, err) as pool:
        missing = not_running(pool)
        result.not_run = next(iter(missing.values()), "")
        result.trials = [trial for trial in result.trials if trial.target.id not in missing]
        began = time.monotonic()
        _hunt(pool, base.op, result.trials, request)
        shown = next((trial for trial in result.trials if trial.ok), None)
        if request.explain and shown is not None and shown.evidence is not None and shown.killed_by is not None:
            explained = explained_on(base, shown.target, shown.evidence, shown.killed_by)
            seconds = time.monotonic() - began
            result.told = Told(mutant, explained, seconds, swept(explained, shown.target.kernel, shown.killed_by))
    for trial in result.trials:
        if trial.killed_by is None and not trial.trouble:
            trial.trouble = f"survived {trial.cases} cases"
        elif mutant.needs_history:
            trial.explain()
    return result


def _hunt(pool: WorkerPool, op: str, trials: Sequence[Trial], request: Request) -> None:
    sent = 0
    laws = declared(trial.target.kernel for trial in trials)
    guide = Guide(request.seed) if trials and trials[0].mutant.of_size else None
    for trial in trials:
        trial.guide = guide

    def consume(cases: list[Case]) -> None:
        nonlocal sent
        if sent >= request.max_cases or all(trial.killed_by or trial.trouble for trial in trials):
            raise StopSearch
        entries = with_twins(cases, laws, _TWIN_ONE_IN)
        sent += len(entries)
        before = None
        batch = pool.submit([entry.case for entry in entries])
        for entry, outcomes in zip(entries, pool.collect(batch), strict=True):
            before = EntryJudge(entry, outcomes, before)
            for trial in trials:
                trial.see(before)

    if trials:
        kernels = [trial.base.kernel for trial in trials]
        search(op, request.seed, consume, kernels, trials[0].mutant.big, guide=guide)


def _passed(result: Trials) -> bool:
    return bool(result.trials) and not result.not_run and all(trial.ok for trial in result.trials)


def _table(results: Sequence[Trials]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("mutant", "base"):
        table.add_column(column, no_wrap=True)
    for column in ("killed on", "cases"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("caught as, on", overflow="fold")
    for result in results:
        killed = [trial for trial in result.trials if trial.ok]
        cases = [str(trial.cases) for trial in killed]
        spread = f"{min(cases, key=int)}..{max(cases, key=int)}" if len(set(cases)) > 1 else "".join(cases[:1])
        style = "" if _passed(result) else "red"
        counts = f"{len(killed)} of {len(result.trials)} targets"
        table.add_row(result.mutant.name, result.mutant.base, counts, spread, _how(result), style=style)
    return table


def _how(result: Trials) -> str:
    troubles = {f"{trial.target.id}: {trial.trouble}" for trial in result.trials if trial.trouble}
    if troubles:
        return "; ".join(sorted(troubles))
    if result.not_run:
        return f"NOT_RUN: {result.not_run}"
    verdicts = sorted({_verdict(trial.killed_by) for trial in result.trials if trial.killed_by})
    return f"{', '.join(verdicts)} on {result.trials[0].where}"


def _verdict(judgement: Judgement) -> str:
    """The verdict, and for FAIL_LAW the law."""
    return f"{judgement.verdict.value} {judgement.broken_law_name}".rstrip()


def _record(results: Sequence[Trials]) -> dict[str, Any]:
    return {
        "environment": environment(),
        "mutants": [
            {
                "mutant": result.mutant.name,
                "base": result.mutant.base,
                "trigger": result.mutant.trigger,
                "provenance": result.mutant.provenance,
                "passed": _passed(result),
                "not_run": result.not_run,
                **({"explained": told_record(result.told)} if result.told is not None else {}),
                "targets": [
                    {
                        "target": trial.target.id,
                        "cases": trial.cases,
                        "verdict": trial.killed_by.verdict.value if trial.killed_by else None,
                        "where": trial.where,
                        "trouble": trial.trouble,
                    }
                    for trial in result.trials
                ],
            }
            for result in results
        ],
    }
