"""A case on fresh workers, alone or after given calls: what `repro` does, and how a finding that needs earlier calls is
told apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fuzz.adapters.target import Target
from fuzz.base.case import Case
from fuzz.base.outcome import Outcome
from fuzz.base.verdict import Verdict
from fuzz.execute.pool import Pool, WorkerPool
from fuzz.judge.judge import EntryJudge, Judgement
from fuzz.laws.law import LawCheck
from fuzz.laws.registry import Entry, twin_of


@dataclass(frozen=True)
class Seen:
    """What one target did: with the case, or, where that passes, with the twin of the law that was broken."""

    case: Case
    judgement: Judgement
    outcome: Outcome


def replayed(
    pool: Pool,
    targets: Mapping[str, Target],
    case: Case,
    law: LawCheck | None,
    history: Sequence[Case] = (),
) -> dict[str, Seen]:
    """Run the calls of `history`, then the case and, with `law`, right after it its twin; judge these; by target."""
    entries = [Entry(case)] if law is None else [Entry(case), twin_of(case, law)]
    batch = pool.submit([*history, *(entry.case for entry in entries)])
    seen: dict[str, Seen] = {}
    judge = None
    for entry, outcomes in zip(entries, pool.collect(batch)[len(history) :], strict=True):
        judge = EntryJudge(entry, outcomes, judge)
        for name, outcome in outcomes.items():
            judgement = judge.judge(targets[name])
            if name not in seen or (seen[name].judgement.verdict, judgement.verdict.is_finding) == (Verdict.PASS, True):
                seen[name] = Seen(judge.evidence(judgement), judgement, outcome)
    return seen


@dataclass(frozen=True)
class FreshProcess:
    """Tries a failing case again, each time in a new process of the one target in `pool`."""

    pool: WorkerPool
    target: Target
    case: Case
    finding: Judgement

    def verdict(self, history: Sequence[Case] = ()) -> Verdict:
        """What is said of the case after these calls; NOT_RUN where the target is not given it."""
        self.pool.renew()
        law = self.finding.broken_law
        seen = replayed(self.pool, {self.target.id: self.target}, self.case, law, history)
        return seen[self.target.id].judgement.verdict if self.target.id in seen else Verdict.NOT_RUN

    def fails(self, history: Sequence[Case] = ()) -> bool:
        """Whether the case fails after these calls as it was found; alone, whether it fails in any way."""
        verdict = self.verdict(history)
        return verdict is self.finding.verdict if history else verdict.is_finding
