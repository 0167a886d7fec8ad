"""A case on fresh workers, alone: what `repro` does, and how a finding that needs earlier calls is told apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fuzz.case import Case
from fuzz.execute.pool import WorkerPool
from fuzz.execute.target import Target
from fuzz.judge.judgement import Judgement
from fuzz.judge.twin import EntryJudge
from fuzz.laws.law import LawCheck
from fuzz.laws.registry import Entry, twin_of
from fuzz.outcome import Outcome
from fuzz.verdict import Verdict


@dataclass(frozen=True)
class Seen:
    """What one target did: with the case, or, where that passes, with the twin of the law that was broken."""

    case: Case
    judgement: Judgement
    outcome: Outcome


def replayed(pool: WorkerPool, targets: Mapping[str, Target], case: Case, law: LawCheck | None) -> dict[str, Seen]:
    """Run and judge the case and, with `law`, right after it its twin; by target."""
    entries = [Entry(case)] if law is None else [Entry(case), twin_of(case, law)]
    seen: dict[str, Seen] = {}
    judge = None
    for entry, outcomes in zip(entries, pool.collect(pool.submit([entry.case for entry in entries])), strict=True):
        judge = EntryJudge(entry, outcomes, judge)
        for name, outcome in outcomes.items():
            judgement = judge.judge(targets[name])
            if name not in seen or (seen[name].judgement.verdict, judgement.verdict.is_finding) == (Verdict.PASS, True):
                seen[name] = Seen(judge.evidence(judgement), judgement, outcome)
    return seen


def passes_alone(case: Case, finding: Judgement, target: Target, case_limit: float | None) -> bool:
    """Whether a failing case passes as the first call of a fresh worker: then it is the calls before that matter."""
    law = finding.law if finding.verdict is Verdict.FAIL_LAW else None
    with WorkerPool([target], limit=case_limit, bounded=False) as pool:
        seen = replayed(pool, {target.id: target}, case, law)
    return target.id in seen and seen[target.id].judgement.verdict is Verdict.PASS
