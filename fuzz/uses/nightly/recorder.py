"""Watches a night's runs, and saves them with every batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fuzz.adapters.target import Target
from fuzz.base.case import Case
from fuzz.base.verdict import Verdict
from fuzz.findings.accuracy import accuracy_of
from fuzz.findings.book import FindingBook
from fuzz.findings.bucket import Bucket
from fuzz.findings.database_store import Position
from fuzz.findings.store import Unsaved
from fuzz.findings.tally import Observer, Tally
from fuzz.judge.judge import Judgement
from fuzz.uses.search.stopping import Stopping


@dataclass
class Recorder(Observer):
    """An observer of the runner. Whole batches are saved; what cannot be saved now is kept and saved with the next."""

    targets: Mapping[str, Target]
    book: FindingBook
    tally: Tally
    position: Position
    stopping: Stopping
    say: Callable[[str], None]
    """It prints one line for the user."""
    trouble: str = ""
    """Why the latest batches are not saved; '' when everything is."""

    def __post_init__(self) -> None:
        self._laws = dict(self.tally.laws)

    def judged(self, case: Case, judgements: Sequence[Judgement]) -> None:
        """One case on all targets."""
        batch, now = self.book.batch, (self.position.slice, self.position.minute)
        batch.cases[now] += 1
        ran = False
        for judgement in judgements:
            target = judgement.target
            if judgement.verdict is Verdict.NOT_RUN:
                batch.counts["not_run", target] += 1
                batch.reasons[target] = judgement.reason
                continue
            ran = True
            batch.judged[now] += 1
            batch.counts["judged", target] += 1
            batch.counts["findings", target] += judgement.verdict.is_finding
            batch.counts["gave_up", target] += judgement.verdict is Verdict.ORACLE_GAVE_UP
            if judgement.law is not None and judgement.law.name in self.targets[target].kernel.laws:
                batch.counts["twin", target, judgement.law.name] += 1
            if judgement.verdict is Verdict.PASS:
                found = accuracy_of(case, judgement, self.targets[target].numerics)
                if found is not None:
                    batch.note(*found)
        if ran:
            batch.counts.update(("visit", case.op, kind, value) for kind, value in case.origin.labels)
        self._note_replay(case, judgements)

    def progress(self, elapsed: float) -> None:
        """A batch is complete: save it."""
        for law, count in self.tally.laws.items():
            self.book.batch.counts["compared", law] += count - self._laws.get(law, 0)
        self._laws = dict(self.tally.laws)
        self.save()

    def save(self) -> bool:
        """Commit everything up to the last complete batch; False, said once, where it cannot be written."""
        with self.stopping.shielded():
            trouble = self.book.commit()
            if trouble and not self.trouble:
                self.say(f"not saved: {trouble}; the night goes on and tries again after every batch: free some space")
            elif self.trouble and not trouble:
                self.say("saved again: nothing was lost")
            self.trouble = trouble
        return not trouble

    def drop_batch(self) -> None:
        """Forget the batch that was cut off: its cases were not all judged. The database goes on naming the files that
        the batch put others in place of; what no bucket keeps in the end is replayed and removed by the next night."""
        self.book.batch = Unsaved()

    def replayed(self, bucket: Bucket, case: Case, judgement: Judgement) -> None:
        """The kept case of a bucket after the calls that it needs, in a process of its own."""
        self.judged(case, [judgement])
        if judgement.verdict.is_finding:
            self.book.count(bucket, judgement.target)
        elif judgement.verdict is Verdict.PASS:
            self.book.batch.passed.add(bucket.name)
        self.progress(0.0)

    def _note_replay(self, case: Case, judgements: Sequence[Judgement]) -> None:
        """A kept case that no target fails any longer, among them the one that it is kept for: others prove nothing."""
        bucket = self.book.buckets.get(self.book.replaying.get(case.digest, ""))
        if bucket is None or any(judgement.verdict.is_finding for judgement in judgements):
            return
        # What needs earlier calls may be hidden by others in a process that lives on: it is replayed in one of its own.
        if bucket.alone and any((each.target, each.verdict) == (bucket.target, Verdict.PASS) for each in judgements):
            self.book.batch.passed.add(bucket.name)
