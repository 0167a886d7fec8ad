"""How many cases it takes to find a planted bug: with guidance, and without."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fuzz.case import Case
from fuzz.execute.pool import WorkerPool
from fuzz.execute.target import Target
from fuzz.generate.search import StopSearch, search
from fuzz.judge.judgement import Judgement
from fuzz.judge.twin import EntryJudge
from fuzz.laws.registry import Entry
from fuzz.outcome import Outcome
from fuzz.run.guide import Guide


@dataclass(frozen=True)
class Hunt:
    """A search for one planted bug on one target, whose worker is in `pool`."""

    pool: WorkerPool
    target: Target
    limit: int
    """cases that are tried."""

    def cases(self, seed: int, *, guided: bool) -> int | None:
        """The number of the first case that finds it; None if none does."""
        guide = Guide(seed) if guided else None
        tried, found = 0, False

        def consume(cases: list[Case]) -> None:
            nonlocal tried, found
            for case, outcomes in zip(cases, self.pool.collect(self.pool.submit(cases)), strict=True):
                tried += 1
                judgements = self._judged(case, outcomes)
                found = any(judgement.verdict.is_finding for judgement in judgements)
                if found or tried >= self.limit:
                    raise StopSearch
                if guide is not None:
                    guide.judged(case, judgements)

        search(self.target.kernel.op, seed, consume, [self.target.kernel], guide=guide)
        return tried if found else None

    def _judged(self, case: Case, outcomes: Mapping[str, Outcome]) -> list[Judgement]:
        judge = EntryJudge(Entry(case), outcomes)
        return [judge.judge(self.target)] if self.target.id in outcomes else []
