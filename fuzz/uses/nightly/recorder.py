"""Watches a night's runs, and saves them twice a second."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fuzz.adapters.target import Target
from fuzz.base.case import Case
from fuzz.base.feature import label_words
from fuzz.base.verdict import Verdict
from fuzz.execute.lane import Wait
from fuzz.findings.book import FindingBook
from fuzz.findings.bucket import Bucket
from fuzz.findings.store import Position
from fuzz.findings.tally import Observer, Tally
from fuzz.generate.conditions import Together
from fuzz.judge.judge import Judgement
from fuzz.uses.search.stopping import Interruption

SAVE_S = 0.5
"""Seconds between two saves: a killed night loses no more, and sixteen processors report hundreds of turns a second."""


@dataclass
class Recorder(Observer):
    """An observer of the runner. Whole turns are saved; what cannot be saved now is kept and saved with the next."""

    targets: Mapping[str, Target]
    book: FindingBook
    position: Position
    stopping: Interruption
    say: Callable[[str], None]
    """It prints one line for the user."""
    remedy: str = "free some space"
    """What is to be done where it cannot be saved."""
    trouble: str = ""
    """Why the latest batches are not saved; '' when everything is."""
    clock: Callable[[], float] = time.monotonic
    _saved: float = -math.inf

    def judged(self, case: Case, judgements: Sequence[Judgement]) -> None:
        """A kept case that no target fails any longer, among them the one that it is kept for: others prove nothing."""
        bucket = self.book.buckets.get(self.book.replaying.get(case.digest, ""))
        if bucket is None or any(judgement.verdict.is_finding for judgement in judgements):
            return
        # What needs earlier calls may be hidden by others in a process that lives on: it is replayed in one of its own.
        if bucket.alone and any((each.target, each.verdict) == (bucket.target, Verdict.PASS) for each in judgements):
            self.book.batch.passed.add(bucket.name)

    def counted(self, more: Tally) -> None:
        """What was judged since the last time."""
        batch, now = self.book.batch, (self.position.slice, self.position.minute)
        batch.cases[now] += more.cases
        batch.judged[now] += more.judged
        for name, line in more.targets.items():
            for what in ("judged", "findings", "gave_up", "not_run"):
                batch.counts[what, name] += getattr(line, what)
            for law, count in line.twins.items():
                batch.counts["twin", name, law] += count
            for (output, dtype), count in line.decided.items():
                batch.counts["open" if count else "decided", name, output, dtype] += count or 1
            if line.not_run:
                batch.reasons[name] = line.not_run_reason
            if line.broken:
                batch.broken[name] = line.broken
        for law, count in more.laws.items():
            batch.counts["compared", law] += count
        for op, visits in more.visits.items():
            batch.counts.update(
                {("visit", op, *label_words(label)): n for label, n in visits.items() if label[0].kind != "target"}
            )
        for op, together in more.together.items():
            batch.together.setdefault(op, Together()).add(together)
        for point, worst in (more.accuracy or {}).items():
            batch.note(point, worst)

    def progress(self, elapsed: float) -> None:
        """Save what was counted, if the last time is long enough ago."""
        if self.clock() - self._saved >= SAVE_S:
            self.save()

    def waiting(self, waits: Sequence[Wait], elapsed: float) -> None:
        """Nothing more may come for long."""
        self.progress(elapsed)

    def save(self) -> bool:
        """Commit everything up to the last complete batch; False, said once, where it cannot be written."""
        self._saved = self.clock()
        with self.stopping.shielded():
            trouble = self.book.commit()
            if trouble and not self.trouble:
                self.say(f"not saved: {trouble}; it goes on, and is tried again after every batch: {self.remedy}")
            elif self.trouble and not trouble:
                self.say("saved again: nothing was lost")
            self.trouble = trouble
        return not trouble

    def replayed(self, bucket: Bucket, case: Case, judgement: Judgement) -> None:
        """The kept case of a bucket after the calls that it needs, in a process of its own."""
        more = Tally(accuracy={})
        more.count(case, [judgement], self.targets)
        self.counted(more)
        self.judged(case, [judgement])
        if judgement.verdict.is_finding:
            self.book.count(bucket, judgement.target)
        elif judgement.verdict is Verdict.PASS:
            self.book.batch.passed.add(bucket.name)
        self.save()
